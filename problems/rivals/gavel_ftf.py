"""Gavel's finish-time fairness: no job later than need be, against 1/n of the cluster for itself.

    minimise  max_j rho_j,      rho_j = (t_j + R_j / sum_t v_jt x_jt) / D_j

with t_j the age of job j, R_j the progress that it has to make yet, v_jt its speed on type t, and D_j the
time that it would take in all on its 1/n of every type.  A given rho is met if every job makes R_j / (rho
D_j - t_j) a second, which is a linear program; the rho that its answer really has is the next one to beat
(Dinkelbach's method), until it falls no more.

Source: Gavel (Narayanan et al., OSDI 2020), section 4.2; Themis (Mahajan et al., NSDI 2020) for rho.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from copter.problems.rivals.linear import GreatestLeast
from copter.problems.rivals.rigid import RigidRound
from copter.solvers.base import Solver

MOST_PROGRAMS = 12
"""Programs that are solved for one set of shares, at most."""
PROGRESS = 1e-3
"""Relative fall of the worst rho below which the method stops."""


class FinishTimeFairness:
    """Shares with the smallest worst finish-time fairness."""

    name = "gavel-ftf"

    def __init__(self, solver: Solver | str = "copter") -> None:
        self.program = GreatestLeast(solver)
        self._alone: dict[str, tuple[float, float, float]] = {}

    def shares(self, now: RigidRound) -> NDArray[np.float64]:
        """Shares of time, see :class:`~copter.problems.rivals.mechanism.Shares`."""
        equal = equal_shares(now)
        finish = self._seconds_alone(now, (equal * now.speed).sum(axis=1))
        shares, worst = equal, worst_rho(now, equal, finish)
        for _ in range(MOST_PROGRAMS):
            needed = now.left / (worst * finish - now.age)
            better = self.program.solve(now, now.speed / needed[:, None])
            rho = worst_rho(now, better, finish)
            # Of two with the same worst rho the program's is better: it leaves no time unused.
            if rho <= worst * (1.0 + PROGRESS):
                shares = better
            if rho >= worst * (1.0 - PROGRESS):
                break
            worst = rho
        return shares

    def _seconds_alone(self, now: RigidRound, speed: NDArray[np.float64]) -> NDArray[np.float64]:
        """D_j: what the progress so far would have taken on 1/n of the cluster, and what is left would."""
        alone: dict[str, tuple[float, float, float]] = {}
        for job, own, left in zip(now.jobs, speed.tolist(), now.left.tolist(), strict=True):
            before, at, seconds = self._alone.get(job.name, (0.0, own, 0.0))
            progress = job.work - left
            alone[job.name] = progress, own, seconds + (progress - before) / at
        self._alone = alone
        return np.array([alone[name][2] for name in now.names]) + now.left / speed


def equal_shares(now: RigidRound) -> NDArray[np.float64]:
    """Shares of time that 1/n of the GPUs of every type come to, at most all of it, shape (n, T)."""
    shares = np.where(now.speed > 0, now.capacity / (len(now.jobs) * now.gpus[:, None]), 0.0)
    return shares / np.maximum(shares.sum(axis=1, keepdims=True), 1.0)


def worst_rho(now: RigidRound, shares: NDArray[np.float64], finish: NDArray[np.float64]) -> float:
    """Largest rho of all jobs.

    Parameters
    ----------
    shares : (n, T) array
    finish : (n,) array
        Seconds that each job would take on its own share.
    """
    speed = (shares * now.speed).sum(axis=1)
    left = np.divide(now.left, speed, out=np.full(speed.size, np.inf), where=speed > 0)
    return float(((now.age + left) / finish).max())
