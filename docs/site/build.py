"""Write every page and table of measured figures from the results in bench/results; nothing is measured here.

    python docs/site/build.py
    python docs/site/build.py NAME ...  # before: copy texts and printed values of the tables to documents

The results of the suite (`full/`, by `copter bench all`) become report.md with its pictures, benchmarks.md,
and the table and the picture of the README. Results of other commands have folders of their own: `papers/`
(`copter reproduce NAME --json`), which becomes papers.md, and `shards/` (`copter bench load-balancing`),
which becomes shards.md (shards.py).
"""

from __future__ import annotations

import json
import math
import re
import sys
from functools import cache
from pathlib import Path
from typing import Any

import claims
import gpu
import shards
import standings

from copter.bench.case import Inputs, all_cases
from copter.bench.formats import megabytes, seconds, share, small
from copter.bench.report.model import Claim, SuiteReport
from copter.bench.report.page import (
    HTML,
    PICTURES,
    as_html,
    as_markdown,
    make_report,
    sections_as_markdown,
    write_pictures,
)
from copter.bench.report.papers import read_documents
from copter.bench.report.sections import speed_of_the_machine
from copter.bench.reproduction import not_reproduced, reproductions
from copter.bench.result_files import LineResult, SuiteResult, load_suite
from copter.bench.solvers import MODES
from copter.bench.statistics import (
    fastest_mode,
    median_seconds,
    seconds_of,
    spread,
    verdicts,
    why_no_mode,
)
from copter.cli.console import save_json
from copter.cli.suite import notes_of

ROOT = Path(__file__).parents[2]
HERE, README = ROOT / "bench/results", ROOT / "README.md"
RESULTS, PAPERS = HERE / "full", HERE / "papers"
PICTURE = HERE / "round.svg"
BEGIN, END = "<!-- written by make benchmarks -->\n", "<!-- end -->\n"
WHY, WHY_END = "<!-- figures of make benchmarks -->\n", "<!-- end of figures -->\n"

SIZES = ("sia-64", "sia-1024", "sia-10240")
FEW = (
    "changes-1-of-100000",
    "changes-1-of-1000000",
    "changes-50-of-1000000",
    "changes-500-of-1000000",
    "changes-1-of-1000000-own",
    "changes-1-of-10000000",
    "scarce-400",
    "scarce-1000",
    "shards-16384-1",
    "traffic-single",
)
"""Lines of few changes in bench/results/benchmarks.md."""
SHOWN: dict[str, tuple[str, ...]] = {
    **dict.fromkeys(SIZES, ("copter-cold",)),
    "traffic-tiny": ("copter-cold",),
    "traffic-mlu": ("copter-cold",),
    "traffic-kdl": ("copter-cold", "pop-16"),
    "shards-1024": ("copter-cold", "heuristic"),
    "groups": ("copter-cold",),
    "shockwave-2000": ("water-filling",),
    **dict.fromkeys(FEW, ()),
}
"""Lines of bench/results/benchmarks.md, and the solvers that are shown in addition to copter and the fastest
mode of each other solver."""
IN_README = (
    "sia-10240",
    "changes-50-of-1000000",
    "scarce-400",
    "groups",
    "traffic-kdl",
    "sia-64",
    "traffic-tiny",
    "traffic-mlu",
)
"""Lines that the README shows: wins and losses."""

