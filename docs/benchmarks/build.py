"""Measure the courses of courses.py, or write what is shown of the documents: page, table and picture.

    python docs/benchmarks/build.py measure [NAME ...]
    python docs/benchmarks/build.py render

Measure on a machine that does nothing else.
"""

from __future__ import annotations

import json
import math
import os
import shlex
import subprocess
import sys
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from courses import COURSES, SIZES, Course

HERE = Path(__file__).parent
PAGE = HERE.parent / "benchmarks.md"
PICTURE = HERE / "round.svg"
README = HERE.parents[1] / "README.md"
BEGIN, END = "<!-- written by make benchmarks -->\n", "<!-- end -->\n"

INTRODUCTION = """# Benchmarks

Written by `make benchmarks` from the documents in `docs/benchmarks/`, which `make measure` writes: do not
edit. Each section has its command; the machines and the versions are at the end. Times are medians of the
rounds after the first, with the smallest and the largest; a round is edit, solve and shim. The tolerance is
the command's default where none is named, and every figure of quality is recomputed from the program.

![Seconds of a round over columns: copter warm and cold, HiGHS kept hot](benchmarks/round.svg)
"""


def measure(names: list[str]) -> None:
    """Run the commands and keep what they summarise, with the load of the machine before each."""
    for course in COURSES:
        if names and course.name not in names:
            continue
        load = os.getloadavg()[0]
        tool, *words = shlex.split(course.command)
        run = [Path(sys.executable).with_name(tool), *words, "--json", "-"]
        print(course.command, flush=True)
        document = json.loads(subprocess.run(run, stdout=subprocess.PIPE, check=True).stdout)
        if course.name != "updates":
            records = document.pop("records")
            document["sizes"] = {key: max(each[key] for each in records) for key in ("n_variables", "n_rows")}
        document["measured"] = {"on": datetime.now(UTC).strftime("%Y-%m-%d"), "load_before": round(load, 2)}
        (HERE / f"{course.name}.json").write_text(json.dumps(document, indent=1) + "\n")


def documents() -> Iterator[tuple[Course, dict[str, Any]]]:
    """The courses that were measured."""
    for course in COURSES:
        file = HERE / f"{course.name}.json"
        if file.exists():
            yield course, json.loads(file.read_text())


def seconds(value: float) -> str:
    """Three digits and a unit."""
    if not math.isfinite(value):
        return "-"
    for unit, size in (("s", 1.0), ("ms", 1e-3), ("µs", 1e-6)):
        if value >= size or unit == "µs":
            return f"{value / size:.3g} {unit}"
    raise AssertionError


def small(gap: float | None) -> str:
    """A gap, if there is one."""
    return "-" if gap is None or not math.isfinite(gap) else f"{gap:.0e}"


def times(ratio: float) -> str:
    """How many times as long."""
    return f"{ratio:,.0f} times" if ratio >= 10 else f"{ratio:.2g} times"


def spread(figures: dict[str, Any]) -> str:
    """Median, smallest and largest; at least so much where a solve was cut off."""
    cut = "≥ " if figures.get("at_least") else ""
    low, middle, high = (figures[key] for key in ("min", "median", "max"))
    return f"{cut}{seconds(middle)} ({seconds(low)} to {seconds(high)})"


def page() -> str:
    """The text of docs/benchmarks.md."""
    parts, machines = [INTRODUCTION], {}
    for course, document in documents():
        rows = edits(document) if course.name == "updates" else rounds(document)
        letter = machines.setdefault(machine(document["machine"]), "ABCDEFGH"[len(machines)])
        when = "On {on}, machine {letter}, whose load was {load_before} before.".format(
            letter=letter, **document["measured"]
        )
        parts.append(
            f"## {course.title}\n\n{course.text}{sizes(document)}\n\n```sh\n{course.command}\n```\n\n"
            f"{chr(10).join(rows)}\n\n{when}\n"
        )
    lines = (f"- {letter}: {text}\n" for text, letter in machines.items())
    return "\n".join([*parts, "## Machines\n", "".join(lines)])


def readme() -> str:
    """The README, with a line for each course between the two marks."""
    before, _, rest = README.read_text().partition(BEGIN)
    _, _, after = rest.partition(END)
    lines = [
        "| what | columns | copter, a round | the others, same rounds | largest gap |",
        "| --- | ---: | ---: | --- | ---: |",
    ]
    for course, document in documents():
        if course.name == "updates":
            last = document["records"][-1]
            ratio = times(last["t_csr_rebuild"] / last["t_edit"])
            lines.append(
                f"| 1% of the requests replaced | {last['n_variables']:,} | {seconds(last['t_edit'])} "
                f"| scipy builds the CSR: {seconds(last['t_csr_rebuild'])} ({ratio}) | |"
            )
            continue
        ours, *rest = ((name, each["t_total"]) for name, each in document["summary"].items())
        others = (
            f"{name} {'≥ ' if each.get('at_least') else ''}{seconds(each['median'])}"
            f" ({times(each['median'] / ours[1]['median'])})"
            for name, each in rest
        )
        columns = document["sizes"]["n_variables"]
        gap = document["summary"][ours[0]]["gap"]["max"]
        lines.append(
            f"| {course.title} | {columns:,} | {seconds(ours[1]['median'])} "
            f"| {', '.join(others)} | {small(gap)} |"
        )
    return "".join((before, BEGIN, "\n".join(lines), "\n", END, after))


