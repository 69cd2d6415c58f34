"""`copter run sia` and `copter bench sia`: GPU clusters scheduled round by round with the Sia policy."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Annotated, ClassVar

import typer

from copter.cli.command import BenchOptions, OverActors, Proving, RunOptions
from copter.cli.console import say, seconds
from copter.cli.options import MipGap, SolverName, Tolerance, existing_file, positive

if TYPE_CHECKING:
    from copter.bench.case import Case
    from copter.bench.course import Course
    from copter.problems.cluster.workload import Scenario

_DEFAULT_GPUS = 512
_DEFAULT_HOURS = 24.0
_PROVING = ("copter", "copter-exact", "highs-milp")
"""Solvers that can prove an allocation optimal; with --exact, the default solver is copter-exact."""


def _folder(path: Path | None) -> Path | None:
    if path is not None and not path.is_dir():
        raise typer.BadParameter(
            f"{path}: must be the folder with the <application>.npz files, or its parent"
        )
    return path


def _knob(value: float) -> float:
    if value == 0 or not math.isfinite(value):
        raise typer.BadParameter(f"{value:g}: must be a finite number other than 0")
    return value


@dataclass(frozen=True, kw_only=True)
class SiaRunOptions(Proving, RunOptions):
    """Schedule a heterogeneous GPU cluster through a day of job arrivals with the Sia policy.

    Without --workload, jobs, profiles and arrivals come from a seeded generator.
    """

    examples: ClassVar[str] = """\b
Examples:
  copter run sia --gpus 512 --jobs-per-day 960 --hours 6 --out runs/first
  copter run sia --workload workload-1.csv --profiles derived_npz --gpus 512 --json
  copter run sia --gpus 512 --solver highs-milp --mip-gap 1e-3 --time-limit 10
  copter run sia --gpus 512 --hours 6 --exact
"""

    workload: Annotated[
        Path | None,
        typer.Option(
            callback=existing_file("give a CSV of jobs, or omit --workload and --profiles for the generator"),
            help="CSV of jobs: name, time, application; more columns are optional.",
        ),
    ] = None
    profiles: Annotated[
        Path | None,
        typer.Option(
            callback=_folder, help="Folder of the applications' profiles, or one that contains derived_npz."
        ),
    ] = None
    gpus: Annotated[
        int | None,
        typer.Option(
            min=1,
            help=f"GPUs of the cluster, in whole nodes; default: {_DEFAULT_GPUS}, or the workload's size.",
        ),
    ] = None
    jobs_per_day: Annotated[
        float | None,
        typer.Option(callback=positive, help="Jobs per day of the generator; default: 3.9 for each GPU."),
    ] = None
    hours: Annotated[
        float | None,
        typer.Option(callback=positive, help="Hours of submissions; default: 24, or the whole workload."),
    ] = None
    max_hours: Annotated[
        float | None,
        typer.Option(
            callback=positive,
            help="Simulated hours until the run stops; default: when all jobs are complete.",
        ),
    ] = None
    p: Annotated[
        float, typer.Option(callback=_knob, help="Fairness exponent of the objective, not 0; fairer below 0.")
    ] = -0.5
    lam: Annotated[float, typer.Option(min=0.0, help="Cost of leaving a job without GPUs.")] = 1.1
    round_seconds: Annotated[float, typer.Option(callback=positive, help="Length of a round.")] = 60.0
    solver: SolverName = "copter"
    tolerance: Tolerance = 1e-5
    mip_gap: MipGap = 1e-3

    def __post_init__(self) -> None:
        if (self.workload is None) != (self.profiles is None):
            given, missing = "--workload", "--profiles"
            if self.workload is None:
                given, missing = missing, given
            raise typer.BadParameter(f"must be given with {given}", param_hint=missing)
        if self.workload is not None and self.jobs_per_day is not None:
            raise typer.BadParameter(
                "is for generated jobs only: omit it, or omit --workload", param_hint="--jobs-per-day"
            )
        if self.exact and self.solver not in _PROVING:
            raise typer.BadParameter(
                f"{self.solver} proves nothing: omit it, or change --solver", param_hint="--exact"
            )

    def scenario(self) -> Scenario:
        """Return the scenario of the given files, or of the generator."""
        from copter.problems.sia.generator import JOBS_PER_GPU_DAY, generate, read_scenario

        if self.workload is not None and self.profiles is not None:
            return read_scenario(self.workload, self.profiles, self.gpus)
        size = _DEFAULT_GPUS if self.gpus is None else self.gpus
        rate = JOBS_PER_GPU_DAY * size if self.jobs_per_day is None else self.jobs_per_day
        return generate(
            size, rate, hours=_DEFAULT_HOURS if self.hours is None else self.hours, seed=self.seed
        )

    def execute(self) -> None:
        """Play Sia, and first come, first served."""
        scenario = self.scenario()
        from copter.cli.run import preparing
        from copter.problems.cluster.experiment import run_tasks
        from copter.problems.cluster.report.run import PolicyRuns
        from copter.problems.sia.runs import POLICIES, SiaSetup
        from copter.tasks.tasks import Here

        _say_size(self.gpus, scenario.cluster.gpus)
        setup = SiaSetup(options=self, round_seconds=self.round_seconds, max_hours=self.max_hours)
        shape = {type.name: [type.gpus_per_node, type.nodes] for type in scenario.cluster.types}
        config = {"cluster (GPUs per node, nodes)": shape}
        with PolicyRuns(self, "sia", "Sia, and first come, first served", config) as runs:
            preparing(self.solver_name(self.solver))
            runs.play(Here(), run_tasks(setup, POLICIES, [self.seed]))
            runs.report()


def _say_size(wanted: int | None, there: int) -> None:
    """Print a line if the cluster does not have the requested number of GPUs."""
    if wanted is not None and there != wanted:
        say(f"{there} GPUs instead of {wanted}: each type has whole nodes, at least one")


@dataclass(frozen=True, kw_only=True)
class SiaBenchOptions(Proving, OverActors, BenchOptions):
    """Time Sia rounds with each solver: 2% of the jobs leave in each round, and nearly all costs change.

    Rounds are recorded once and replayed with every solver.
    """

    examples: ClassVar[str] = """\b