REPORT = f"""<!-- Written by make benchmarks from the results in bench/results/full: do not edit. -->

[The report as one HTML file](full/{HTML}), which needs no other file; [how both are made](#how-this-is-made).

"""
REPORT_END = """
## How this is made

```sh
copter bench all --profile full --out bench/results/full
copter bench report bench/results/full --papers bench/results/papers
copter bench compare bench/results/full runs/after --fail-on-regression
```

`copter bench all` measures; it continues an interrupted run. `copter bench report` writes `report.html` and
`report.md` from the folder of results. A file `notes.json` in the folder, `{"LINE": "why"}`, adds a remark to
a line on which copter is not the fastest. The papers' figures are documents of `copter reproduce NAME
--json`.

`copter bench compare` compares two folders with the same lines. It first lists the differences of machine,
versions and settings. Then it prints, for each of copter's solvers, the ratio of new to old seconds, round by
round, with its interval over resampled rounds. A ratio whose lower end is above `--threshold` (1.1) is a
regression, and so is a lost certificate.
"""
BENCHMARKS = """# Benchmarks

Written by `make benchmarks`: do not edit. The tables show lines of [the suite](report.md), with the median,
the smallest and the largest seconds of a round after the first; a round is edit, solve and shim. Gaps are
recomputed from the program. HiGHS, OR-Tools and cvxpy are shown in the mode that is the fastest on the line;
the report has all modes.

![Seconds of a round over columns: copter warm and cold, HiGHS in its fastest mode](round.svg)
"""
QUEUES = {
    "slurm": "Slurm's backfill",
    "schedule": "Slurm's backfill and `copter schedule`",
    "ray": "first come first served on Ray",
}
LIVE = """# Live figures

Written by `make benchmarks` from `bench/results/live`: do not edit. Slurm and Ray run with four
nodes each on one machine, with real gradients, checkpoints, resizes and reports. Steps are paced to ten times
the speeds that were measured for GPUs: four T4 on each of two nodes, four A100 on each of two others.

## The same jobs by a cluster's own queue and by copter

Both runs use the same script and the same work. The queue gives each job the number of GPUs that its user
requested, of any free type, until the job ends. With sizes "trace" this is the number of Microsoft's trace,
with a proportional batch; with "tuned" it is a number tuned to the job. copter, with Sia, gets jobs without a
size.

The lines of Slurm's backfill alone are of a version of the service that submitted its runs to Slurm. The
lines with `copter schedule` are of jobs that sleep through their paced steps. A resize takes 8 s, because
a requeued job of Slurm waits 5 s. This is much for jobs whose steps are ten times as fast as those of
GPUs, and little for the same jobs with several times the work, which are submitted several times as far
apart.

```sh
python tests/slurm_comparison.py --seed 2 --json bench/results/live/schedule-2.json
python tests/slurm_comparison.py --seed 1 --longer 2 --json bench/results/live/schedule-1-longer.json
python tests/slurm_comparison.py --seed 2 --longer 4 --json bench/results/live/schedule-2-longer.json
python tests/live_comparison.py ray --seed 2 --json bench/results/live/ray-2.json
```
"""
FORECASTS = """
## Estimated starts

```sh
python tests/live_forecasts.py --json bench/results/live/forecasts.json
```

`copter jobs --why` says when a job would start if no further jobs arrived. Here, {jobs:,} jobs of a virtual
cluster of Microsoft's trace over {days} days are played on {gpus} GPUs, with a round every
{round_seconds:.0f} s. Every {every_hours:.0f} hours the starts of all waiting jobs are estimated, and
compared with their starts in the whole simulation, in which later jobs do arrive. With "default", no job
declares its run time, so that policy and estimate assume one hour. Errors are absolute; a relative error is a
share of the wait that was left, at least of one round. An estimate is too early or too late if it differs by
more than a round.

"""
FAULTS = """
## Kills at random

```sh
python tests/live_faults.py --backend local --jobs 200 --kills 100 --seed 1
python tests/live_faults.py --backend ray --jobs 200 --kills 100 --seed 1
```

Half of the jobs are commands; the other half train and are resized. Processes are killed at random times and
restart after some seconds. A run succeeds if every acknowledged job ended once and in the right state, no job
ran in two places at a time, the journal is consistent, and replayed rounds give the same decisions. The last
column is for jobs with a checkpoint every second.

"""
MANY = """
## Many jobs

```sh
python tests/live_soak.py rounds --jobs 1000 --rounds 100
```
"""
SOAK = """
## Jobs that end immediately

```sh
python tests/live_soak.py jobs --jobs 10000
```
"""
PAPERS_PAGE = f"""# The papers' tables and figures

Written by `make benchmarks` from the documents in `bench/results/papers`, which `copter reproduce NAME
--json` writes: do not edit. `copter reproduce --all bench/results/papers` makes the missing documents.

## What the papers claim

The tables list claims of the papers' texts and tables, not all of them, and the measured values of the
documents.

{claims.RULE}
"""
AT_A_GLANCE = """
## At a glance

*Printed* is the number of measured figures for which the paper prints a value, as a number, a bound or the
end of a range; a percentage of a text is shown as the ratio of the row. Figures within 15% and 50% differ by
at most these parts of the printed value or gain; a bound is within both if it is kept. *Published* is the
number of figures for which the authors publish a result with their code instead. *Workloads* is the number
of distinct workloads: a repeated workload counts once.

Measured figures are means over the samples, with their standard deviation, which is over samples unless the
section says otherwise. Samples of the authors' workloads repeat them if there are fewer than samples. Ratios
of two figures are more reliable than single figures: jobs, clusters and profiles are similar to the paper's,
and identical only if a section says so.

"""
MISSING = """
## Not yet measured

"""
GROUPS = {
    "Sia (thesis, chapter 3)": "sia-",
    "COpter (chapter 4)": ("thesis-table-4", "thesis-figure-4", "thesis-figures-4"),
    "Shards and networks (chapter 5)": "thesis-figure-5",
    "Shockwave": "shockwave-",
    "Pollux": "pollux-",
    "AFS": "afs-",
}
"""Beginnings of the names of the reproductions, by paper."""


