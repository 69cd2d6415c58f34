"""Analytic goodput of a training job on any configuration: throughput x statistical efficiency.

Time and batch size in units of the job's initial batch M0 on one GPU of a type; m = M / M0, n GPUs on k
nodes:

    T_grad = a + (1 - a) m / n                      an iteration's own work, with a part that does not shrink
    T_sync = 0 (n = 1), else s_local (k = 1), else s_node (1 + log2(k) / 8)       all-reduce
    T_iter = (T_grad^g + T_sync^g)^(1/g)            overlap of the two, g = 1.6
    efficiency = (noise + 1) / (noise + m)          noise: gradient noise scale over M0, rises with progress
    goodput = speed(type) max_m  m / T_iter(m) efficiency(m),   1 <= m <= m_max

The form is that of Pollux (section 3.1 and 3.2, equations 6 to 11) and Sia (thesis section 3.3.2), with two
simplifications: the all-reduce grows with the logarithm of the nodes, so that it stays meaningful on hundreds
of them, and a type has a speed but no scaling of its own.  Pollux' own model, one for each type, is that of
:mod:`.goodput`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from copter.problems.cluster.cluster import Configurations
from copter.problems.cluster.profiles import Profile, Row

OVERLAP = 1.6
BATCH_SIZES = 24
"""Points of the geometric grid on which the best batch size is looked for."""
LEVELS = 8
"""Levels into which a training job's progress is cut: how often its goodput is reported as changed."""


@dataclass(frozen=True)
class Scaling:
    """How a training job scales; see the module for the symbols.

    Attributes
    ----------
    m_max : float
        Largest batch over the initial one.
    noise : (float, float)
        Gradient noise scale at the start and at the end of training, over the initial batch.
    overhead : float
        a.
    sync : (float, float)
        s_local, s_node.
    """

    m_max: float
    noise: tuple[float, float]
    overhead: float
    sync: tuple[float, float]

    def speedup(self, gpus: NDArray[np.int64], nodes: NDArray[np.int64], noise: float) -> NDArray[np.float64]:
        """Goodput over that of one GPU without noise limits, for arrays of configurations.

        Parameters
        ----------
        gpus, nodes : (n,) int array
        noise : float
            Gradient noise scale over the initial batch.

        Returns
        -------
        (n,) array
        """
        batch = np.geomspace(1.0, self.m_max, BATCH_SIZES)[:, None]
        compute = self.overhead + (1.0 - self.overhead) * batch / gpus
        between = self.sync[1] * (1.0 + np.log2(nodes) / 8.0)
        wait = np.where(gpus == 1, 0.0, np.where(nodes == 1, self.sync[0], between))
        seconds = (compute**OVERLAP + wait**OVERLAP) ** (1.0 / OVERLAP)
        return (batch / seconds * (noise + 1.0) / (noise + batch)).max(axis=0)

    def throughput(self, gpus: NDArray[np.int64], nodes: NDArray[np.int64]) -> NDArray[np.float64]:
        """Speedup at the initial batch size."""
        return Scaling(1.0, self.noise, self.overhead, self.sync).speedup(gpus, nodes, 0.0)


class TrainingProfile(Profile):
    """Goodput of an adaptive training job, cut into levels in which its gradient noise grows geometrically.

    Parameters
    ----------
    speed : mapping of GPU type to float
        Progress a second on one GPU at the initial batch size; other types cannot run the job.
    """

    def __init__(
        self,
        name: str,
        restart_seconds: float,
        work: float,
        speed: Mapping[str, float],
        scaling: Scaling,
        *,
        levels: int = LEVELS,
    ) -> None:
        super().__init__(name, restart_seconds, work * np.arange(1, levels + 1) / levels)
        self.speed = dict(speed)
        self.scaling = scaling
        first, last = scaling.noise
        self.noise = np.geomspace(first, last, levels)
        self._computed: dict[int, Row] = {}
        self._computed_for: Configurations | None = None

    def row(self, configurations: Configurations, level: int) -> Row:  # noqa: D102 - see Profile
        if self._computed_for is not configurations:
            self._computed, self._computed_for = {}, configurations
        if level not in self._computed:
            self._computed[level] = self._compute(configurations, level)
        return self._computed[level]

    def _compute(self, configurations: Configurations, level: int) -> Row:
        speed = np.array([self.speed.get(type, 0.0) for type in configurations.types])
        columns = np.flatnonzero(speed[configurations.type_index] > 0)
        gpus, nodes = configurations.gpus[columns], configurations.nodes[columns]
        speedup = self._speedup(gpus, nodes, level)
        return columns, speed[configurations.type_index[columns]] * speedup

    def _speedup(self, gpus: NDArray[np.int64], nodes: NDArray[np.int64], level: int) -> NDArray[np.float64]:
        return self.scaling.speedup(gpus, nodes, float(self.noise[level]))

    def rates(self, configurations: Configurations, column: int) -> NDArray[np.float64]:  # noqa: D102
        rows = [self.row(configurations, level) for level in range(self.n_levels)]
        at = int(np.searchsorted(rows[0][0], column))
        if at == rows[0][0].size or rows[0][0][at] != column:
            return np.zeros(self.n_levels)
        return np.array([values[at] for _, values in rows])

    def at_fixed_batch(self, batch_size: int | None = None) -> Profile:
        """Throughput at the initial batch size, the only one in examples that it knows."""
        return _FixedBatchProfile(
            self.name, self.restart_seconds, self.work, self.speed, self.scaling, levels=1
        )


class _FixedBatchProfile(TrainingProfile):
    def _speedup(self, gpus: NDArray[np.int64], nodes: NDArray[np.int64], level: int) -> NDArray[np.float64]:
        return self.scaling.throughput(gpus, nodes)

    def at_fixed_batch(self, batch_size: int | None = None) -> Profile:
        return self


class PowerLawProfile(TrainingProfile):
    """Throughput ``speed n^exponent / (1 + n / saturation)``: a job with one phase and no batch to adapt."""

    def __init__(
        self,
        name: str,
        restart_seconds: float,
        work: float,
        speed: Mapping[str, float],
        exponent: float,
        saturation: float,
    ) -> None:
        fixed = Scaling(1.0, (1.0, 1.0), 0.0, (0.0, 0.0))
        super().__init__(name, restart_seconds, work, speed, fixed, levels=1)
        self.exponent, self.saturation = exponent, saturation

    def _speedup(self, gpus: NDArray[np.int64], nodes: NDArray[np.int64], level: int) -> NDArray[np.float64]:
        return gpus**self.exponent / (1.0 + gpus / self.saturation)

    def at_fixed_batch(self, batch_size: int | None = None) -> Profile:
        """Itself: there is no batch size to fix."""
        return self
