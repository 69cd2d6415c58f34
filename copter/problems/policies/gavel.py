"""Gavel's policies: linear programs over shares of time on types, kept during a simulation.

Let x_jt >= 0 be the share of time that job j, with g_j GPUs, has on type t, which has M_t GPUs:

    sum_t x_jt <= 1 for all j,    sum_j g_j x_jt <= M_t for all t,

and one of two objectives, with weights w_jt or rates r_jt:

    greatest sum        maximise  sum_jt w_jt x_jt
    greatest least      maximise  theta   s.t.  theta <= sum_t r_jt x_jt for all j

The second objective does not determine which jobs get the time that the job with the least rate cannot use,
so every share also has a small gain (`_LEFTOVER`).  Every job is a request with one column for each type that
can run it.  Jobs that arrive and leave, and rates that change, are edits, and every program is solved with a
warm start.

Source: Gavel (Narayanan et al., OSDI 2020), sections 3.1 and 4.
"""

from __future__ import annotations

from collections.abc import Hashable

import numpy as np

from copter.arrays import Floats
from copter.errors import SolverError
from copter.problems.policies.mechanism import RESET_SECONDS, ROUND_SECONDS, Mechanism, RigidRound
from copter.program.program import ContinualProgram
from copter.solvers.base import Solver
from copter.solvers.registry import repeatable_solver

_LEFTOVER = 1e-3
"""Gain of all of the time of the largest job on its best type, in units of theta / number of jobs."""
_MOST = 1e4
"""Largest rate on a job's best type; larger rates, of almost completed jobs, only worsen the scaling."""
_MOST_PROGRAMS = 12
"""Largest number of programs that are solved for one set of shares of finish-time fairness."""
_PROGRESS = 1e-3
"""Relative decrease of the worst rho below which the search for finish-time fairness stops."""
_STARVED = 1e-6
"""Least share of the fastest job; the interior-point solver of Gavel's authors leaves such small shares."""
_LEAST_SECONDS = 1e-6
_THETA = ("theta",)


class _Gavel(Mechanism):
    """Common part of the policies: a program with a request for each job, its columns, and the GPUs."""

    def __init__(
        self,
        solver: Solver | str = "copter",
        *,
        round_seconds: float = ROUND_SECONDS,
        reset_seconds: float = RESET_SECONDS,
    ) -> None:
        super().__init__(round_seconds=round_seconds, reset_seconds=reset_seconds)
        self.solver = repeatable_solver(solver) if isinstance(solver, str) else solver
        self.program = ContinualProgram()
        self._types: list[str] = []
        self._sent: dict[str, tuple[bytes, bytes]] = {}

    def _greatest_sum(self, now: RigidRound, weights: Floats) -> Floats:
        """Return the shares with the greatest weighted sum, for (n, T) weights in any unit."""
        self._edit(now, -weights / weights.max(), None)
        return self._solve(now)

    def _greatest_least(self, now: RigidRound, rates: Floats) -> Floats:
        """Return the shares that maximise the least rate of a job.

        Rates (n, T) are those of each job's time on each type, in a unit in which the least one is near 1.
        Rates above `_MOST` count as `_MOST`.
        """
        rates = rates / np.maximum(rates.max(axis=1, keepdims=True) / _MOST, 1.0)
        gain = _LEFTOVER / len(now.jobs)
        costs = -gain * now.relative_speed * (now.gpus / now.gpus.max())[:, None]
        # Theta is in every job's row, so it is removed first and added last.
        if _THETA in self.program:
            self.program.remove_request(_THETA)
        self._edit(now, costs, rates)
        rows = {_floor(name): 1.0 for name in now.names}
        self.program.add_request(_THETA, np.array([-1.0]), rows, upper=float(rates.max(axis=1).min()))
        return self._solve(now)

    def _edit(self, now: RigidRound, costs: Floats, rates: Floats | None) -> None:
        """Update capacities, and jobs with their costs (n, T) and the rates (n, T) in their own rows."""
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

    def _edit_job(self, now: RigidRound, at: int, costs: Floats, rates: Floats | None) -> None:
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

    def _solve(self, now: RigidRound) -> Floats:
        """Solve the program, and return the shares of all jobs, shape (n, T)."""
        solution = self.solver.solve(self.program)
        if not solution.found:
            raise SolverError(f"shares of {len(now.jobs)} jobs: {solution.status}: {solution.reason}")
        shares = np.zeros(now.speed.shape)
        for at, name in enumerate(now.names):
            shares[at, now.speed[at] > 0] = solution.x[name]
        return shares.clip(0.0, 1.0)


def _gpus(type: str) -> Hashable:
    return "gpus", type


def _floor(name: str) -> Hashable:
    return "floor", name


class MaxMinFairness(_Gavel):
    """Max-min fairness (least attained service): the least share of the cluster that a job has is maximal.

        maximise  min_j  g_j sum_t (v_jt / v_j) x_jt

    with v_jt the speed of job j on type t and v_j = sum_t (M_t / M) v_jt its speed on an equal share of all
    types.  A job on one GPU gets g times the time of a job on g GPUs.

    Source: section 4.1 with the scale factors of section 4.4 and equal weights; on one type it is the "Gavel"
    of Shockwave's section 8.2.
    """

    name = "gavel"

    def shares(self, now: RigidRound) -> Floats:  # noqa: D102 - see Mechanism
        return self._greatest_least(now, now.gpus[:, None] * now.speed / now.mean_speed[:, None])