def table(heads: tuple[str, ...], rows: list[tuple[str, ...]], words: int = 1) -> str:
    """Return a Markdown table; the first `words` columns are text, the others numbers."""
    rules = ("---" if k < words else "---:" for k in range(len(heads)))
    return "\n".join(f"| {' | '.join(cells)} |" for cells in (heads, rules, *rows)) + "\n"


def report_page(report: SuiteReport) -> str:
    """Return the text of bench/results/report.md."""
    head, rest = as_markdown(report, f"full/{PICTURES}").split("\n\n", 1)
    return f"{head}\n\n{REPORT}{rest}{REPORT_END}"


@cache
def measured() -> list[Claim]:
    """Return the documents of the papers as sections."""
    return standings.measured(PAPERS)


def claimed() -> str:
    """Return the papers' claims: the number of each verdict by paper, and a table of each verdict."""
    every = list(claims.judge(reproductions(), read_documents(PAPERS), not_reproduced()))
    groups = {paper: [one for one in every if one.name.startswith(of)] for paper, of in GROUPS.items()}
    judged = [one for group in groups.values() for one in group]
    counts = []
    for paper, group in (groups | {"**all**": judged}).items():
        verdicts = [one.verdict for one in group]
        each = (f"{verdicts.count(verdict)}" for verdict in claims.VERDICTS)
        counts.append((paper, *each, f"{len(verdicts)}"))
    parts = [table(("claims of", *claims.VERDICTS, "all"), counts)]
    for verdict in claims.VERDICTS:
        rows = [_claim_row(one) for one in judged if one.verdict == verdict]
        heads = ("paper", "claim", "better", "printed", "measured", "document", "reason")
        if verdict in ("met", "beaten"):
            heads, rows = heads[:-1], [row[:-1] for row in rows]
        listed = table(heads, rows, len(heads)) if rows else "No claim.\n"
        parts.append(f"### {verdict.capitalize()}\n\n{listed}")
    return "\n".join(parts)


def _claim_row(one: claims.Judged) -> tuple[str, ...]:
    claim, bound = one.claim, claims.read_printed(one.claim.read or one.claim.printed).bound
    printed = f"{claim.printed}, compared as {claim.read}" if claim.read else claim.printed
    better = "bound" if bound else claim.better
    return claim.place, claim.says, better, printed, one.measured, f"`{one.name}`", one.reason


