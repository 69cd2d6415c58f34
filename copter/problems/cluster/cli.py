"""`copter run cluster`: runs any schedulers on any trace, and compares them on the same jobs."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, TypeAlias

import typer

from copter.cli.command import CommandOptions, RunOptions, WithProcesses
from copter.cli.options import Traces, one_of, policies_option, positive
from copter.cli.solvers import Names
from copter.errors import choices
from copter.problems.cluster import ESTIMATORS, PLACERS

if TYPE_CHECKING:
    from copter.problems.cluster.experiment import Setup


def _policies() -> list[str]:
    from copter.problems.cluster.registry import policy_names

    return policy_names()


def _settings(given: list[str]) -> list[str]:
    for text in given:
        policy, dot, rest = text.partition(".")
        if not (dot and policy and "=" in rest and rest.partition("=")[0]):
            raise typer.BadParameter(f"{text!r}: must be POLICY.SETTING=VALUE, such as sia.p=-1")
    return given


def policy_settings(texts: list[str] | None) -> dict[str, Any]:
    """Return the settings of a policy from texts such as ``p=-1``; raise BadParameter if one is invalid."""
    settings: dict[str, Any] = {}
    for text in texts or []:
        name, equals, value = text.partition("=")
        if not equals:
            raise typer.BadParameter(f"{text!r}: must be SETTING=VALUE, such as p=-1", param_hint="--set")
        settings[name.replace("-", "_")] = parse_value(value)
    return settings


def parse_value(text: str) -> Any:
    """Return the value of a setting as typed: a number, true or false, none, or a string."""
    words = {"true": True, "false": False, "none": None}
    if text.lower() in words:
        return words[text.lower()]
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text


Policies: TypeAlias = Annotated[Names, policies_option(_policies)]


@dataclass(frozen=True, kw_only=True)
class PolicyOptions(CommandOptions):
    """Policies and their settings."""

    policies: Policies = Names(("sia",))
    sets: Annotated[
        list[str],
        typer.Option(
            "--set", callback=_settings, metavar="POLICY.SETTING=VALUE", help="Setting of a policy."
        ),
    ] = field(default_factory=list)
    others: ClassVar[tuple[str, ...]] = ()
    """Names that have settings and are not policies."""

    def check_settings(self) -> None:
        """Raise a usage error if a setting is invalid."""
        from copter.problems.cluster.registry import SettingsError, make_policy

        settings = self.policy_settings()
        for name in settings:
            known = (*self.policies, *self.others)
            if name not in known:
                raise typer.BadParameter(
                    f"{name!r} is not a policy of --policy: {choices(name, known)}", param_hint="--set"
                )
        try:
            for name in self.policies:
                make_policy(name, **settings.get(name, {}))
        except SettingsError as error:
            raise typer.BadParameter(str(error)) from None

    def policy_settings(self) -> dict[str, dict[str, Any]]:
        """Return the settings by policy, as the options give them."""
        settings: dict[str, dict[str, Any]] = {}
        for text in self.sets:
            policy, _, rest = text.partition(".")
            name, _, value = rest.partition("=")
            settings.setdefault(policy, {})[name.replace("-", "_")] = parse_value(value)
        return settings


@dataclass(frozen=True, kw_only=True)
class ClusterRunOptions(WithProcesses, PolicyOptions, RunOptions):
    """Play schedulers of GPU clusters on the same jobs, and compare them.

    Every policy plays the same samples of the trace in the same simulator.  The run folder has rounds, jobs,
    allocations, and report.html.
    """

    examples: ClassVar[str] = """\b
Examples:
  copter run cluster --policy sia,gavel --seeds 3
  copter run cluster --cluster homogeneous-64 --trace helios --policy sia,pollux,shockwave --seeds 10
  copter run cluster --policy sia,pollux,gavel --seeds 10 --ray
  copter run cluster --trace philly --data shared/data --policy afs-l,srtf,tiresias --json
  copter run cluster --policy sia --set sia.p=-1 --estimator bootstrap --failures 24
"""

    others = ("trace",)
    cluster: Annotated[
        str, typer.Option(help="Name of a cluster, such as heterogeneous-64; an unknown name lists all.")
    ] = "heterogeneous-64"
    trace: Annotated[str, typer.Option(help="Name of a trace, such as philly, or a workload's CSV file.")] = (
        "philly"
    )
    data: Traces = None
    seeds: Annotated[int, typer.Option(min=1, help="Number of samples of the trace, from --seed on.")] = 1
    jobs: Annotated[
        int | None, typer.Option(min=1, help="Number of jobs in the trace; default: the trace's own.")
    ] = None
    round_seconds: Annotated[
        float | None,
        typer.Option(callback=positive, help="Length of a round in seconds; default: the policy's own."),
    ] = None
    estimator: Annotated[
        str,
        typer.Option(
            callback=one_of(ESTIMATORS, "estimator"),
            help=f"Estimator of the jobs' speed: {', '.join(ESTIMATORS)}.",
        ),
    ] = ESTIMATORS[0]
    placement: Annotated[
        str,
        typer.Option(callback=one_of(PLACERS, "placer"), help=f"Placer of jobs: {', '.join(PLACERS)}."),
    ] = PLACERS[0]
    failures: Annotated[
        float | None,
        typer.Option(callback=positive, help="Mean hours between failures of a node; default: no failures."),
    ] = None
    max_hours: Annotated[
        float | None, typer.Option(callback=positive, help="Stop at this simulated time.")
    ] = None

    def __post_init__(self) -> None:
        from copter.problems.cluster.registry import SettingsError

        self.check_settings()
        try:
            self.setup()
        except SettingsError as error:
            raise typer.BadParameter(str(error)) from None

    def setup(self) -> Setup:
        """Return the setup that the options describe."""
        from copter.problems.cluster.experiment import Setup

        own = {name: getattr(self, name) for name in Setup.names() if name != "settings"}
        return Setup(**own, settings=self.policy_settings())

    def execute(self) -> None:
        """Play all policies and seeds."""
        from copter.problems.cluster.experiment import run_tasks
        from copter.problems.cluster.report.run import PolicyRuns

        title = f"{self.trace} on {self.cluster}, {self.seeds} seeds: {', '.join(self.policies)}"
        with self.spread() as spread, PolicyRuns(self, "cluster", title) as runs:
            runs.play(
                spread, run_tasks(self.setup(), self.policies, range(self.seed, self.seed + self.seeds))
            )
            runs.report()


COMMANDS = {"run cluster": ClusterRunOptions}
