"""`copter run shockwave` and `copter bench shockwave`: jobs that change their batch size on shared GPUs."""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, TypeAlias

import typer

from copter.cli.command import BenchOptions, CommandOptions, RunOptions
from copter.cli.options import MipGap, TimeLimit, Tolerance, existing_file, one_of, positive, some_of
from copter.cli.solvers import Names, check_names
from copter.problems.shockwave import ALIASES, KNOWLEDGE, MODES, POLICIES, PREDICTORS, RELAXATIONS, SOLVERS

if TYPE_CHECKING:
    from copter.bench.case import Case
    from copter.problems.cluster.policy import Estimator, Policy
    from copter.problems.shockwave import RegimeJob, Settings

_DEFAULT_GPUS, _DEFAULT_JOBS = 32, 120
_GPU_SECONDS_AN_ARRIVAL = 1344.0


def _policies(text: str) -> Names:
    names = check_names(text, "policy", one_of((*POLICIES, *ALIASES, "all"), "policy"))
    if "all" in names:
        return Names(POLICIES)
    return Names(dict.fromkeys(ALIASES.get(name, name) for name in names))


def _not_negative(value: float) -> float:
    if not 0 <= value < float("inf"):
        raise typer.BadParameter(f"{value:g}: must be finite and not negative")
    return value


_PlanRounds: TypeAlias = Annotated[int, typer.Option(min=1, help="T: number of rounds in a plan.")]
_ShimSeconds: TypeAlias = Annotated[
    float,
    typer.Option(callback=_not_negative, help="Seconds after which the improvement of a plan stops."),
]


@dataclass(frozen=True, kw_only=True)
class _PlanOptions(CommandOptions):
    """Settings of Shockwave's planner."""

    plan_rounds: _PlanRounds = 120
    power: Annotated[
        float,
        typer.Option(callback=_not_negative, help="k: exponent of finish time fairness in a job's weight."),
    ] = 5.0
    lam: Annotated[
        float, typer.Option("--lambda", callback=_not_negative, help="Weight of the makespan in the plan.")
    ] = 10.0
    predictor: Annotated[
        str,
        typer.Option(
            callback=one_of(PREDICTORS, "predictor"), help=f"Predictor of regimes: {', '.join(PREDICTORS)}."
        ),
    ] = PREDICTORS[0]
    shim_seconds: _ShimSeconds = 60.0
    exact: Annotated[
        bool,
        typer.Option("--exact", help="Try to prove Shockwave's plans optimal, for another --shim-seconds."),
    ] = False

    def settings(self) -> dict[str, Any]:
        """Return all settings of the command, with lambda under its own name."""
        return {"lambda" if name == "lam" else name: value for name, value in super().settings().items()}

    def plan_settings(self) -> Settings:
        """Return the hyperparameters of the policy."""
        from copter.problems.shockwave import Settings

        return Settings(
            rounds=self.plan_rounds,
            power=self.power,
            lam=self.lam,
            predictor=self.predictor,
            shim_seconds=self.shim_seconds,
            exact=self.exact,
        )