def papers_page() -> str:
    """Return the text of bench/results/papers.md."""
    there, missing = standings.standings(PAPERS)
    rows = [
        (
            f"`{one.name}`",
            one.source,
            *(
                text
                for each in (one.printed, one.published)
                for text in ((f"{each.figures}", f"{each.near}", f"{each.far}") if each.figures else [""] * 3)
            ),
            f"{one.workloads}",
            seconds(one.seconds),
        )
        for one in there
    ]
    counted = ("within 15%", "within 50%")
    heads = ("document", "paper", "printed", *counted, "published", *counted, "workloads", "took")
    absent = [(f"`{one.name}`", one.source, f"{one.minutes * one.seeds / 3.0:g} min") for one in missing]
    return (
        PAPERS_PAGE
        + claimed()
        + AT_A_GLANCE
        + table(heads, rows, 2)
        + (MISSING if absent else "")
        + (table(("reproduction", "paper", "about"), absent, 2) if absent else "")
        + "\n"
        + sections_as_markdown(measured(), f"papers/{PICTURES}")
    )


def readme(suite: SuiteResult) -> str:
    """Return the README, with measured figures between its two pairs of marks."""
    text = README.read_text()
    for (begin, end), own in (((WHY, WHY_END), why(suite)), ((BEGIN, END), lines_of_readme(suite))):
        before, _, rest = text.partition(begin)
        text = "".join((before, begin, own, end, rest.partition(end)[2]))
    return text


def why(suite: SuiteResult) -> str:
    """Return three sentences with the figures of the largest programs."""
    sia, few = suite.lines["sia-10240"], suite.lines["changes-50-of-1000000"]
    mode = fastest_mode(sia, "highs")
    assert mode is not None
    return (
        f"- A scheduling round of 10,240 GPUs, with {columns(sia):,} columns, takes "
        f"{median(sia, 'copter')}. HiGHS in its fastest mode takes {median(sia, mode)} (medians of warm "
        f"rounds, {len(sia.measured_rounds('copter'))} of copter and {len(sia.measured_rounds(mode))} of "
        f"HiGHS, tolerance {sia.tolerance:g}).\n"
        "- Edits cost what they touch: new costs of 50 of 50,000 requests, and the solve with "
        f"{columns(few):,} columns, take {median(few, 'copter')}.\n"
        "- Every solution has a bound on the optimum, which is recomputed from the program and does not rely "
        "on the solver. A late solve returns the best allocation so far, with its gap.\n"
    )


def lines_of_readme(suite: SuiteResult) -> str:
    """Return the README's table, the largest ratios first, and what it shows."""
    rows = []
    for line in (suite.lines[name] for name in IN_README):
        mode = fastest_mode(line, "highs")
        assert mode is not None
        ratio = median_seconds(line, mode) / median_seconds(line, "copter")
        rounds = " and ".join(f"{len(line.measured_rounds(name))}" for name in ("copter", mode))
        cells = (
            f"{columns(line):,}",
            f"{line.tolerance:g}",
            rounds,
            median(line, "copter"),
            median(line, mode),
        )
        rows.append((ratio, (line.title, *cells, f"{ratio:.3g}")))
    rows.sort(reverse=True)
    heads = ("round of", "columns", "tolerance", "rounds", "copter", "HiGHS, fastest mode", "ratio")
    lost = [f"`{one.line}`" for one in verdicts(suite) if not one.won]
    synthetic = sum(name.startswith(("columns-", "churn-", "changes-", "scarce-")) for name in suite.lines)
    told = (
        f"\nMedian seconds of a warm round (edits, solve and rounding) on {hardware(suite.machine)}, on "
        f"{suite.begun[:10]}; rounds of copter and of HiGHS, which has [seven "
        "modes](bench/results/report.md#fastest-modes). "
        f"Of the suite's {len(all_cases('full', Inputs()))} lines, {len(suite.lines)} were measured with "
        f"this version, {synthetic} of them synthetic. On {len(lost)} another solver is faster: "
        f"{', '.join(lost)}. "
        "[The report](bench/results/report.md) has all solvers, ranges and gaps.\n"
        f"{speed_of_the_machine(suite)}\n\n"
        "```sh\ncopter bench all --profile full --only sia-10240 --out runs/sia-10240    "
        "# networks need --data FOLDER\n```\n"
    )
    return table(heads, [row for _, row in rows]) + told


