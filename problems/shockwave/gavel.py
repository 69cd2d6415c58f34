"""Gavel's two LP policies, each a program that lives through the replay and is solved warm by copter.

Shares x_j of time in [0, 1] of jobs with g_j GPUs, on M GPUs:

    max-min fairness           maximise  theta   s.t.  theta <= g_j x_j for all j,  sum_j g_j x_j <= M
    max-sum throughput         maximise  sum_j v_j x_j                      s.t.    sum_j g_j x_j <= M

with v_j the throughput of now in training steps a second.  In max-min fairness a job on one GPU gets g
times the time of a job on g.  Max-min leaves open who has what the poorest cannot use; a small gain of time
for all decides it (:data:`LEFTOVER`).

Source: Shockwave, section 8.2 ("Gavel", "MST"); Gavel (Narayanan et al., OSDI 2020), section 4.1, on one
type of GPU as in the authors' runs.
"""

from __future__ import annotations

import numpy as np

from copter.errors import SolverError
from copter.problems.shockwave.interface import RoundState
from copter.program.program import ContinualProgram
from copter.solvers.base import Solver
from copter.solvers.registry import make_solver

LEFTOVER = 1e-3
"""Gain of a GPU's time for any job, in units of the poorest job's share, over the number of jobs."""
STARVED = 1e-6
"""Share of the fastest job if the LP gives it none; the authors' interior point leaves such small shares."""
GPUS = "gpus"
_THETA = ("theta",)


class _LinearShares:
    """A program with a column for each job, edited as jobs come and go."""

    name = ""

    def __init__(self, solver: Solver | None = None) -> None:
        self.solver = make_solver("copter") if solver is None else solver
        self.program = ContinualProgram()
        self.program.add_resource(GPUS, 0.0)
        self._jobs: set[str] = set()

    def shares(self, now: RoundState) -> dict[str, float]:
        """Solve for the jobs that are there."""
        self.program.set_capacity(GPUS, now.gpus)
        self._edit(now)
        self._jobs = {state.name for state in now.jobs}
        solution = self.solver.solve(self.program)
        if solution.x is None:
            raise SolverError(f"{self.name}: {solution.status}: {solution.reason}")
        return {state.name: float(np.clip(solution.x[state.name][0], 0.0, 1.0)) for state in now.jobs}

    def _edit(self, now: RoundState) -> None:
        raise NotImplementedError


class MaxSumThroughput(_LinearShares):
    """The most training steps a second in all; who needs many GPUs for a step may starve."""

    name = "max-sum-throughput"

    def shares(self, now: RoundState) -> dict[str, float]:
        """Solve; jobs without a share come by throughput a GPU where GPUs are left."""
        shares = super().shares(now)
        most = max(state.steps_per_second for state in now.jobs)
        return {
            state.name: max(shares[state.name], STARVED * state.steps_per_second / (state.gpus * most))
            for state in now.jobs
        }

    def _edit(self, now: RoundState) -> None:
        states = {state.name: state for state in now.jobs}
        self.program.remove_requests(sorted(self._jobs - states.keys()))
        most = max(state.steps_per_second for state in now.jobs)
        for name, state in states.items():
            costs = np.array([-state.steps_per_second / most])
            if name in self._jobs:
                self.program.update_request(name, costs=costs)
            else:
                self.program.add_request(name, costs, {GPUS: float(state.gpus)}, upper=1.0)


class MaxMinFairness(_LinearShares):
    """The largest share of GPU time for the poorest job."""

    name = "max-min-fairness"

    def _edit(self, now: RoundState) -> None:
        names = {state.name for state in now.jobs}
        # The common bound refers to every job's row, so it goes first and comes last.
        if _THETA in self.program:
            self.program.remove_request(_THETA)
        gone = sorted(self._jobs - names)
        self.program.remove_requests(gone)
        for name in gone:
            self.program.drop_resource(("floor", name))
        most = max(state.gpus for state in now.jobs)
        gain = LEFTOVER / len(now.jobs)
        for state in now.jobs:
            costs = np.array([-gain * state.gpus / most])
            if state.name in self._jobs:
                self.program.update_request(state.name, costs=costs)
                continue
            floor = ("floor", state.name)
            self.program.add_resource(floor, 0.0)
            self.program.add_request(
                state.name, costs, {GPUS: float(state.gpus), floor: -float(state.gpus)}, upper=1.0
            )
        rows = {("floor", name): 1.0 for name in sorted(names)}
        self.program.add_request(_THETA, np.array([-1.0]), rows, upper=float(most))
