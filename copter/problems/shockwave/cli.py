"""`copter run shockwave` and `copter bench shockwave`: jobs that change their batch size on shared GPUs."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, ClassVar

import typer

from copter.cli.command import BenchOptions, RunOptions
from copter.cli.options import MipGap, TimeLimit, Tolerance, existing_file, positive, some_of
from copter.cli.solvers import Names
from copter.problems.cluster.cli import Policies, PolicyOptions
from copter.problems.shockwave import SOLVERS

if TYPE_CHECKING:
    from copter.bench.case import Case
    from copter.problems.shockwave import RegimeJob

_DEFAULT_GPUS, _DEFAULT_JOBS = 32, 120
_GPU_SECONDS_AN_ARRIVAL = 1344.0


@dataclass(frozen=True, kw_only=True)
class ShockwaveRunOptions(PolicyOptions, RunOptions):
    """Schedule jobs that change their batch size under several policies, and compare the policies.

    Every policy plays the same trace to its end, round by round, as with `copter run cluster`. Without
    --jobs, the trace comes from a seeded generator.
    """

    examples: ClassVar[str] = """\b
Examples:
  copter run shockwave --n-jobs 120 --gpus 32 --out runs/plans
  copter run shockwave --policy shockwave,themis,gavel,srpt --hours 2 --json
  copter run shockwave --jobs 120_0.2_5_100_40_25_dynamic.json --set shockwave.rounds=20
"""

    jobs: Annotated[
        Path | None,
        typer.Option(
            callback=existing_file("give a trace (JSON), or omit --jobs for the generator"),
            help="Trace of jobs (JSON); default: generated.",
        ),
    ] = None
    n_jobs: Annotated[
        int | None, typer.Option(min=1, help=f"Number of jobs of the generator; default: {_DEFAULT_JOBS}.")
    ] = None
    gpus: Annotated[int, typer.Option(min=1, help="GPUs of the cluster.")] = _DEFAULT_GPUS
    arrival_seconds: Annotated[
        float | None,
        typer.Option(
            callback=positive,
            help="Mean seconds between two arrivals of the generator; default: 1344 / GPUs, as in the paper's"
            " traces.",
        ),
    ] = None
    policies: Policies = Names(("shockwave",))
    hours: Annotated[
        float | None,
        typer.Option(
            callback=positive, help="Use only jobs that arrive in this many first hours; default: all."
        ),
    ] = None

    def __post_init__(self) -> None:
        for name, given in (("--n-jobs", self.n_jobs), ("--arrival-seconds", self.arrival_seconds)):
            if self.jobs is not None and given is not None:
                raise typer.BadParameter(
                    "is for generated jobs only: omit it, or omit --jobs", param_hint=name
                )
        self.check_settings()

    def trace(self) -> list[RegimeJob]:
        """Return the jobs of the run; raise a usage error if none arrives, or none fits on the cluster."""
        from copter.problems.shockwave import generate, read_jobs
        from copter.problems.shockwave.generator import ARRIVAL_SECONDS

        if self.jobs is not None:
            jobs = read_jobs(self.jobs)
        else:
            usual = ARRIVAL_SECONDS.get(self.gpus, _GPU_SECONDS_AN_ARRIVAL / self.gpus)
            mean = usual if self.arrival_seconds is None else self.arrival_seconds
            count = _DEFAULT_JOBS if self.n_jobs is None else self.n_jobs
            jobs = generate(count, seed=self.seed, arrival_seconds=mean)
        if self.hours is not None:
            jobs = [job for job in jobs if job.arrival <= self.hours * 3600.0]
        if not jobs:
            raise typer.BadParameter("no job arrives in this time", param_hint="--hours")
        least = min(job.gpus for job in jobs)
        if least > self.gpus:
            raise typer.BadParameter(
                f"{self.gpus}: must be at least {least}, the GPUs of the smallest job", param_hint="--gpus"
            )
        return jobs

    def execute(self) -> None:
        """Play all policies."""
        trace = self.trace()
        from copter.problems.cluster.experiment import run_tasks
        from copter.problems.cluster.report.run import PolicyRuns
        from copter.problems.shockwave.simulation import ReplaySetup
        from copter.tasks.tasks import Here

        setup = ReplaySetup(regime_jobs=trace, gpus=self.gpus, settings=self.policy_settings())
        with PolicyRuns(self, "shockwave", f"Shockwave: {', '.join(self.policies)}") as runs:
            runs.play(Here(), run_tasks(setup, self.policies, [self.seed]))
            runs.report()


@dataclass(frozen=True, kw_only=True)
class ShockwaveBenchOptions(BenchOptions):
    """Let each solver make integral plans for the same rounds of a busy cluster, and report their gaps."""

    examples: ClassVar[str] = """\b
Examples:
  copter bench shockwave --jobs 500 --gpus 256 --solvers copter,cvxpy
  copter bench shockwave --jobs 2000 --gpus 256 --solvers copter,highs-milp --time-limit 15 --json plans.json
"""

    jobs: Annotated[int, typer.Option(min=1, help="Number of active jobs in every round.")] = 500
    gpus: Annotated[int, typer.Option(min=1, help="GPUs of the cluster.")] = 256
    rounds: Annotated[int, typer.Option(min=1, help="Number of rounds, each with its own window.")] = 5
    solvers: Annotated[
        Names,
        typer.Option(
            "--solvers",
            parser=some_of(SOLVERS, "solver"),
            metavar="NAMES",
            help=f"Solvers, separated by commas: {', '.join(SOLVERS)}.",
        ),
    ] = Names(("copter", "water-filling", "cvxpy"))
    plan_rounds: Annotated[int, typer.Option(min=1, help="T: number of rounds in a plan.")] = 20
    shim_seconds: Annotated[
        float, typer.Option(min=0.0, help="Seconds after which the improvement of a plan stops.")
    ] = 1.0
    exact: Annotated[
        bool,
        typer.Option("--exact", help="Try to prove Shockwave's plans optimal, for another --shim-seconds."),
    ] = False
    tolerance: Tolerance = 1e-6
    mip_gap: MipGap = 1e-3
    time_limit: TimeLimit = 15.0

    def case(self) -> Case:
        """Return the windows of a busy cluster."""
        from copter.bench.case import Case, as_it_is
        from copter.problems.shockwave import Settings
        from copter.problems.shockwave.course import PlanCourse

        planning = Settings(rounds=self.plan_rounds, shim_seconds=self.shim_seconds, exact=self.exact)
        size = f"{self.jobs} jobs on {self.gpus} GPUs, plans of {self.plan_rounds} rounds"
        make = partial(as_it_is, PlanCourse(self.jobs, self.gpus, self.rounds, self.seed, planning))
        return Case("shockwave", "shockwave", f"Shockwave, {size}", make, checker="bound")


COMMANDS = {"run shockwave": ShockwaveRunOptions, "bench shockwave": ShockwaveBenchOptions}
