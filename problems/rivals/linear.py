"""Programs over shares of time on types, which live through a simulation and are solved warm.

Shares x_jt >= 0 of time of job j, with g_j GPUs, on type t, which has M_t of them:

    sum_t x_jt <= 1 for all j,    sum_j g_j x_jt <= M_t for all t,

and one of two objectives:

    greatest sum        maximise  sum_jt w_jt x_jt
    greatest least      maximise  theta   s.t.  theta <= sum_t r_jt x_jt for all j

The greatest least leaves open who has what the poorest cannot use; a small gain of time for all decides it
(:data:`LEFTOVER`).  Every job is a request with one column for each type that can run it; jobs that come and
go, and rates that change, are edits.

Source: Gavel (Narayanan et al., OSDI 2020), sections 3.1 and 4.
"""

from __future__ import annotations

from collections.abc import Hashable

import numpy as np
from numpy.typing import NDArray

from copter.errors import SolverError
from copter.problems.rivals.rigid import RigidRound
from copter.program.program import ContinualProgram
from copter.solvers.base import Solver
from copter.solvers.registry import make_solver

LEFTOVER = 1e-3
"""Gain of a GPU's time for any job, in units of the poorest job's share, over the number of jobs."""
MOST = 1e4
"""Largest rate on a job's best type: larger ones, of jobs that are all but done, only spoil the scaling."""
_THETA = ("theta",)


class ShareProgram:
    """What both objectives have in common: a request for each job, its columns, and the GPUs.

    Parameters
    ----------
    solver : Solver or str
        A solver, or the name of one.
    """

    def __init__(self, solver: Solver | str = "copter") -> None:
        self.solver = make_solver(solver) if isinstance(solver, str) else solver
        self.program = ContinualProgram()
        self._types: list[str] = []
        self._sent: dict[str, tuple[bytes, bytes]] = {}

    def _edit(self, now: RigidRound, costs: NDArray[np.float64], rates: NDArray[np.float64] | None) -> None:
        """Bring capacities and jobs up to date: costs (n, T), and rates (n, T) of the jobs' own rows."""
        for type in now.cluster.types:
            if type.name not in self._types:
                self.program.add_resource(_gpus(type.name), 0.0)
                self._types.append(type.name)
            self.program.update_resources(_gpus(type.name), upper=type.gpus)
        names = now.names
        here = set(names)
        gone = [name for name in self._sent if name not in here]
        self.program.remove_requests(gone)
        for name in gone:
            del self._sent[name]
            if rates is not None:
                self.program.remove_resources(_floor(name))
        for at in range(len(names)):
            self._edit_job(now, at, costs[at], None if rates is None else rates[at])

    def _edit_job(
        self, now: RigidRound, at: int, costs: NDArray[np.float64], rates: NDArray[np.float64] | None
    ) -> None:
        runs = np.flatnonzero(now.speed[at] > 0)
        own, name = costs[runs], now.jobs[at].name
        shape = runs.tobytes() + (b"" if rates is None else rates.tobytes())
        before, paid = self._sent.get(name, (b"", b""))
        self._sent[name] = shape, own.tobytes()
        if shape == before:
            if own.tobytes() != paid:
                self.program.update_request(name, costs=own)
            return
        gpus = float(now.gpus[at])
        usage: dict[Hashable, tuple[list[int], list[float]]] = {
            _gpus(now.cluster.names[t]): ([k], [gpus]) for k, t in enumerate(runs.tolist())
        }
        if rates is not None:
            usage[_floor(name)] = (list(range(runs.size)), (-rates[runs]).tolist())
        if before:
            self.program.update_request(name, costs=own, usage=usage)
            return
        if rates is not None:
            self.program.add_resource(_floor(name), 0.0)
        self.program.add_request(name, own, usage, total=1.0)

    def _solve(self, now: RigidRound) -> NDArray[np.float64]:
        """Solve, and read the shares of all jobs, shape (n, T)."""
        solution = self.solver.solve(self.program)
        if solution.x is None:
            raise SolverError(f"shares of {len(now.jobs)} jobs: {solution.status}: {solution.reason}")
        shares = np.zeros(now.speed.shape)
        for at, name in enumerate(now.names):
            shares[at, now.speed[at] > 0] = solution.x[name]
        return shares.clip(0.0, 1.0)


class GreatestSum(ShareProgram):
    """The greatest weighted sum of shares."""

    def solve(self, now: RigidRound, weights: NDArray[np.float64]) -> NDArray[np.float64]:
        """Shares for the jobs that are there.

        Parameters
        ----------
        weights : (n, T) array
            Gain of a job's time on each type, in any unit.

        Returns
        -------
        (n, T) array
        """
        self._edit(now, -weights / weights.max(), None)
        return self._solve(now)


class GreatestLeast(ShareProgram):
    """The greatest rate of the job that is worst off."""

    def solve(self, now: RigidRound, rates: NDArray[np.float64]) -> NDArray[np.float64]:
        """Shares for the jobs that are there.

        Parameters
        ----------
        rates : (n, T) array
            What a job makes of its time on each type, in a unit in which the least is near 1; a job that
            makes more than :data:`MOST` counts as one that makes so much.

        Returns
        -------
        (n, T) array
        """
        rates = rates / np.maximum(rates.max(axis=1, keepdims=True) / MOST, 1.0)
        gain = LEFTOVER / len(now.jobs)
        costs = -gain * now.relative_speed * (now.gpus / now.gpus.max())[:, None]
        # The common bound refers to every job's row, so it goes first and comes last.
        if _THETA in self.program:
            self.program.remove_request(_THETA)
        self._edit(now, costs, rates)
        rows = {_floor(name): 1.0 for name in now.names}
        self.program.add_request(_THETA, np.array([-1.0]), rows, upper=float(rates.max(axis=1).min()))
        return self._solve(now)


def _gpus(type: str) -> Hashable:
    return "gpus", type


def _floor(name: str) -> Hashable:
    return "floor", name
