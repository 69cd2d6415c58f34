"""Sweeps of one quantity over policies and seeds, with a row for each value and policy."""

from __future__ import annotations

from collections.abc import Sequence
from time import perf_counter
from typing import TYPE_CHECKING, Any

import typer

from copter.bench.formats import with_deviation
from copter.cli.console import errors, progress, publish, seconds, table
from copter.problems.cluster import SWEEPS
from copter.problems.cluster.experiment import Progress, averages, run_tasks
from copter.tasks.tasks import Task

if TYPE_CHECKING:
    from copter.problems.cluster.cli import ClusterBenchOptions

_SHOWN = {
    "average_jct_hours": "average JCT (h)",
    "p99_jct_hours": "p99 JCT (h)",
    "makespan_hours": "makespan (h)",
    "gpu_hours_per_job": "GPU-h/job",
    "worst_ftf": "worst FTF",
    "unfair_fraction": "unfair",
}


def run_sweep(options: ClusterBenchOptions, values: Sequence[Any]) -> None:
    """Simulate all values, print the table, and write the document if requested."""
    begin = perf_counter()
    setups = [options.setup(**_varied(options, value)) for value in values]
    tasks = [
        Task(f"{options.sweep} = {value}, {one.name}", one.function, one.arguments)
        for value, setup in zip(values, setups, strict=True)
        for one in run_tasks(setup, options.policies, options.all_seeds())
    ]
    bar = progress(quiet=options.quiet)
    with options.spread() as spread, bar:
        line = bar.add_task("runs", total=len(tasks))

        def show(task: Task, now: Progress) -> None:
            bar.update(line, description=task.name, advance=now.over)

        outcomes = [ended.result() for ended in spread.each(tasks, show)]
    results: list[dict[str, Any]] = []
    runs = len(options.policies) * options.seeds
    for k, value in enumerate(values):
        averaged = averages(outcomes[k * runs : (k + 1) * runs])
        results += [{"value": value, "policy": policy, **figures} for policy, figures in averaged.items()]
    publish(_document(options, results), options.json_path, lambda: _show(options.sweep, results))
    errors().print(f"swept in {seconds(perf_counter() - begin)}")


def _varied(options: ClusterBenchOptions, value: Any) -> dict[str, Any]:
    """Return the changes of the setup for a value of the sweep."""
    if options.sweep in SWEEPS:
        return {options.sweep.replace("-", "_"): value}
    who, dot, name = options.sweep.partition(".")
    if not dot:
        raise typer.BadParameter(
            f"{options.sweep!r}: must be one of {', '.join(SWEEPS)}, or POLICY.SETTING such as sia.p",
            param_hint="--sweep",
        )
    options.check_owner(who, "--sweep")
    settings = {policy: dict(own) for policy, own in options.policy_settings().items()}
    settings.setdefault(who, {})[name.replace("-", "_")] = value
    return {"settings": settings}


def _document(options: ClusterBenchOptions, results: Sequence[dict[str, Any]]) -> dict[str, Any]:
    from copter.bench.machine import machine, versions

    return {
        "settings": options.settings(),
        "machine": machine(),
        "versions": versions(),
        "results": list(results),
    }


def _show(what: str, results: Sequence[dict[str, Any]]) -> None:
    rows = [
        (
            str(one["value"]),
            one["policy"],
            *(with_deviation(one[name], one[f"{name}_std"]) for name in _SHOWN),
        )
        for one in results
    ]
    table(f"Sweep of {what}", (what, "policy", *_SHOWN.values()), rows, text_columns=2)
