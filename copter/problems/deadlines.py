"""Lateness of rounds relative to their deadlines, on a real clock, for the small examples of all domains.

    python -m copter.problems.deadlines --rounds 10000 --seed 0

Each round has a deadline from 1 ms to 1 s, with a uniformly distributed logarithm, and random events of the
domain.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from time import perf_counter
from typing import Any

import numpy as np

from copter.compile.first_calls import compile_at_once
from copter.problems.load_balancing import example as shards
from copter.problems.placement.rounds import example as placement
from copter.problems.shockwave import example as market
from copter.problems.sia import example as sia
from copter.problems.traffic import example as traffic
from copter.rounds.check import violations
from copter.rounds.rounds import Rounds

EXAMPLES: dict[str, Callable[[], Any]] = {
    "shards": shards.example,
    "sia": sia.example,
    "traffic, max-flow": traffic.example,
    "traffic, min-MLU": traffic.example_utilisation,
    "placement": placement.example,
    "shockwave": market.example,
}
"""Small examples of copter's domains, by their names in the table."""
_WARM_UP = 100


def _play(make: Callable[[], Any], count: int, seed: int) -> tuple[np.ndarray, int, int]:
    """Return each round's lateness in seconds, and the numbers of fallbacks and infeasible answers."""
    rng, domain = np.random.default_rng(seed), make()
    rounds = Rounds(domain)
    for _ in range(_WARM_UP):
        rounds.play(*domain.events(rng))
    late, fallbacks, broken = np.empty(count), 0, 0
    for k in range(count):
        events = tuple(domain.events(rng))
        rounds.deadline = deadline = float(10 ** rng.uniform(-3, 0))
        begin = perf_counter()
        record = rounds.play(*events)
        late[k] = max(0.0, perf_counter() - begin - deadline)
        fallbacks += record.path == "fallback"
        broken += bool(list(violations(domain, record.answer)))
    return late, fallbacks, broken


def main(arguments: list[str]) -> None:
    """Play all examples, and print the lateness of their rounds."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args(arguments)
    compile_at_once()
    print("domain             rounds  fallbacks    late  p99 late  largest  infeasible")
    for name, make in EXAMPLES.items():
        late, fallbacks, broken = _play(make, given.rounds, given.seed)
        p99, most = 1e3 * np.percentile(late, 99), 1e3 * late.max()
        counts = f"{given.rounds:6d} {fallbacks:10d} {np.count_nonzero(late):7d}"
        print(f"{name:18s} {counts} {p99:6.2f} ms {most:5.1f} ms {broken:11d}")


if __name__ == "__main__":
    main(sys.argv[1:])
