"""Lateness of rounds relative to their deadlines, on a real clock, for the small examples of all domains.

    python tests/round_deadlines.py --rounds 10000 --seed 0

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
from copter.installed import DOMAINS, installed
from copter.rounds.check import violations
from copter.rounds.named import domain_named
from copter.rounds.rounds import Rounds

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
        rounds.time_limit = time_limit = float(10 ** rng.uniform(-3, 0))
        begin = perf_counter()
        record = rounds.play(*events)
        late[k] = max(0.0, perf_counter() - begin - time_limit)
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
    for name in installed(DOMAINS):
        late, fallbacks, broken = _play(domain_named(name), given.rounds, given.seed)
        p99, most = 1e3 * np.percentile(late, 99), 1e3 * late.max()
        counts = f"{given.rounds:6d} {fallbacks:10d} {np.count_nonzero(late):7d}"
        print(f"{name:18s} {counts} {p99:6.2f} ms {most:5.1f} ms {broken:11d}")


if __name__ == "__main__":
    main(sys.argv[1:])