def sizes(document: dict[str, Any]) -> str:
    """Columns and rows of the program, if it is one."""
    if "sizes" not in document or not document["sizes"]["n_variables"]:
        return ""
    return " {n_variables:,} columns, {n_rows:,} rows.".format(**document["sizes"])


def rounds(document: dict[str, Any]) -> list[str]:
    """A line for each solver; with the share of jobs whose allocation changed, where rounds have it."""
    moved = any("integral_churn" in found for found in document["summary"].values())
    head, rule = (" jobs that changed |", " ---: |") if moved else ("", "")
    lines = [
        f"| solver | round | first round | not optimal | largest gap |{head} memory |",
        f"| --- | ---: | ---: | ---: | ---: |{rule} ---: |",
    ]
    for name, found in document["summary"].items():
        gap = found["gap"]["max"]
        churn = f" {found['integral_churn']['mean']:.1%} |" if moved else ""
        lines.append(
            f"| `{name}` | {spread(found['t_total'])} | {seconds(found['first_round']['t_total'])} "
            f"| {found['not_optimal']} of {found['rounds_measured']} "
            f"| {small(gap)} |{churn} {memory(found)} |"
        )
    return lines


def memory(found: dict[str, Any]) -> str:
    """Most memory of the solver's process, where it had one of its own."""
    held = found.get("peak_memory_mb")
    return f"{held:.0f} MB" if held else "-"


def edits(document: dict[str, Any]) -> list[str]:
    """A line for each size and kind of edit."""
    lines = [
        "| columns | edit | copter, median (quartiles) | scipy from triplets | times that |",
        "| ---: | --- | ---: | ---: | ---: |",
    ]
    kinds = {"t_edit": "replaced", "t_edit_costs": "new costs", "t_edit_own": "columns of their own"}
    for found in document["records"]:
        for key, kind in kinds.items():
            low, high = map(seconds, found[f"{key}_quartiles"])
            lines.append(
                f"| {found['n_variables']:,} | {kind} | {seconds(found[key])} ({low} to {high}) "
                f"| {seconds(found['t_csr_rebuild'])} | {found['t_csr_rebuild'] / found[key]:,.0f} |"
            )
    return lines


def machine(on: dict[str, Any]) -> str:
    """Processor, memory, system and versions."""
    versions = (f"{name} {which}" for name, which in on["versions"].items() if which != "not installed")
    where = f"{on['cores']} cores of {on['processor']}, {on['memory_gb']} GB, {on['system']}"
    return f"{where}; {', '.join(versions)}"


def picture() -> None:
    """Draw seconds of a round over columns, both logarithmic; the same file from the same documents."""
    import matplotlib as mpl
    from matplotlib.figure import Figure

    measured = {course.name: document for course, document in documents()}
    found = [measured[course.name] for course in SIZES if course.name in measured]
    styles = {
        "copter": ("copter, warm", "C0"),
        "copter-cold": ("copter, cold", "C9"),
        "highs-hot": ("HiGHS, basis kept", "C1"),
    }
    with mpl.rc_context({"svg.hashsalt": "copter", "svg.fonttype": "none", "font.size": 11}):
        figure = Figure(figsize=(7.5, 4.2), layout="constrained")
        axes = figure.add_subplot(xscale="log", yscale="log")
        for name, (label, colour) in styles.items():
            points = [(each["sizes"]["n_variables"], each["summary"][name]["t_total"]) for each in found]
            columns = [size for size, _ in points]
            middle = [time["median"] for _, time in points]
            axes.plot(columns, middle, "o-", color=colour, label=label)
            low, high = ([time[end] for _, time in points] for end in ("min", "max"))
            axes.fill_between(columns, low, high, color=colour, alpha=0.2)
            axes.annotate(seconds(middle[-1]), (columns[-1], middle[-1]), (6, -4), textcoords="offset points")
        axes.set_xlabel("columns of the program")
        axes.set_ylabel("seconds of a round")
        axes.set_title("A round of Sia: 2% of the jobs change, all costs move", loc="left")
        axes.grid(alpha=0.3)
        axes.margins(x=0.12)
        axes.spines[["top", "right"]].set_visible(False)
        axes.legend(frameon=False)
        figure.savefig(PICTURE, metadata={"Date": None})


if __name__ == "__main__":
    if sys.argv[1:2] == ["measure"]:
        measure(sys.argv[2:])
    elif sys.argv[1:] == ["render"]:
        PAGE.write_text(page())
        README.write_text(readme())
        picture()
    else:
        sys.exit(__doc__)
