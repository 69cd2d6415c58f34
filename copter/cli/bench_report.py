"""Running and reporting of benchmarks on recorded rounds, the same for every domain."""

from __future__ import annotations

import traceback
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import typer

from copter.bench.machine import machine
from copter.bench.rounds import Measured, Record, Recorded, SolverSettings, replay, replay_isolated
from copter.bench.summary import document
from copter.cli.console import errors, save_json, seconds, table


def measure_all(recorded: Recorded, settings: Mapping[str, Any]) -> tuple[list[Measured], dict[str, str]]:
    """Replay a recording through the solvers of `settings`, one after the other.

    A solver that fails does not end the benchmark: its error is in the second result, by its name.
    """
    measured, failures = [], {}
    run = replay_isolated if settings["isolate"] else replay
    for name in settings["solvers"]:
        errors().print(f"measuring {name}")
        solver = SolverSettings(name, settings["tolerance"], settings["deadline"], settings["threads"])
        try:
            measured.append(run(recorded, solver, _show))
        except (
            Exception
        ) as error:  # hours of other solvers' rounds must not be lost to one, whatever it raised
            traceback.print_exc()
            failures[name] = f"{type(error).__name__}: {error}"
            errors().print(f"{name} failed; the others go on")
    return measured, failures


def _show(record: Record) -> None:
    errors().print(
        f"  {record['round']}: {seconds(record['t_total'])}, {record['status']}, gap {record['gap']:.1e}"
    )


def report(
    title: str,
    settings: dict[str, Any],
    measured: Sequence[Measured],
    failures: Mapping[str, str],
    json_path: Path | None,
) -> None:
    """Print the tables or the JSON document, or write it; exit with 1 if a solver failed."""
    result = document(machine(), settings, measured)
    if failures:
        result["failures"] = dict(failures)
    if json_path is not None:
        save_json(result, json_path)
    if str(json_path) != "-":
        _print_times(title, result)
        _print_ablation(result["ablation"])
    if failures:
        raise typer.Exit(1)


def _print_times(title: str, result: Mapping[str, Any]) -> None:
    first = result["records"][0] if result["records"] else None
    size = f": {first['n_variables']:,} columns, {first['n_rows']:,} rows" if first else ""
    table(
        f"{title}{size}; medians of the rounds after the first",
        (
            "solver",
            "first",
            "edit",
            "solve",
            "shim",
            "round",
            "p99",
            "gap",
            "integral",
            "churn",
            "iterations",
            "MB",
        ),
        [
            (
                name,
                seconds(one["first_round"]["t_total"]),
                *(seconds(one[time]["median"]) for time in ("t_edit", "t_solve", "t_shim", "t_total")),
                seconds(one["t_total"]["p99"]),
                f"{one['gap']['max']:.1e}",
                f"{one['integral_gap']['max']:.1e}",
                f"{one['churn']['median']:.1%}",
                f"{one['iterations']['median']:.0f}",
                f"{one['peak_memory_mb']:.0f}" if one["peak_memory_mb"] else "-",
            )
            for name, one in result["summary"].items()
        ],
    )


def _print_ablation(rows: Sequence[Mapping[str, Any]]) -> None:
    yes = {True: "yes", False: "no"}
    table(
        "What each solver keeps from the last round, and what that is worth",
        (
            "solver",
            "differential edits",
            "warm start",
            "edit",
            "solve",
            "edit + solve / copter round",
            "largest gap",
        ),
        [
            (
                row["solver"],
                yes[row["differential_edits"]],
                yes[row["warm_start"]],
                seconds(row["t_edit"]),
                seconds(row["t_solve"]),
                f"{row['over_copter']:.2f}x" if row["over_copter"] else "-",
                f"{row['max_gap']:.1e}",
            )
            for row in rows
        ],
        text_columns=3,
    )
