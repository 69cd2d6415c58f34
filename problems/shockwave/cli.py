"""`copter run shockwave` and `copter bench shockwave`: jobs that change their batch size, on shared GPUs."""

from __future__ import annotations

import difflib
import sys
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeAlias

import typer

from copter.cli.console import errors, print_json, progress
from copter.cli.options import (
    Deadline,
    Isolate,
    JsonFlag,
    JsonPath,
    MipGap,
    Seed,
    Threads,
    Tolerance,
    existing_file,
    positive,
)
from copter.cli.solvers import split_solvers

if TYPE_CHECKING:
    from copter.problems.shockwave import Job, Policy, Round
    from copter.problems.shockwave.report import ShockwaveRun

SHORT = {"max-min": "max-min-fairness", "max-sum": "max-sum-throughput"}
POLICIES = ("shockwave", "max-min", "max-sum", "themis", "allox", "ossp", "gandiva-fair", "srpt")
SOLVERS = ("copter", "cvxpy", "highs-milp")
RELAXATIONS = ("copter", "cvxpy")
PREDICTORS = ("restatement", "bayesian", "greedy", "oracle")
DEFAULT_GPUS, DEFAULT_JOBS = 32, 120
_GPU_SECONDS_AN_ARRIVAL = 1344.0

_RUN_EXAMPLES = """\b
Examples:
  copter run shockwave --n-jobs 120 --gpus 32 --out runs/plans
  copter run shockwave --policy shockwave,themis,max-min,srpt --hours 2 --json
  copter run shockwave --jobs 120_0.2_5_100_40_25_dynamic.json --gpus 32 --policy all
"""
_BENCH_EXAMPLES = """\b
Examples:
  copter bench shockwave --jobs 500 --gpus 256 --solvers copter,cvxpy
  copter bench shockwave --jobs 2000 --gpus 256 --solvers copter,highs-milp --deadline 15 --json plans.json
"""


def register(run: typer.Typer, bench: typer.Typer) -> None:
    """Add the commands of this domain."""
    run.command("shockwave", epilog=_RUN_EXAMPLES)(run_shockwave)
    bench.command("shockwave", epilog=_BENCH_EXAMPLES)(bench_shockwave)


def _known(name: str, known: Iterable[str], what: str) -> None:
    names = list(known)
    if name not in names:
        near = difflib.get_close_matches(name, names, n=1)
        hint = f"did you mean {near[0]}? " if near else ""
        raise typer.BadParameter(f"no {what} is called {name!r}. {hint}There are: {', '.join(names)}")


def _some_of(known: Sequence[str], what: str) -> Callable[[str], str]:
    def check(names: str) -> str:
        parts = split_solvers(names)
        if not parts:
            raise typer.BadParameter(f"name at least one {what}, for example: {known[0]}")
        for name in parts:
            _known(name, known, what)
        return names

    return check


def _one_of(known: Sequence[str], what: str) -> Callable[[str], str]:
    def check(name: str) -> str:
        _known(name, known, what)
        return name

    return check


def _not_negative(value: float) -> float:
    if not 0 <= value < float("inf"):
        raise typer.BadParameter(f"{value:g} must be finite and not negative")
    return value


PlanRounds: TypeAlias = Annotated[int, typer.Option(min=1, help="T: rounds of two minutes in a plan.")]
Power: TypeAlias = Annotated[
    float,
    typer.Option(callback=_not_negative, help="k: jobs weigh their finish time fairness to this power."),
]
Lambda: TypeAlias = Annotated[
    float, typer.Option("--lambda", callback=_not_negative, help="Weight of the makespan in the plan.")
]
Predictor: TypeAlias = Annotated[
    str, typer.Option(callback=_one_of(PREDICTORS, "predictor"), help=f"{', '.join(PREDICTORS)}.")
]
ShimSeconds: TypeAlias = Annotated[
    float,
    typer.Option(callback=_not_negative, help="Seconds after which a plan is not improved any further."),
]


