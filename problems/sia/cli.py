"""`copter run sia` and `copter bench sia`: GPU clusters scheduled round by round with the Sia policy."""

from __future__ import annotations

import sys
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Annotated

import typer

from copter.cli.console import errors, print_json, progress, seconds
from copter.cli.options import (
    Deadline,
    Isolate,
    JsonFlag,
    JsonPath,
    MipGap,
    Seed,
    SolverName,
    SolverNames,
    Threads,
    Tolerance,
    existing_file,
    positive,
)
from copter.cli.solvers import split_solvers

if TYPE_CHECKING:
    from copter.problems.sia.generator import Scenario
    from copter.problems.sia.report import SiaRun
    from copter.solvers.base import Solver

DEFAULT_GPUS = 512
DEFAULT_HOURS = 24.0


_RUN_EXAMPLES = """\b
Examples:
  copter run sia --gpus 512 --jobs-per-day 960 --hours 6 --out runs/first
  copter run sia --workload workload-1.csv --profiles derived_npz --gpus 512 --json
  copter run sia --gpus 512 --solver highs-milp --mip-gap 1e-3 --deadline 10
"""
_BENCH_EXAMPLES = """\b
Examples:
  copter bench sia --gpus 1024 --jobs 200 --solvers copter,highs-hot
  copter bench sia --gpus 10000 --jobs 1800 --rounds 10 --json sia.json
"""


def register(run: typer.Typer, bench: typer.Typer) -> None:
    """Add the commands of this domain."""
    run.command("sia", epilog=_RUN_EXAMPLES)(run_sia)
    bench.command("sia", epilog=_BENCH_EXAMPLES)(bench_sia)


def _folder(path: Path | None) -> Path | None:
    if path is not None and not path.is_dir():
        raise typer.BadParameter(
            f"{path} is no folder: give the one with the <application>.npz files, or its parent"
        )
    return path


def run_sia(
    workload: Annotated[
        Path | None,
        typer.Option(
            callback=existing_file(
                "give a CSV of jobs, or leave --workload and --profiles out for the generator"
            ),
            help="CSV of jobs: name, time, category, application.",
        ),
    ] = None,
    profiles: Annotated[
        Path | None,
        typer.Option(
            callback=_folder, help="Folder of the applications' profiles, or one with derived_npz in it."
        ),
    ] = None,
    gpus: Annotated[
        int | None,
        typer.Option(
            min=1, help=f"GPUs of the cluster; {DEFAULT_GPUS}, or the workload's own size, if not given."
        ),
    ] = None,
    jobs_per_day: Annotated[
        float | None,
        typer.Option(callback=positive, help="Jobs a day of the built-in generator; 3.9 a GPU if not given."),
    ] = None,
    hours: Annotated[
        float | None,
        typer.Option(
            callback=positive, help="Hours of submissions; 24, or the whole workload, if not given."
        ),
    ] = None,
    max_hours: Annotated[
        float | None,
        typer.Option(
            callback=positive, help="Stop at this simulated time; when all jobs are complete if not given."
        ),
    ] = None,
    solver: SolverName = "copter",
    tolerance: Tolerance = 1e-5,
    mip_gap: MipGap = 1e-3,
    deadline: Deadline = None,
    threads: Threads = None,
    seed: Seed = 0,
    out: Annotated[
        Path | None, typer.Option(help="Run folder; runs/sia-<time>, or with --json none, if not given.")
    ] = None,
    as_json: JsonFlag = False,
) -> None:
    """Schedule a heterogeneous GPU cluster through a day of job arrivals with the Sia policy.

    Without --workload, jobs, profiles and arrivals come from a seeded generator.
    """
    if (workload is None) != (profiles is None):
        given, missing = ("--workload", "--profiles") if profiles is None else ("--profiles", "--workload")
        raise typer.BadParameter(f"{given} needs {missing} too", param_hint=missing)
    if workload is not None and jobs_per_day is not None:
        raise typer.BadParameter(
            "belongs to the generator: leave it out, or --workload", param_hint="--jobs-per-day"
        )
    settings = {
        "workload": str(workload) if workload else None,
        "profiles": str(profiles) if profiles else None,
        "gpus": gpus,
        "jobs_per_day": jobs_per_day,
        "hours": hours,
        "max_hours": max_hours,
        "solver": solver,
        "tolerance": tolerance,
        "mip_gap": mip_gap,
        "deadline": deadline,
        "threads": threads,
        "seed": seed,
    }
    scenario = _scenario(workload, profiles, gpus, jobs_per_day, hours, seed)
    from copter.bench.rounds import SolverSettings
    from copter.problems.sia.replay import Replay
    from copter.problems.sia.report import SiaRun

    chosen = SolverSettings(solver, tolerance, deadline, threads, mip_gap)
    replay = Replay(scenario, chosen.make(), hours=hours, max_hours=max_hours)
    path = out if out is not None or as_json else _default_folder()
    with SiaRun(replay, path, [Path(sys.argv[0]).name, *sys.argv[1:]], settings) as run:
        _warm_up(chosen.make())
        _follow(run, quiet=as_json)
        summary = {"solver": solver, **run.finish()}
    if as_json:
        print_json(summary)
        return
    run.print_summary()
    errors().print(f"Run folder: {path}")