def benchmarks_page(suite: SuiteResult) -> str:
    """Return the text of bench/results/benchmarks.md."""
    heads = ("solver", "round", "first round", "not optimal", "largest gap", "jobs that changed", "memory")
    parts, missing = [BENCHMARKS], []
    for name, others in SHOWN.items():
        if name not in suite.lines:
            missing.append(f"`{name}`")
            continue
        line = suite.lines[name]
        fastest = (fastest_mode(line, house) for house in MODES)
        rows = [_row(line, solver) for solver in ("copter", *others, *filter(None, fastest))]
        kept = [k for k in range(len(heads)) if k != 5 or rows[0][5]]
        text = table(tuple(heads[k] for k in kept), [tuple(row[k] for k in kept) for row in rows])
        size = f"{columns(line):,} columns, {records(line, 'copter')[-1]['n_rows']:,} rows; tolerance"
        without = [f"{label}: {why}" for house, label in MODES.items() if (why := _why(line, house))]
        told = f"{'; '.join(without)}.\n" if without else ""
        parts.append(
            f"## {line.title}\n\n{size} {line.tolerance:g}.\n\n```sh\n{line.command}\n```\n\n{text}{told}"
        )
    if missing:
        parts.append(f"## Not yet measured\n\nWith all modes: {', '.join(missing)}.\n")
    parts.append(gpu.section())
    told = f"The suite ran on {suite.begun[:10]}. {speed_of_the_machine(suite)}"
    parts.append(f"## Machine\n\n{told}\n\n{machine(suite.machine)}.\n")
    return "\n".join(parts)


def _why(line: LineResult, house: str) -> str:
    """Return why a line has no row of a solver; empty if it has one, or none was to be measured."""
    return "" if fastest_mode(line, house) else why_no_mode(line, house)


def _row(line: LineResult, solver: str) -> tuple[str, ...]:
    found, rounds = spread(seconds_of(line, solver)), records(line, solver)
    counted = line.measured_rounds(solver)
    moved = spread(record.get("integral_churn", math.nan) for record in counted)["mean"]
    unsolved = sum(record["status"] != "optimal" for record in counted)
    return (
        f"`{solver}`",
        f"{median(line, solver)} ({seconds(found['min'])} to {seconds(found['max'])})",
        seconds(rounds[0]["seconds"]),
        f"{unsolved} of {len(counted)}",
        gap(line, solver),
        share(moved) if math.isfinite(moved) else "",
        megabytes(line.solvers[solver].peak_memory_mb),
    )


