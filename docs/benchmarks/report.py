"""Write docs/report.md, and the self-contained page and pictures beside the results of the whole suite.

copter bench all --profile full --out docs/benchmarks/full
python docs/benchmarks/report.py
"""

from __future__ import annotations

from pathlib import Path

from copter.bench.report.model import Report
from copter.bench.report.page import HTML, PICTURES, as_html, as_markdown, make_report, write_pictures
from copter.bench.suite.results import load_suite
from copter.cli.suite_report import notes_of

HERE = Path(__file__).parent
RESULTS, PAPERS = HERE / "full", HERE / "papers"
PAGE = HERE.parent / "report.md"

INTRODUCTION = f"""<!-- Written by make benchmarks from the results in docs/benchmarks/full: do not edit. -->

[The same as one page](benchmarks/full/{HTML}), which needs no other file and reads well on a phone;
[how both are made](#how-this-is-made).

"""
END = """
## How this is made

```sh
copter bench all --profile full --out docs/benchmarks/full
copter bench report docs/benchmarks/full --papers docs/benchmarks/papers
copter bench compare docs/benchmarks/full runs/after --fail-on-regression
```

`copter bench all` measures, and goes on where it was interrupted. `copter bench report` writes
`report.html` and `report.md` from the folder of results; a file `notes.json` in it, `{"LINE": "why"}`,
adds a remark to a line that copter loses. The papers' figures are documents of `copter reproduce NAME
--json`.

`copter bench compare` holds a folder against another of the same lines: first what differs in machine,
versions and settings, then for each of copter's solvers (`--all-solvers`: for everybody's) the ratio of
new to old seconds, round by round, with its spread over resampled rounds. A ratio whose lower end is
above `--threshold` (1.1) is a regression, and so is a certificate that was there and is not.
"""


def made() -> Report:
    """The report of the results, with the papers' figures."""
    return make_report(load_suite(RESULTS), notes_of(RESULTS), PAPERS)


def page(report: Report) -> str:
    """The text of docs/report.md."""
    head, rest = as_markdown(report, f"benchmarks/full/{PICTURES}").split("\n\n", 1)
    return f"{head}\n\n{INTRODUCTION}{rest}{END}"


def main() -> None:
    """Write all three."""
    report = made()
    (RESULTS / HTML).write_text(as_html(report), encoding="utf-8")
    write_pictures(report, RESULTS / PICTURES)
    PAGE.write_text(page(report), encoding="utf-8")


if __name__ == "__main__":
    main()
