"""How late answers are, in seconds and in passes over the program's columns: a report, not a test.

    python tests/deadlines.py 1000 --seed 0

Programs, their sizes and their edits are those of ``copter.bench.deadlines``; deadlines are drawn between
5 ms and 5 s, evenly on a logarithmic scale, and half of the solves are warm ones after an edit.  A pass is
one pricing of all columns on one thread, timed beside the solves: what no look at the clock can interrupt
should cost a few at most.
"""

from __future__ import annotations

import argparse
import sys
from dataclasses import dataclass
from time import perf_counter

import numpy as np

from copter.bench.deadlines import edit, load_kernels, random_program
from copter.proof.pricing import price
from copter.solvers.registry import make_solver

SHORTEST, LONGEST = 0.005, 5.0
FEW_COLUMNS, PROGRAM_SOLVES = 1e3, 8


@dataclass(frozen=True)
class Answer:
    columns: int
    deadline: float
    seconds: float
    one_pass: float
    status: str
    found: bool
    warm: bool

    @property
    def late(self) -> float:
        return max(0.0, self.seconds - self.deadline)

    @property
    def passes(self) -> float:
        return self.late / self.one_pass


def pass_seconds(program) -> float:
    y = np.zeros(program.store.rows.size)
    times = []
    for _ in range(3):
        begin = perf_counter()
        price(program.store, y, threads=1)
        times.append(perf_counter() - begin)
    return min(times)


def answers(solves: int, largest: float, name: str, seed: int):
    rng = np.random.default_rng(seed)
    done = 0
    while done < solves:
        columns = int(10 ** rng.uniform(np.log10(FEW_COLUMNS), np.log10(largest)))
        program, _ = random_program(rng, columns)
        one_pass = pass_seconds(program)
        for k in range(min(PROGRAM_SOLVES, solves - done)):
            if k % 2 == 0:
                solver = make_solver(name)
            deadline = float(np.exp(rng.uniform(np.log(SHORTEST), np.log(LONGEST))))
            begin = perf_counter()
            found = solver.solve(program, deadline=deadline)
            seconds = perf_counter() - begin
            yield Answer(
                program.n_variables, deadline, seconds, one_pass, str(found.status), found.found, k % 2 == 1
            )
            done += 1
            if k % 2 == 0:
                edit(rng, program)


def report(name: str, every: list[Answer]) -> None:
    statuses = sorted({one.status for one in every})
    counts = ", ".join(f"{sum(one.status == status for one in every)} {status}" for status in statuses)
    print(f"{name}: {len(every)} solves: {counts}")
    print(f"  without an allocation: {sum(not one.found for one in every)}")
    late = [one for one in every if one.late > 0]
    print(f"  later than the deadline at all: {len(late)}")
    print(f"  later than 5 ms: {sum(one.late > 5e-3 for one in late)}")
    print(f"  later than 50 ms and 10%: {sum(one.late > max(0.05, 0.1 * one.deadline) for one in late)}")
    for passes in (1, 2, 5):
        count = sum(one.passes > passes and one.late > 5e-3 for one in late)
        print(f"  later than 5 ms and than {passes} passes: {count}")
    for one in sorted(late, key=lambda one: -one.late)[:10]:
        print(
            f"  {one.columns:9d} columns, {'warm' if one.warm else 'cold'}, deadline {one.deadline:7.3f} s, "
            f"{1e3 * one.late:8.1f} ms late, {one.passes:5.1f} passes of {1e3 * one.one_pass:.2f} ms"
        )


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("solves", nargs="?", type=int, default=1000)
    parser.add_argument("--largest", type=float, default=1e7, help="columns of the largest program")
    parser.add_argument("--solvers", default="copter", help="names, with commas between them")
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    names = given.solvers.split(",")
    load_kernels(names)
    for name in names:
        report(name, list(answers(given.solves, given.largest, name, given.seed)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