def live_page() -> str:
    """Return the text of bench/results/live-figures.md."""
    found = {path.stem: json.loads(path.read_text()) for path in sorted((HERE / "live").glob("*.json"))}
    compared = []
    for one in found.values():
        if "queue" not in one:
            continue
        queue, ours = one["queue"], one["copter"]
        what = f"{QUEUES[one['cluster']]}, {len(one['jobs'])} jobs, sizes: {one['sizes']}, seed {one['seed']}"
        if one.get("longer", 1.0) > 1.0:
            what += f", {one['longer']:g} times as long"
        compared.append(
            (
                what,
                *(f"{side['average_jct']:.1f} s" for side in (queue, ours)),
                f"{one['jct_ratio']:.2f}",
                *(f"{side['makespan']:.0f} s" for side in (queue, ours)),
                f"{one['makespan_ratio']:.2f}",
            )
        )
    heads = ("queue", "average JCT, queue", "copter", "ratio", "makespan, queue", "copter", "ratio")
    parts = [LIVE, table(heads, compared)]
    if "forecasts" in found:
        one = found["forecasts"]
        minutes = ("wait_p50", "wait_p90", "error_p50", "error_p90")
        shares = ("relative_p50", "relative_p90", "too_early", "too_late")
        rows = [
            (
                policy,
                known,
                f"{each['jobs']:,}",
                *(f"{each[key] / 60.0:.0f} min" for key in minutes),
                *(f"{each[key]:.0%}" for key in shares),
            )
            for policy, both in one["forecasts"].items()
            for known, each in both.items()
        ]
        heads = (
            *("policy", "run times", "estimates", "median wait left", "p90", "median error", "p90"),
            *("median relative error", "p90", "too early", "too late"),
        )
        parts += [FORECASTS.format(**one), table(heads, rows, words=2)]
    faults = [one for name, one in found.items() if name.startswith("faults")]
    if faults:
        rows = []
        for one in faults:
            kills = ", ".join(f"{count} {what}" for what, count in one["killed"].items())
            outcomes = ", ".join(f"{count} {what}" for what, count in one["outcomes"].items())
            lost = f"{one['most_seconds_lost']:.2f} s"
            rows.append((one["backend"], f"{one['jobs']}", kills, outcomes, f"{one['rounds']}", lost))
        heads = (
            "backend",
            "jobs",
            "kills",
            "how runs ended",
            "rounds replayed",
            "most work repeated",
        )
        parts += [FAULTS, table(heads, rows)]
    if "rounds" in found:
        one = found["rounds"]
        rows = [
            (what, *(f"{one[key][q]:.1f} ms" for q in ("p50", "p99", "max")))
            for what, key in (("a round", "round_ms"), ("its policy", "policy_ms"), ("a tick", "tick_ms"))
        ]
        parts += [MANY, table(("1,000 jobs on 512 slots", "median", "p99", "largest"), rows)]
    if "soak" in found:
        one = found["soak"]
        rows = [
            (
                f"{each['jobs']:,}",
                f"{each['memory_mb']:.0f} MB",
                *(str(each[key]) for key in ("files", "threads", "folders")),
            )
            for each in one["grown"]
        ]
        parts += [
            f"{SOAK}\n{one['jobs']:,} jobs in {one['seconds']:.0f} s; "
            f"{one['journal_bytes_per_job']:,} bytes of journal a job.\n",
            table(("jobs submitted", "memory", "open files", "threads", "folders of jobs"), rows),
        ]
    return "\n".join(parts)


def records(line: LineResult, solver: str) -> list[dict[str, Any]]:
    """Return all records of a solver on a line."""
    return line.solvers[solver].records


def columns(line: LineResult) -> int:
    """Return the number of columns of the largest program of a line."""
    return int(max(record["n_variables"] for record in records(line, "copter")))


def median(line: LineResult, solver: str) -> str:
    """Return the median seconds of a round, marked as a lower bound if a round was missed."""
    least = "≥ " if line.solvers[solver].status == "missed" else ""
    return least + seconds(spread(seconds_of(line, solver))["median"])


def _solve(line: LineResult, solver: str) -> str:
    """Return the median seconds of the counted solves alone."""
    return seconds(spread(record["solve_seconds"] for record in line.measured_rounds(solver))["median"])


def gap(line: LineResult, solver: str) -> str:
    """Return the largest gap of the counted rounds."""
    return small(spread(record["gap"] for record in line.measured_rounds(solver))["max"])


def machine(on: dict[str, Any]) -> str:
    """Return processor, memory, system and versions as text."""
    versions = (f"{name} {which}" for name, which in on["versions"].items() if which != "not installed")
    return f"{hardware(on)}; {', '.join(versions)}"


def hardware(on: dict[str, Any]) -> str:
    """Return processor, memory and system as text."""
    return f"{on['cores']} cores of {on['processor']}, {on['memory_gb']} GB, {on['system']}"


