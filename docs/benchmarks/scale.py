"""Write docs/scale.md from docs/benchmarks/scale.json, of `copter bench spread --json`.

python docs/benchmarks/scale.py
"""

from __future__ import annotations

import json
from pathlib import Path

from build import machine, seconds

HERE = Path(__file__).parent
PAGE = HERE.parent / "scale.md"

INTRODUCTION = """# Rounds of programs that are spread

Written by `make benchmarks` from `docs/benchmarks/scale.json`, which `make measure` writes: do not edit.
The command:

```sh
copter bench spread --json docs/benchmarks/scale.json
```

Warm Sia rounds of one program, edited, solved and rounded: in this process, in parts that this process holds,
and on Ray's actors. The answers are the same, bit by bit. Actors are on the same machine, and share its
processors with the driver: what they add here is their round trips; what they are for is a program that one
machine cannot hold.
"""


def page() -> str:
    """The text of docs/scale.md."""
    document = json.loads((HERE / "scale.json").read_text())
    measured = document["measured"]
    lines = [
        INTRODUCTION,
        f"Measured on {measured['on']}; the load of the machine was {measured['load_before']} before. "
        f"{machine(document['machine'])}.\n",
        "| where | columns | requests | rounds | median | smallest | largest | round trips | kB |",
        "| --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: |",
    ]
    for each in document["programs"]:
        times = " | ".join(seconds(each[key]) for key in ("seconds", "smallest", "largest"))
        lines.append(
            f"| {each['where']} | {each['columns']:,} | {each['requests']:,} | {each['rounds']} | {times} "
            f"| {each['calls']:.0f} | {each['bytes'] / 1e3:,.0f} |"
        )
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    PAGE.write_text(page())
