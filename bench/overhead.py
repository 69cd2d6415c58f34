"""Time that `Rounds` adds to a round, measured by playing equal rounds with `Rounds` and with a bare loop.

    python -m copter.bench.overhead --rounds 2000

The bare loop applies the event, solves with the same deadline, rounds, accepts and reads the figures. Both
have their own domain with the same events, and play alternately.
"""

from __future__ import annotations

import argparse
import sys
from time import perf_counter
from typing import Any

import numpy as np

from copter.rounds.choose_one import ChooseOneDomain
from copter.rounds.rounds import Rounds
from copter.solvers.registry import make_solver

_JOBS, _SIZES = 20, 4
_DEADLINE = 60.0


class _Jobs(ChooseOneDomain):
    """Domain of jobs whose loads change."""

    def __init__(self) -> None:
        super().__init__()
        self.program.add_resource("gpu", upper=_JOBS)
        sizes = np.arange(_SIZES, dtype=float)
        for job in range(_JOBS):
            self.program.add_request(job, -np.sqrt(sizes), {"gpu": sizes}, total=1.0, relation="==")

    def apply(self, event: tuple[int, float]) -> None:
        self.program.update_request(event[0], scale=event[1])


def _bare(domain: _Jobs, solver: Any, event: tuple[int, float]) -> None:
    domain.apply(event)
    solution = solver.solve(domain.program, deadline=_DEADLINE)
    answer = domain.round(solution, None)
    domain.accept(answer)
    domain.figures(answer)


def main(arguments: list[str]) -> None:
    """Play the rounds, and print the medians."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=2000, help="number of rounds")
    count = parser.parse_args(arguments).rounds
    rng = np.random.default_rng(0)
    rounds, domain, solver = Rounds(_Jobs(), deadline=_DEADLINE), _Jobs(), make_solver("copter")
    played, bare = np.empty(count), np.empty(count)
    for k in range(count):
        event = int(rng.integers(_JOBS)), float(rng.uniform(0.5, 2.0))
        begin = perf_counter()
        rounds.play(event)
        middle = perf_counter()
        _bare(domain, solver, event)
        played[k], bare[k] = middle - begin, perf_counter() - middle
    warm = slice(count // 4, None)
    medians = [1e6 * float(np.median(each[warm])) for each in (bare, played)]
    low, high = 1e6 * np.percentile(played[warm] - bare[warm], (25, 75))
    print("bare loop {:.0f} us a round, Rounds {:.0f}".format(*medians))
    print(f"overhead {medians[1] - medians[0]:.0f} us; of single rounds, quartiles {low:.0f} and {high:.0f}")


if __name__ == "__main__":
    main(sys.argv[1:])
