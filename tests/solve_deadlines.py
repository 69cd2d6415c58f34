"""Measure how well solvers keep deadlines, on random programs, and list the late solves.

    python tests/solve_deadlines.py --programs 20 --solves 8 --largest 1e7 --seed 0

A solve keeps its deadline if it exceeds it by at most 10% or 50 ms, whichever is more.  Each program has
between 1,000 and ``--largest`` columns, uniform in the logarithm. It is solved ``--solves`` times by random
solvers, with deadlines from 5 ms to 10 s. Every second solve follows edits, and is warm if the solver keeps
state.  Kernels are loaded before the measurements.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from time import perf_counter

import numpy as np
from scipy.sparse import csc_array

from copter.program.program import ContinualProgram
from copter.solvers.registry import SOLVERS, make_solver

_SHARE, _SECONDS = 0.1, 0.05
"""Permitted excess over a deadline: share of the deadline, and seconds."""
_SHORTEST, _LONGEST = 0.005, 10.0
_SMALLEST = 1_000
_PRIVATE = 1_000_000
"""Above this number of columns requests share coefficients, because the test is not about memory."""


@dataclass(frozen=True)
class _Timed:
    """A solve with a deadline."""

    solver: str
    kind: str
    columns: int
    time_limit: float
    seconds: float
    status: str
    found: bool

    @property
    def late(self) -> bool:
        """True if the solve exceeded its deadline by more than permitted."""
        return self.seconds > self.time_limit + max(_SECONDS, _SHARE * self.time_limit)

    def __str__(self) -> str:
        answer = "" if self.found else ", no allocation"
        text = f"{self.solver:15s} {self.kind:12s} {self.columns:9d} columns"
        return f"{text} {self.time_limit:8.3f} s {self.seconds:8.3f} s  {self.status}{answer}"


def random_program(rng: np.random.Generator, columns: int) -> tuple[ContinualProgram, str]:
    """Return a program of about `columns` columns, sometimes infeasible, and its kind."""
    width = int(min(columns, 10 ** rng.uniform(0.5, 2.5)))
    requests, rows = max(1, columns // width), int(10 ** rng.uniform(0.7, 2.7))
    kind = str(rng.choice(["packing", "assignment", "infeasible"], p=[0.5, 0.4, 0.1]))
    program = ContinualProgram()
    capacity = requests / rows * (rng.uniform(0.3, 1.2) if kind == "packing" else 2.0)
    for row in range(rows):
        program.add_resource(row, 1e-6 if kind == "infeasible" else capacity)
    exactly = kind in ("assignment", "infeasible")
    costs = rng.uniform(0.5, 1.0, requests * width) * (1.0 if exactly else -1.0)
    if requests * width > _PRIVATE:
        use = {int(r): rng.uniform(0.2, 1.0, width) for r in rng.choice(rows, min(rows, 3), replace=False)}
        usage = program.share_columns(use, width)
    else:
        n = requests * width
        at = rng.integers(0, rows, n).astype(np.int32)
        usage = csc_array((rng.uniform(0.2, 1.0, n), at, np.arange(n + 1)), (rows, n))
    program.add_requests(
        list(range(requests)),
        costs,
        np.full(requests, width),
        usage,
        totals=np.ones(requests),
        relation="==" if exactly else "<=",
    )
    return program, kind


def edit(rng: np.random.Generator, program: ContinualProgram) -> None:
    """Change the costs of some requests, and remove some."""
    ids = program.request_ids
    some = [ids[k] for k in rng.choice(len(ids), max(1, len(ids) // 50), replace=False)]
    program.update_requests(some, scales=rng.uniform(0.5, 2.0, len(some)))
    if len(ids) > 2:
        program.remove_request(some[0])


def load_kernels(names: Sequence[str]) -> None:
    """Solve a few programs with every solver, so that its code is compiled and loaded."""
    rng = np.random.default_rng(0)
    for columns in (1_000, 30_000, 300_000):
        for _ in range(3):
            program, _kind = random_program(rng, columns)
            for name in names:
                solver = make_solver(name)
                solver.solve(program, time_limit=3.0)
                edit(rng, program)
                solver.solve(program, time_limit=1.0)


def _measure(programs: int, solves: int, largest: float, seed: int, names: Sequence[str]) -> list[_Timed]:
    """Solve random programs with deadlines, and print each late solve.

    `solves`: number of solvers for each program; each makes a cold solve and, after edits, another one.
    `largest`: columns of the largest program; sizes are uniform in the logarithm, from 1,000. `names`:
    solvers to draw from.
    """
    rng, timed = np.random.default_rng(seed), []
    for _ in range(programs):
        columns = int(10 ** rng.uniform(np.log10(_SMALLEST), np.log10(largest)))
        program, kind = random_program(rng, columns)
        for _ in range(solves):
            solver = make_solver(str(rng.choice(names)))
            for turn in range(2):
                time_limit = float(np.exp(rng.uniform(np.log(_SHORTEST), np.log(_LONGEST))))
                begin = perf_counter()
                solution = solver.solve(program, time_limit=time_limit)
                seconds = perf_counter() - begin
                done = _Timed(
                    solver.name,
                    kind,
                    program.n_variables,
                    time_limit,
                    seconds,
                    str(solution.status),
                    solution.found,
                )
                timed.append(done)
                if done.late:
                    print(done, flush=True)
                if not turn:
                    edit(rng, program)
    return timed


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure, print the late solves and a summary; return 1 if any solve was late."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--programs", type=int, default=20, help="number of programs")
    parser.add_argument("--solves", type=int, default=8, help="pairs of a cold and a warm solve a program")
    parser.add_argument("--largest", type=float, default=1e7, help="columns of the largest program")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--solvers", default=",".join(SOLVERS), help="names of solvers, separated by commas")
    chosen = parser.parse_args(arguments)
    names = chosen.solvers.split(",")
    load_kernels(names)
    timed = _measure(chosen.programs, chosen.solves, chosen.largest, chosen.seed, names)
    for name in names:
        own = [one for one in timed if one.solver == name]
        if own:
            late = [one.seconds - one.time_limit for one in own if one.late]
            worst = f", by at most {max(late):.2f} s" if late else ""
            stopped = sum(one.status == "deadline" for one in own)
            found = sum(one.found for one in own)
            print(
                f"{name:15s} {len(own):4d} solves, {stopped:4d} stopped by the deadline, {found:4d} with an "
                f"allocation, {len(late):3d} late{worst}"
            )
    count = sum(one.late for one in timed)
    print(f"{count} of {len(timed)} solves were late")
    return int(count > 0)


if __name__ == "__main__":
    sys.exit(main())