Examples:
  copter bench sia --gpus 1024 --jobs 200 --solvers copter,highs-hot
  copter bench sia --gpus 10000 --jobs 1800 --rounds 10 --json sia.json
  copter bench sia --gpus 2048 --jobs 250 --exact --solvers copter,highs-milp
"""

    gpus: Annotated[int, typer.Option(min=1, help="GPUs of the cluster, of 7 types.")] = 1024
    jobs: Annotated[int, typer.Option(min=1, help="Number of jobs in the cluster at any time.")] = 200
    rounds: Annotated[int, typer.Option(min=1, help="Number of rounds; the first is a cold start.")] = 5
    tolerance: Tolerance = 1e-4
    mip_gap: MipGap = 1e-3

    def case(self) -> Case:
        """Return the benchmark case, whose rounds are recorded first."""
        from copter.bench.case import Case
        from copter.problems.sia.generator import builtin_cluster

        _say_size(self.gpus, builtin_cluster(self.gpus).gpus)
        return Case(
            "sia",
            "exact" if self.exact else "sia",
            f"Sia, {self.gpus} GPUs, {self.jobs} jobs",
            partial(_recorded, self),
            x={"gpus": self.gpus, "jobs": self.jobs},
            checker="proof" if self.exact else "certificate",
        )


def _recorded(options: SiaBenchOptions, scratch: Path) -> Course:
    """Record rounds and return them as a course."""
    from copter.problems.sia.course import record_sia

    begin = perf_counter()
    say(f"recording {options.rounds} rounds of {options.jobs} jobs on {options.gpus} GPUs")
    recorded = record_sia(
        scratch,
        gpus=options.gpus,
        jobs=options.jobs,
        rounds=options.rounds,
        seed=options.seed,
        proven=options.exact,
    )
    say(f"recorded in {seconds(perf_counter() - begin)}")
    return recorded


COMMANDS = {"run sia": SiaRunOptions, "bench sia": SiaBenchOptions}