def _default_folder() -> Path:
    from copter.cli.runfolder import default_path

    return default_path("sia")


def _scenario(
    workload: Path | None,
    profiles: Path | None,
    gpus: int | None,
    jobs_per_day: float | None,
    hours: float | None,
    seed: int,
) -> Scenario:
    from copter.problems.sia.generator import JOBS_PER_GPU_DAY, generate, read_scenario

    if workload is not None and profiles is not None:
        return read_scenario(workload, profiles, gpus)
    size = gpus if gpus is not None else DEFAULT_GPUS
    rate = jobs_per_day if jobs_per_day is not None else JOBS_PER_GPU_DAY * size
    return generate(size, rate, hours=DEFAULT_HOURS if hours is None else hours, seed=seed)


def _warm_up(solver: Solver) -> None:
    """Replay a handful of jobs first, so that compilation is in no round's time."""
    from copter.problems.sia.generator import generate
    from copter.problems.sia.replay import Replay

    errors().print(f"preparing {solver.name} (the first run ever compiles its kernels)")
    for _ in Replay(generate(gpus=256, jobs_per_day=1440, hours=0.2), solver, max_hours=0.3).run():
        pass


def _follow(run: SiaRun, quiet: bool) -> None:
    """Play all rounds under a progress bar of completed jobs."""
    bar = progress(
        "{task.fields[hour]:5.1f} h",
        "queue {task.fields[queue]:4d}",
        "used {task.fields[used]:4.0%}",
        "solve {task.fields[solve]}",
        "gap {task.fields[gap]:.0e}",
        quiet=quiet,
    )
    with bar:
        task = bar.add_task(
            "jobs", total=len(run.replay.jobs), hour=0.0, queue=0, used=0.0, solve="-", gap=float("nan")
        )
        for record in run.rounds():
            bar.update(
                task,
                completed=run.replay.completed,
                hour=record.time / 3600.0,
                queue=record.queue,
                used=record.utilisation,
                solve=seconds(record.t_solve),
                gap=record.gap,
            )


def bench_sia(
    gpus: Annotated[int, typer.Option(min=1, help="GPUs of the cluster, of 7 types.")] = 1024,
    jobs: Annotated[int, typer.Option(min=1, help="Jobs in the cluster at any time.")] = 200,
    rounds: Annotated[int, typer.Option(min=1, help="Rounds; the first one starts from nothing.")] = 5,
    solvers: SolverNames = "copter,highs-hot",
    json_path: JsonPath = None,
    tolerance: Tolerance = 1e-4,
    mip_gap: MipGap = 1e-3,
    deadline: Deadline = None,
    threads: Threads = None,
    seed: Seed = 0,
    isolate: Isolate = True,
) -> None:
    """Replay recorded Sia rounds through each solver: 2% of the jobs leave a round, all costs move."""
    settings = {
        "gpus": gpus,
        "jobs": jobs,
        "rounds": rounds,
        "solvers": split_solvers(solvers),
        "tolerance": tolerance,
        "mip_gap": mip_gap,
        "deadline": deadline,
        "threads": threads,
        "seed": seed,
        "isolate": isolate,
    }
    from tempfile import TemporaryDirectory

    from copter.cli.bench_report import measure_all, report
    from copter.problems.sia.course import record_sia

    with TemporaryDirectory(prefix="copter-bench-") as folder:
        begin = perf_counter()
        errors().print(f"recording {rounds} rounds of {jobs} jobs on {gpus} GPUs")
        recorded = record_sia(Path(folder), gpus=gpus, jobs=jobs, rounds=rounds, seed=seed)
        errors().print(f"recorded in {seconds(perf_counter() - begin)}")
        measured, failures = measure_all(recorded, settings)
    report(f"Sia, {gpus} GPUs, {jobs} jobs", recorded, settings, measured, failures, json_path)