@dataclass(frozen=True, kw_only=True)
class ShockwaveRunOptions(_PlanOptions, RunOptions):
    """Schedule jobs that change their batch size under several policies, and compare the policies.

    Every policy plays the same trace to its end, round by round. Without --jobs, the trace comes from a
    seeded generator.
    """

    examples: ClassVar[str] = """\b
Examples:
  copter run shockwave --n-jobs 120 --gpus 32 --out runs/plans
  copter run shockwave --policy shockwave,themis,max-min,srpt --hours 2 --json
  copter run shockwave --jobs 120_0.2_5_100_40_25_dynamic.json --gpus 32 --policy all
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
    policies: Annotated[
        Names,
        typer.Option(
            "--policy",
            parser=_policies,
            metavar="NAMES",
            help=f"Policies, separated by commas, or all: {', '.join(POLICIES)}.",
        ),
    ] = Names(("shockwave",))
    hours: Annotated[
        float | None,
        typer.Option(
            callback=positive, help="Use only jobs that arrive in this many first hours; default: all."
        ),
    ] = None
    solver: Annotated[
        str,
        typer.Option(
            callback=one_of(RELAXATIONS, "solver"), help=f"Solver of the plans: {', '.join(RELAXATIONS)}."
        ),
    ] = "water-filling"
    mode: Annotated[
        str,
        typer.Option(
            callback=one_of(MODES, "mode"),
            help="reactive: make a new plan when a job's batch size changes; lazy: keep the plan.",
        ),
    ] = MODES[0]
    ending: Annotated[
        float,
        typer.Option(
            callback=_not_negative,
            help="Power instead of k for late jobs in their last round; 0: the paper's program.",
        ),
    ] = 100.0
    scatter: Annotated[
        float, typer.Option(callback=_not_negative, help="Penalty on scattered rounds of a job in a plan.")
    ] = 1.0
    noise: Annotated[
        float,
        typer.Option(min=0.0, max=1.0, help="Relative error of predicted run times, with a random sign."),
    ] = 0.0
    knowledge: Annotated[
        str,
        typer.Option(
            callback=one_of(KNOWLEDGE, "knowledge"),
            help="Knowledge of changes of batch size in other policies: agnostic, reactive, proactive.",
        ),
    ] = "reactive"

    def __post_init__(self) -> None:
        for name, given in (("--n-jobs", self.n_jobs), ("--arrival-seconds", self.arrival_seconds)):
            if self.jobs is not None and given is not None:
                raise typer.BadParameter(
                    "is for generated jobs only: omit it, or omit --jobs", param_hint=name
                )

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

    def plan_settings(self) -> Settings:
        """Return the hyperparameters of the policy."""
        return replace(
            super().plan_settings(),
            reactive=self.mode == MODES[0],
            ending=self.ending,
            scatter=self.scatter,
            noise=self.noise,
            seed=self.seed,
        )

    def estimator(self, name: str) -> Estimator | None:
        """Return the knowledge of a policy about changes of batch size; Shockwave has its own predictor."""
        from copter.problems.shockwave.awareness import make_knowledge

        return None if name == "shockwave" else make_knowledge(self.knowledge)

    def policy(self, name: str) -> Policy:
        """Return a new policy."""
        from copter.problems.cluster.registry import make_policy

        if name != "shockwave":
            return make_policy(name)
        return make_policy(name, solver=self.solver, **asdict(self.plan_settings()))

    def execute(self) -> None:
        """Play all policies."""
        trace = self.trace()
        from copter.problems.shockwave.report import run_shockwave

        run_shockwave(trace, self)


@dataclass(frozen=True, kw_only=True)
class ShockwaveBenchOptions(_PlanOptions, BenchOptions):
    """Let each solver plan the same rounds of a busy cluster, each to an integral plan with its gap."""

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
    plan_rounds: _PlanRounds = 20
    shim_seconds: _ShimSeconds = 1.0
    tolerance: Tolerance = 1e-6
    mip_gap: MipGap = 1e-3
    time_limit: TimeLimit = 15.0

    def case(self) -> Case:
        """Return the windows of a busy cluster."""
        from copter.bench.case import Case, as_it_is
        from copter.problems.shockwave.course import PlanCourse

        size = f"{self.jobs} jobs on {self.gpus} GPUs, plans of {self.plan_rounds} rounds"
        course = PlanCourse(self.jobs, self.gpus, self.rounds, self.seed, self.plan_settings())
        make = partial(as_it_is, course)
        return Case("shockwave", "shockwave", f"Shockwave, {size}", make, checker="bound")


COMMANDS = {"run shockwave": ShockwaveRunOptions, "bench shockwave": ShockwaveBenchOptions}