def run_shockwave(
    jobs: Annotated[
        Path | None,
        typer.Option(
            callback=existing_file("give a trace (JSON), or leave --jobs out for the generator"),
            help="Trace of jobs (JSON); generated if not given.",
        ),
    ] = None,
    n_jobs: Annotated[
        int | None, typer.Option(min=1, help=f"Jobs of the generator; {DEFAULT_JOBS} if not given.")
    ] = None,
    gpus: Annotated[int, typer.Option(min=1, help="GPUs of the cluster.")] = DEFAULT_GPUS,
    arrival_seconds: Annotated[
        float | None,
        typer.Option(
            callback=positive,
            help="Mean seconds between two arrivals of the generator; 1344 / GPUs, as in the paper's traces, "
            "if not given.",
        ),
    ] = None,
    policy: Annotated[
        str,
        typer.Option(
            callback=_some_of((*POLICIES, *SHORT.values(), "all"), "policy"),
            help=f"Policies, separated by commas, or all: {', '.join(POLICIES)}.",
        ),
    ] = "shockwave",
    hours: Annotated[
        float | None,
        typer.Option(
            callback=positive, help="Only jobs that arrive in the first so many hours; all if not given."
        ),
    ] = None,
    plan_rounds: PlanRounds = 120,
    power: Power = 5.0,
    lam: Lambda = 10.0,
    predictor: Predictor = "restatement",
    solver: Annotated[
        str,
        typer.Option(
            callback=_one_of(RELAXATIONS, "solver"), help=f"Of the plans: {', '.join(RELAXATIONS)}."
        ),
    ] = "copter",
    shim_seconds: ShimSeconds = 0.2,
    seed: Seed = 0,
    out: Annotated[
        Path | None,
        typer.Option(help="Run folder; runs/shockwave-<time>, or with --json none, if not given."),
    ] = None,
    as_json: JsonFlag = False,
) -> None:
    """Schedule jobs that change their batch size, under one policy after the other, and compare.

    Every policy plays the same trace to its end, round by round. Without --jobs it comes from a seeded
    generator.
    """
    for name, given in (("--n-jobs", n_jobs), ("--arrival-seconds", arrival_seconds)):
        if jobs is not None and given is not None:
            raise typer.BadParameter("belongs to the generator: leave it out, or --jobs", param_hint=name)
    names = split_solvers(policy)
    chosen = list(POLICIES) if "all" in names else names
    settings: dict[str, Any] = {
        "jobs": str(jobs) if jobs else None,
        "n_jobs": n_jobs,
        "gpus": gpus,
        "arrival_seconds": arrival_seconds,
        "policies": list(dict.fromkeys(SHORT.get(name, name) for name in chosen)),
        "hours": hours,
        "plan_rounds": plan_rounds,
        "power": power,
        "lambda": lam,
        "predictor": predictor,
        "solver": solver,
        "shim_seconds": shim_seconds,
        "seed": seed,
    }
    trace = _trace(jobs, n_jobs, gpus, arrival_seconds, hours, seed)
    from copter.cli.runfolder import default_path
    from copter.problems.shockwave.report import ShockwaveRun

    path = out if out is not None or as_json else default_path("shockwave")
    with ShockwaveRun(trace, gpus, path, [Path(sys.argv[0]).name, *sys.argv[1:]], settings) as run:
        _follow(run, settings, quiet=as_json)
        summary = run.finish()
    if as_json:
        print_json(summary)
        return
    run.print_summary()
    errors().print(f"Run folder: {path}")


def _trace(
    path: Path | None,
    count: int | None,
    gpus: int,
    arrival_seconds: float | None,
    hours: float | None,
    seed: int,
) -> list[Job]:
    """Jobs that take part; those that do not fit on the cluster at all are a usage error."""
    from copter.problems.shockwave import generate, read_jobs
    from copter.problems.shockwave.generator import ARRIVAL_SECONDS

    if path is not None:
        jobs = read_jobs(path)
    else:
        usual = ARRIVAL_SECONDS.get(gpus, _GPU_SECONDS_AN_ARRIVAL / gpus)
        mean = usual if arrival_seconds is None else arrival_seconds
        jobs = generate(DEFAULT_JOBS if count is None else count, seed=seed, arrival_seconds=mean)
    if hours is not None:
        jobs = [job for job in jobs if job.arrival <= hours * 3600.0]
    if not jobs:
        raise typer.BadParameter("no job arrives in that time", param_hint="--hours")
    if min(job.gpus for job in jobs) > gpus:
        raise typer.BadParameter(
            f"every job needs more than {gpus}: at least {min(job.gpus for job in jobs)}", param_hint="--gpus"
        )
    return jobs


