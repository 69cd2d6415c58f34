"""Write docs/papers.md from the documents in docs/benchmarks/papers, of `copter reproduce NAME --json`.

python docs/benchmarks/papers.py
"""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
PAGE = HERE.parent / "papers.md"

INTRODUCTION = """# The papers' tables and figures

Written by `make benchmarks` from the documents in `docs/benchmarks/papers`, which `copter reproduce NAME
--json` writes: do not edit. Ours are means over the seeds, with their standard deviation; `copter reproduce
--list` says which others there are. Ratios of two figures hold better than figures: jobs, clusters and
profiles are of the paper's kind, not the paper's own.
"""


def page() -> str:
    """The text of docs/papers.md."""
    documents = [json.loads(file.read_text()) for file in sorted((HERE / "papers").glob("*.json"))]
    return "\n".join([INTRODUCTION, *map(section, documents)])


def section(document: dict[str, Any]) -> str:
    """One table with what it was measured with."""
    settings = document["settings"]
    options = [f"--seeds {settings['seeds']}"] + ([f"--seed {settings['seed']}"] if settings["seed"] else [])
    options += ["--quick"] if settings["quick"] else []
    options += ["--data TRACES"] if settings["data"] else []
    lines = [
        f"## {document['title']}\n",
        f"{document['source']}. What differs: {document['differs']}\n",
        f"```sh\ncopter reproduce {' '.join([document['name'], *options])}\n```\n",
        "| | figure | ours | paper | ours / paper |",
        "| --- | --- | ---: | ---: | ---: |",
        *map(row, document["figures"]),
    ]
    return "\n".join(lines) + f"\n\nMeasured in {document['wall_seconds']:.0f} s.\n"


def row(figure: dict[str, Any]) -> str:
    """A line of the table."""
    ours, paper = figure["ours"], figure["paper"]
    unit = f" {figure['unit']}" if figure["unit"] else ""
    there = paper is not None and math.isfinite(paper)
    ratio = f"{ours / paper:.2f}" if there and paper and ours is not None else ""
    shown = f"{number(ours)}{unit}" + (f" ± {number(figure['std'])}" if figure["std"] is not None else "")
    theirs = f"{number(paper)}{unit}" if there else ""
    return f"| {figure['row']} | {figure['column']} | {shown} | {theirs} | {ratio} |"


def number(value: float | None) -> str:
    """Three digits."""
    return "-" if value is None or not math.isfinite(value) else f"{value:.3g}"


if __name__ == "__main__":
    PAGE.write_text(page())
