"""Draw random programs and print which answers are wrong."""

from __future__ import annotations

import argparse
from collections import Counter
from collections.abc import Callable, Iterable, Sequence

import numpy as np


def search(kinds: Sequence[str], trial: Callable[[str, int], Iterable[str]]) -> None:
    """Run trials as the command line says; each returns what is wrong, with "" for nothing."""
    parser = argparse.ArgumentParser()
    parser.add_argument("programs", type=int)
    parser.add_argument("--first", type=int, default=0, help="seed of the first program")
    parser.add_argument("--kind", choices=kinds)
    given = parser.parse_args()
    counts: Counter = Counter()
    for seed in range(given.first, given.first + given.programs):
        kind = given.kind or kinds[int(np.random.default_rng(seed).integers(len(kinds)))]
        for wrong in filter(None, trial(kind, seed)):
            counts[kind, wrong] += 1
            print(kind, seed, wrong, flush=True)
    for (kind, wrong), count in sorted(counts.items()):
        print(f"{kind:24} {wrong:44} {count}")
    print(f"{given.programs} programs, {sum(counts.values())} answers that are wrong or claim nothing")