def _policy(name: str, settings: dict[str, Any]) -> Policy:
    from copter.problems.shockwave import Settings, Shockwave, make_baseline
    from copter.problems.shockwave.relaxation import solve_relaxation
    from copter.problems.shockwave.waterfill import solve_waterfilling

    if name != "shockwave":
        return make_baseline(name)
    return Shockwave(
        Settings(
            rounds=settings["plan_rounds"],
            power=settings["power"],
            lam=settings["lambda"],
            predictor=settings["predictor"],
            shim_seconds=settings["shim_seconds"],
        ),
        solve_relaxation if settings["solver"] == "cvxpy" else solve_waterfilling,
    )


def _follow(run: ShockwaveRun, settings: dict[str, Any], quiet: bool) -> None:
    """Play all policies, each under a progress bar of completed jobs."""
    bar = progress("{task.fields[hour]:5.1f} h", "queue {task.fields[queue]:4d}", quiet=quiet)
    with bar:
        for name in settings["policies"]:
            if name in SHORT.values():
                _warm_up(name)
            task = bar.add_task(name, total=run.admitted, hour=0.0, queue=0)

            def show(now: Round, completed: int, task: Any = task) -> None:
                waiting = sum(not state.running for state in now.jobs)
                bar.update(task, completed=completed, hour=now.time / 3600.0, queue=waiting)

            run.play(_policy(name, settings), show)
            bar.update(task, completed=run.admitted, queue=0)


def _warm_up(name: str) -> None:
    """Replay a few jobs first, so that the compilation of the LP solver is in no round's time."""
    from copter.problems.shockwave import generate, make_baseline, replay

    replay(generate(6, arrival_seconds=0.0), 8, make_baseline(name))


def bench_shockwave(
    jobs: Annotated[int, typer.Option(min=1, help="Active jobs in every round.")] = 500,
    gpus: Annotated[int, typer.Option(min=1, help="GPUs of the cluster.")] = 256,
    rounds: Annotated[int, typer.Option(min=1, help="Rounds; each is planned from scratch.")] = 5,
    solvers: Annotated[
        str,
        typer.Option(
            callback=_some_of(SOLVERS, "solver"),
            help=f"Solvers, separated by commas: {', '.join(SOLVERS)}.",
        ),
    ] = "copter,cvxpy",
    json_path: JsonPath = None,
    plan_rounds: PlanRounds = 20,
    power: Power = 5.0,
    lam: Lambda = 10.0,
    predictor: Predictor = "restatement",
    shim_seconds: ShimSeconds = 1.0,
    tolerance: Tolerance = 1e-6,
    mip_gap: MipGap = 1e-3,
    deadline: Deadline = 15.0,
    threads: Threads = None,
    seed: Seed = 0,
    isolate: Isolate = True,
) -> None:
    """Let each solver plan the same rounds of a busy cluster, up to a plan of whole rounds with its gap."""
    settings = {
        "jobs": jobs,
        "gpus": gpus,
        "rounds": rounds,
        "solvers": split_solvers(solvers),
        "plan_rounds": plan_rounds,
        "power": power,
        "lambda": lam,
        "predictor": predictor,
        "shim_seconds": shim_seconds,
        "tolerance": tolerance,
        "mip_gap": mip_gap,
        "deadline": deadline,
        "threads": threads,
        "seed": seed,
        "isolate": isolate,
    }
    from copter.cli.bench_report import measure_all, report
    from copter.problems.shockwave import Settings
    from copter.problems.shockwave.course import PlanCourse

    own = Settings(rounds=plan_rounds, power=power, lam=lam, predictor=predictor, shim_seconds=shim_seconds)
    course = PlanCourse(jobs, gpus, rounds, seed, own)
    measured, failures = measure_all(course, settings)
    title = f"Shockwave, {jobs} jobs on {gpus} GPUs, plans of {plan_rounds} rounds"
    report(title, course, settings, measured, failures, json_path)