class Makespan(_Gavel):
    """Least makespan: the present jobs complete together as early as possible.

        minimise  max_j  R_j / sum_t v_jt x_jt      =      maximise  min_j  sum_t (v_jt / R_j) x_jt

    with R_j the remaining progress of job j and v_jt its speed on type t.

    Source: section 4.2 ("minimize makespan").  The authors' code calls it min total duration and uses
    bisection; here it is one linear program.
    """

    name = "gavel-makespan"

    def shares(self, now: RigidRound) -> Floats:  # noqa: D102
        seconds = now.seconds_left.clip(min=_LEAST_SECONDS)
        # These two values are lower bounds on the makespan; in their unit, the program's optimum is near 1.
        quickest = seconds.min(axis=1)
        bound = max(float(quickest.max()), float(quickest @ now.gpus) / now.cluster.gpus)
        return self._greatest_least(now, bound / seconds)


class MaxSumThroughput(_Gavel):
    """Largest total of training steps per second; jobs that need many GPUs for a step may starve.

        maximise  sum_jt v_jt x_jt

    with v_jt in training steps per second for the actual batches, so that models with quick steps come first.
    Sia's authors run it as Gavel (thesis section 3.4), and it is the "MST" of Shockwave's section 8.2.

    Source: section 4.2.
    """

    name = "gavel-max-sum"

    def shares(self, now: RigidRound) -> Floats:
        """Return the shares of time; jobs with share 0 get idle GPUs in order of throughput per GPU."""
        steps = now.steps_per_second
        shares = self._greatest_sum(now, steps)
        return np.maximum(shares, _STARVED * steps / (now.gpus[:, None] * steps.max()))


class FinishTimeFairness(_Gavel):
    """Finish-time fairness: least delay of the jobs relative to having 1/n of the cluster each.

        minimise  max_j rho_j,      rho_j = (t_j + R_j / sum_t v_jt x_jt) / D_j

    with t_j the age of job j, R_j its remaining progress, v_jt its speed on type t, and D_j its total time on
    1/n of every type.  A given rho is met if the progress of every job is at least R_j / (rho D_j - t_j) per
    second, which is a linear program. The actual rho of the program's answer is the next rho to improve
    (Dinkelbach's method), until rho falls no further.

    Source: section 4.2; Themis (Mahajan et al., NSDI 2020) for rho.
    """

    name = "gavel-ftf"

    def __init__(
        self,
        solver: Solver | str = "copter",
        *,
        round_seconds: float = ROUND_SECONDS,
        reset_seconds: float = RESET_SECONDS,
    ) -> None:
        super().__init__(solver, round_seconds=round_seconds, reset_seconds=reset_seconds)
        self._alone: dict[str, tuple[float, float, float]] = {}

    def shares(self, now: RigidRound) -> Floats:  # noqa: D102
        equal = _equal_shares(now)
        finish = self._seconds_alone(now, (equal * now.speed).sum(axis=1))
        shares, worst = equal, _worst_rho(now, equal, finish)
        for _ in range(_MOST_PROGRAMS):
            needed = now.left / (worst * finish - now.age)
            better = self._greatest_least(now, now.speed / needed[:, None])
            rho = _worst_rho(now, better, finish)
            # If two answers have the same worst rho, the program's is better, because it leaves no time
            # unused.
            if rho <= worst * (1.0 + _PROGRESS):
                shares = better
            if rho >= worst * (1.0 - _PROGRESS):
                break
            worst = rho
        return shares

    def _seconds_alone(self, now: RigidRound, speed: Floats) -> Floats:
        """Return D_j: the time on 1/n of the cluster for the progress so far and the remaining progress."""
        alone: dict[str, tuple[float, float, float]] = {}
        for job, own, left in zip(now.jobs, speed.tolist(), now.left.tolist(), strict=True):
            before, at, seconds = self._alone.get(job.name, (0.0, own, 0.0))
            progress = job.work - left
            alone[job.name] = progress, own, seconds + (progress - before) / at
        self._alone = alone
        return np.array([alone[name][2] for name in now.names]) + now.left / speed


def _equal_shares(now: RigidRound) -> Floats:
    """Return the shares of time that equal 1/n of the GPUs of every type, shape (n, T); their sum is <= 1."""
    shares = np.where(now.speed > 0, now.capacity / (len(now.jobs) * now.gpus[:, None]), 0.0)
    return shares / np.maximum(shares.sum(axis=1, keepdims=True), 1.0)


def _worst_rho(now: RigidRound, shares: Floats, finish: Floats) -> float:
    """Return the largest rho of all jobs. `finish`: D_j, the total seconds of each job on its own share."""
    speed = (shares * now.speed).sum(axis=1)
    left = np.divide(now.left, speed, out=np.full(speed.size, np.inf), where=speed > 0)
    return float(((now.age + left) / finish).max())
