"""Play many rounds: ``python tests/rounds 20000 [first seed]``."""

import sys
import traceback
from collections import Counter
from pathlib import Path

if __name__ == "__main__":
    sys.path[0] = str(Path(__file__).parents[1])
    from rounds.kinds import FAMILIES, SCARCE
    from rounds.play import play

    wanted, seed = int(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 0
    families = FAMILIES | {SCARCE.name: SCARCE}
    only = sys.argv[3:] or list(families)
    counts: Counter = Counter()
    failed = 0
    while counts["rounds"] < wanted:
        family = families[only[seed % len(only)]]
        large = seed % 10 == 9
        try:
            play(seed, family, 30 if large else 40, counts, large)
        except Exception as error:
            failed += 1
            last = traceback.extract_tb(error.__traceback__)[-1]
            print(
                "WRONG",
                *getattr(error, "__notes__", ()),
                type(error).__name__,
                str(error)[:400],
                last.filename[-40:],
                last.lineno,
                flush=True,
            )
        seed += 1
    for name, count in sorted(counts.items()):
        print(f"{count:8,} {name}")
    print(f"{failed} games were wrong")