def picture(suite: SuiteResult) -> None:
    """Draw seconds of a round over columns, both logarithmic; equal results give equal files.

    A size at which no mode of HiGHS has an answer has no point.
    """
    import matplotlib as mpl
    from matplotlib.figure import Figure

    lines = [line for name, line in suite.lines.items() if re.fullmatch(r"sia-\d+", name)]
    largest = [line for line in lines if fastest_mode(line, "highs")][-1]
    own, other = (median(largest, str(name)) for name in ("copter", fastest_mode(largest, "highs")))
    title = f"One scheduling round: {own} instead of {other} at {columns(largest) / 1e6:.1f} million columns"
    names = {
        "copter": lambda line: "copter",
        "copter, cold": lambda line: "copter-cold",
        "HiGHS": lambda line: fastest_mode(line, "highs"),
    }
    for file, ink, hues in (
        (PICTURE, "#24292f", ("#0b6e6e", "#7aa6a6", "#c2410c")),
        (PICTURE.with_stem("round-dark"), "#e6edf3", ("#4fd1c5", "#7d9c9c", "#fb923c")),
    ):
        style = {"text.color": ink, "axes.edgecolor": ink, "axes.labelcolor": ink, "xtick.color": ink}
        style |= {"ytick.color": ink, "svg.hashsalt": "copter", "svg.fonttype": "none", "font.size": 11}
        with mpl.rc_context(style):
            figure = Figure(figsize=(7.5, 4.2), layout="constrained", facecolor="none")
            axes = figure.add_subplot(xscale="log", yscale="log", facecolor="none")
            for (label, of), hue in zip(names.items(), hues, strict=True):
                solved = [(line, name) for line in lines if (name := of(line)) and name in line.solvers]
                at = [columns(line) for line, _ in solved]
                found = [spread(seconds_of(*one)) for one in solved]
                middle = [each["median"] for each in found]
                axes.plot(at, middle, "o-", color=hue)
                if label != "copter, cold":  # its slowest round would hide the other lines
                    axes.fill_between(
                        at, *([each[end] for each in found] for end in ("min", "max")), color=hue, alpha=0.2
                    )
                text = f"{label}, {seconds(middle[-1])}"
                axes.annotate(text, (at[-1], middle[-1]), (7, -4), textcoords="offset points", color=hue)
            axes.set_xlabel("columns of the program")
            axes.set_ylabel("seconds of a round")
            axes.set_title(title, loc="left")
            axes.grid(alpha=0.3)
            axes.margins(x=0.3)
            axes.set_xlim(left=500)
            axes.spines[["top", "right"]].set_visible(False)
            figure.savefig(file, metadata={"Date": None})


def renew(name: str) -> None:
    """Copy the texts and printed values of a reproduction to its document, whose set-up must be the same."""
    path, one = PAPERS / f"{name}.json", reproductions()[name]
    document = json.loads(path.read_text())
    texts = {key: getattr(one, key) for key in ("title", "source", "differs", "needs_data", "deviations")}
    for figure in document["figures"]:
        figure["paper"] = one.printed.get((figure["row"], figure["column"]), figure["paper"])
    document |= texts | {"workloads": one.played(document["settings"]["seeds"])}
    order = ("name", "title", "source", "differs", "needs_data", "settings", "workloads", "deviations")
    save_json({key: document[key] for key in (*order, *document) if key in document}, path)


def main() -> None:
    """Write all pages, tables and pictures."""
    for name in sys.argv[1:]:
        renew(name)
    suite = load_suite(RESULTS)
    report = make_report(suite, notes_of(RESULTS), PAPERS)
    (RESULTS / HTML).write_text(as_html(report), encoding="utf-8")
    write_pictures(report.pictures, RESULTS / PICTURES)
    (HERE / "report.md").write_text(report_page(report), encoding="utf-8")
    (HERE / "benchmarks.md").write_text(benchmarks_page(suite), encoding="utf-8")
    (HERE / "papers.md").write_text(papers_page(), encoding="utf-8")
    (HERE / "live-figures.md").write_text(live_page(), encoding="utf-8")
    (HERE / "shards.md").write_text(shards.page(ROOT), encoding="utf-8")
    README.write_text(readme(suite), encoding="utf-8")
    picture(suite)


if __name__ == "__main__":
    main()
