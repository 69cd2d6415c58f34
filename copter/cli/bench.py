"""`copter bench X`: running a benchmark case and printing its tables, in the same way for every domain."""

from __future__ import annotations

import math
import traceback
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import typer

from copter.bench.calm import Calm
from copter.bench.case import Case
from copter.bench.course import Course, Figure
from copter.bench.machine import machine, moment
from copter.bench.result_files import SolverResult, described
from copter.bench.rounds import BenchJob, run
from copter.bench.settings import Record
from copter.bench.statistics import document
from copter.cli.console import command_line, publish, say, seconds, table

if TYPE_CHECKING:
    from copter.cli.command import BenchOptions


def bench(case: Case, options: BenchOptions) -> None:
    """Run a case with the solvers of the options, and report; exit with 1 if a solver raised an error."""
    case = replace(case, solvers=options.solvers, tolerance=options.tolerance, mip_gap=options.mip_gap)
    began = {"measured": moment()}
    with TemporaryDirectory(prefix="copter-bench-") as folder:
        course = case.make(Path(folder))
        measured, failures = _measure(case, course, options)
    rounds = max((len(one.records) for one in measured), default=0)
    case = replace(case, left_out=course.left_out, rounds=rounds)
    names = [one.solver for one in measured]
    line = case.line(" ".join(command_line()), names, options.threads, options.time_limit or math.inf)
    result = described(line) | began | document(machine(), options.settings(), measured, course)
    if failures:
        result["failures"] = failures
    publish(result, options.json_path, lambda: _print(case.title, result, course))
    if failures:
        raise typer.Exit(1)


def _measure(case: Case, course: Course, options: BenchOptions) -> tuple[list[SolverResult], dict[str, str]]:
    """Run a case with the solvers of the options; return the results, and the errors by solver.

    If a solver raises an error, the benchmark continues with the next solver.
    """
    measured, failures = [], {}
    # a machine of a Ray cluster has its own speed, which it measures itself
    best = math.inf if options.ray is not None else Calm().best
    jobs = [
        BenchJob(course, options.solver_settings(name), case.checker, best=best) for name in options.solvers
    ]
    figures = tuple(course.figures)

    def hear(name: str, said: Any) -> None:
        if isinstance(said, str):
            say(f"measuring {said}")
        elif isinstance(said, dict):
            solver = "" if options.ray is None else f" {name}"
            say(f" {solver} {_shown(figures, said)}")

    with options.spread() as spread:
        for one, error in run(jobs, spread, hear):
            if error is None:
                measured.append(one)
            else:
                traceback.print_exception(error)
                failures[one.solver] = one.reason
                say(f"{one.solver} failed; the benchmark continues with the other solvers")
    return measured, failures


def _shown(figures: Sequence[Figure], record: Record) -> str:
    parts = [seconds(record["seconds"]), record["status"] + (", missed" if record["missed"] else "")]
    if math.isfinite(record["gap"]):
        parts.append(f"gap {record['gap']:.1e}")
    parts += [f"{one.name} {record[one.name]:{one.form}}" for one in figures if one.name in record]
    return f"{record['round']}: {', '.join(parts)}"


def _print(title: str, result: Mapping[str, Any], course: Course) -> None:
    _print_times(title, result, course)
    if course.figures:
        _print_figures(result, course)


def _print_times(title: str, result: Mapping[str, Any], course: Course) -> None:
    largest = max(result["records"], key=lambda record: record["n_variables"], default=None)
    size = f": {largest['n_variables']:,} columns, {largest['n_rows']:,} rows" if largest else ""
    table(
        f"{title}{size}; medians of the rounds{_after(course)} (>= where rounds were cut off)",
        (
            "solver",
            "first",
            "edit",
            "solve",
            "rounding",
            "round",
            "p99",
            "not optimal",
            "largest gap",
            "integrality loss, median / largest",
            "churn",
            "iterations",
            "MB",
        ),
        [
            (
                name,
                seconds(one["first_round"]["seconds"]),
                *(
                    _time(one[time], "median")
                    for time in ("edit_seconds", "solve_seconds", "rounding_seconds", "seconds")
                ),
                _time(one["seconds"], "p99"),
                _not_optimal(one, one["rounds_measured"]),
                _gap(one["gap"]["max"], one["gap"]["not_finite"]),
                _loss(one["integrality_loss"]),
                _share(one["churn"]["median"]),
                f"{one['iterations']['median']:.0f}",
                f"{one['peak_memory_mb']:.0f}" if one["peak_memory_mb"] else "-",
            )
            for name, one in result["summary"].items()
        ],
    )


def _loss(one: Mapping[str, Any]) -> str:
    """Return the median and the largest finite loss, and the number of rounds without a finite loss."""
    shown = f"{one['median']:.2%} / {one['max']:.2%}" if math.isfinite(one["max"]) else "-"
    return f"{shown}, {one['not_finite']} without" if one["not_finite"] else shown


def _print_figures(result: Mapping[str, Any], course: Course) -> None:
    table(
        f"Results of each solver{_after(course)}",
        ("solver", *(f"{figure.heading}, {figure.shown}" for figure in course.figures)),
        [
            (name, *(figure.show(one[figure.name]) for figure in course.figures))
            for name, one in result["summary"].items()
        ],
    )


def _after(course: Course) -> str:
    """Return the end of a title: the rounds that the figures leave out."""
    return " after the first" + (f" {course.left_out}" if course.left_out > 1 else "")


def _time(figures: Mapping[str, Any], name: str) -> str:
    """Return a time; >= marks a lower bound."""
    return (">= " if name in figures["at_least"] else "") + seconds(figures[name])


def _share(value: float) -> str:
    return f"{value:.1%}" if math.isfinite(value) else "-"


def _not_optimal(one: Mapping[str, Any], rounds: int) -> str:
    """Return the numbers of rounds that are not optimal, and of rounds that missed their deadline."""
    return f"{one['not_optimal']} of {rounds}" + (f", {one['missed']} missed" if one["missed"] else "")


def _gap(largest: float, not_finite: int) -> str:
    """Return the largest finite gap, and the number of rounds without a finite gap."""
    shown = f"{largest:.1e}" if math.isfinite(largest) else "-"
    return f"{shown}, {not_finite} without" if not_finite else shown
