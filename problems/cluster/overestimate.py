"""Overestimate, then measure: throughput is linear in the GPUs until a job has run on them.

With the largest count k of GPUs of a type on which a job ran, at speed v(k), and g the count in question,

    est(g) = v(g)            if it ran on g GPUs, or on more: shrinking to measure costs milliseconds
             v(k) g / k      otherwise

A job that never ran on a type is known by the speed of one GPU, or of the fewest that it runs on: the first
iterations give it before the share is settled.

Source: AFS, section 4.2 ("overestimate first and re-adjust later").
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from copter.problems.cluster.cluster import Configuration, Configurations
from copter.problems.cluster.parts import Estimator
from copter.problems.cluster.policy import ClusterState
from copter.problems.cluster.profiles import Profile, Row


class LinearBeyond(Profile):
    """A profile as it seems where it was measured up to some GPUs of each type.

    Parameters
    ----------
    measured : mapping of str to int
        Largest GPU count on which the job ran, by type.
    """

    def __init__(self, truth: Profile, measured: dict[str, int]) -> None:
        super().__init__(truth.name, truth.restart_seconds, truth.progress, truth.calibration)
        self.truth, self.measured = truth, dict(measured)

    def row(self, configurations: Configurations, level: int) -> Row:  # noqa: D102 - see Profile
        columns, values = self.truth.row(configurations, level)
        types, gpus = configurations.type_index[columns], configurations.gpus[columns]
        values = np.array(values, np.float64)
        for position, type in enumerate(configurations.types):
            here = np.flatnonzero(types == position)
            if not here.size:
                continue
            here = here[np.argsort(gpus[here], kind="stable")]
            known = int(np.searchsorted(gpus[here], self.measured.get(type, 0), side="right"))
            last = here[max(known - 1, 0)]
            beyond = here[max(known, 1) :]
            values[beyond] = values[last] * gpus[beyond] / gpus[last]
        return columns, values

    def rates(self, configurations: Configurations, column: int) -> NDArray[np.float64]:  # noqa: D102
        nodes, gpus, type = configurations[column]
        truth = self.truth.curve(configurations[column])
        known = self.measured.get(type, 0)
        if gpus <= known or not truth.any():
            return truth
        per_node = -(-gpus // nodes)
        for fewest in (known,) if known else range(1, gpus):
            rates = self.truth.curve(Configuration(-(-fewest // per_node), fewest, type))
            if rates.any():
                return rates * (gpus / fewest)
        return truth


class Overestimate(Estimator):
    """The estimator."""

    def __init__(self) -> None:
        self._measured: dict[str, dict[str, int]] = {}

    def observe(self, now: ClusterState) -> None:
        """Learn from the GPUs that jobs ran on."""
        for job in now.left:
            self._measured.pop(job.name, None)
        for name, job in now.jobs.items():
            new = name not in self._measured
            known = self._measured.setdefault(name, {})
            held = job.allocation
            more = held is not None and job.run_seconds > 0 and held.gpus > known.get(held.type, 0)
            if held is not None and more:
                known[held.type] = held.gpus
            if new or more:
                job.seen = LinearBeyond(job.profile, known)
