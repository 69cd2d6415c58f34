"""The section on GPU solvers of bench/results/benchmarks.md, from records of rounds on one GPU.

    python docs/site/gpu.py RECORDS.jsonl   # summarise records in bench/results/gpu.json

A record is a round of a case with a solver: `case`, `round`, `solver`, `seconds` with the upload of the
model, and `violation`, the largest relative violation of a row, for solvers other than copter.
"""

from __future__ import annotations

import json
import statistics
import sys
from pathlib import Path

SUMMARY = Path(__file__).parents[2] / "bench/results/gpu.json"
CASES = {
    "sia1k": "Sia, 1,024 GPUs",
    "sia10k": "Sia, 10,240 GPUs",
    "chg500": "500 of 20,000 requests changed, 400 scarce rows",
}
SOLVERS = {
    "copter": "copter, on the CPU, warm",
    "cupdlpx-warm": "cuPDLPx, warm",
    "cupdlpx-cold": "cuPDLPx, cold",
    "cuopt-pdlp-warm": "cuOpt PDLP, warm",
    "cuopt-pdlp-cold": "cuOpt PDLP, cold",
    "cuopt-barrier": "cuOpt barrier",
    "cuopt-concurrent": "cuOpt concurrent",
}
TEXT = """## Solvers on a GPU

Measured on 2026-11-28 on one NVIDIA H100 with 16 CPU cores, at a tolerance of 1e-4, with copter at commit
4ae9d47e, cuPDLPx 0.3 and cuOpt 26.10. Seconds of a round after the first, with the upload of the model:
median, smallest and largest. *Violation* is the largest relative violation of a row in any round; copter
stops at a violation and a gap of 1e-4. On the last program, with coefficients of its own and 400 scarce
rows, the GPU is faster.

"""


def summarise(records: Path) -> None:
    """Write the medians and ranges of the rounds after the first."""
    rounds = [json.loads(line) for line in records.read_text().splitlines()]
    found: dict[str, dict[str, dict[str, float]]] = {}
    for case in CASES:
        for solver in SOLVERS:
            own = [one for one in rounds if (one["case"], one["solver"]) == (case, solver) and one["round"]]
            if own:
                seconds = [one["seconds"] for one in own]
                found.setdefault(case, {})[solver] = {
                    "rounds": len(own),
                    "median": statistics.median(seconds),
                    "least": min(seconds),
                    "most": max(seconds),
                    "violation": max(one.get("violation", 0.0) for one in own),
                    "columns": max(one.get("columns", 0) for one in own),
                }
    SUMMARY.write_text(json.dumps(found, indent=1) + "\n")


def section() -> str:
    """Return the section, from the summary."""
    found = json.loads(SUMMARY.read_text())
    heads = ("program", "columns", "solver", "rounds", "seconds of a round", "violation")
    rows = [heads, ("---", "---:", "---", "---:", "---:", "---:")]
    for case, title in CASES.items():
        own = found[case]
        for solver, name in SOLVERS.items():
            if solver in own:
                one = own[solver]
                span = f"{one['median']:.3g} ({one['least']:.3g} to {one['most']:.3g})"
                broken = "" if solver == "copter" else f"{one['violation']:.1g}"
                columns = f"{own['copter']['columns']:,}"
                rows.append((title, columns, name, f"{one['rounds']}", span, broken))
    return TEXT + "".join(f"| {' | '.join(row)} |\n" for row in rows) + "\n"


if __name__ == "__main__":
    summarise(Path(sys.argv[1]))
