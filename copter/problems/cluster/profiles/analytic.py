"""Analytic goodput of a training job on any configuration: throughput x statistical efficiency.

Time and batch size are in units of the job's initial batch M0 on one GPU of a type.  With m = M / M0 and n
GPUs on k nodes:

    T_grad = a + (1 - a) m / n                      work of an iteration, with a constant part a
    T_sync = 0 (n = 1), else s_local (k = 1), else s_node (1 + log2(k) / 8)       all-reduce
    T_iter = (T_grad^g + T_sync^g)^(1/g)            overlap of the two, g = 1.6
    efficiency = (noise + 1) / (noise + m)          noise: gradient noise scale / M0, rises with progress
    goodput = speed(type) max_m  m / T_iter(m) efficiency(m),   1 <= m <= m_max

The form is that of Pollux (section 3.1 and 3.2, equations 6 to 11) and Sia (thesis section 3.3.2), with two
simplifications.  The time of an all-reduce grows with the logarithm of the number of nodes, so that it stays
meaningful on hundreds of nodes.  GPU types differ in speed, not in scaling.  The model of Pollux, with
parameters for each type, is in :mod:`.goodput`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from copter.arrays import Floats, Ints
from copter.problems.cluster.cluster import Configurations
from copter.problems.cluster.profiles.base import Profile

_OVERLAP = 1.6
_BATCH_SIZES = 24
"""Number of points of the geometric grid on which the best batch size is searched."""
_LEVELS = 8
"""Number of levels of a training job's progress; its goodput changes between levels."""


@dataclass(frozen=True)
class Scaling:
    """Scaling of a training job; the module defines the symbols.

    `m_max`: largest batch divided by the initial batch. `noise`: gradient noise scale at the start and at the
    end of training, divided by the initial batch. `overhead`: a. `sync`: s_local, s_node.
    """

    m_max: float
    noise: tuple[float, float]
    overhead: float
    sync: tuple[float, float]

    def speedup(self, gpus: Ints, nodes: Ints, noise: float) -> Floats:
        """Return the goodput relative to one GPU at the initial batch, for arrays of configurations.

        `noise`: gradient noise scale divided by the initial batch.
        """
        batch = np.geomspace(1.0, self.m_max, _BATCH_SIZES)[:, None]
        compute = self.overhead + (1.0 - self.overhead) * batch / gpus
        between = self.sync[1] * (1.0 + np.log2(nodes) / 8.0)
        wait = np.where(gpus == 1, 0.0, np.where(nodes == 1, self.sync[0], between))
        seconds = (compute**_OVERLAP + wait**_OVERLAP) ** (1.0 / _OVERLAP)
        return (batch / seconds * (noise + 1.0) / (noise + batch)).max(axis=0)


class TrainingProfile(Profile):
    """Goodput of an adaptive training job, in levels between which its gradient noise grows geometrically.

    `speed`: progress per second on one GPU at the initial batch size, by type; other types cannot run the
    job.
    """

    def __init__(
        self,
        name: str,
        restart_seconds: float,
        work: float,
        speed: Mapping[str, float],
        scaling: Scaling,
        *,
        levels: int = _LEVELS,
    ) -> None:
        super().__init__(name, restart_seconds, work * np.arange(1, levels + 1) / levels)
        self.speed, self.scaling = dict(speed), scaling
        self.noise = np.geomspace(*scaling.noise, levels)

    def speeds(self, shapes: Configurations, levels: Ints) -> Floats:  # noqa: D102
        speed = np.array([self.speed.get(type, 0.0) for type in shapes.types])[shapes.type_index]
        noise = self.noise[levels].tolist()
        return np.stack(
            [speed * self.scaling.speedup(shapes.gpus, shapes.nodes, one) for one in noise], axis=1
        )

    def at_fixed_batch(self, batch_size: int | None = None) -> Profile:
        """Return the throughput at the initial batch size, whatever `batch_size`."""
        if self.scaling.m_max == 1.0 and self.n_levels == 1:
            return self
        fixed = replace(self.scaling, m_max=1.0)
        return self._variant("fixed", progress=self.progress[-1:], scaling=fixed, noise=np.zeros(1))
