"""Simulations of policies over seeds, for `copter run cluster`, `sia` and `shockwave`.

With equal seeds, all policies play the same jobs.  :class:`Setup` makes simulations from the names that the
commands accept; a domain with its own command derives a class from it.  :func:`run_tasks` returns the runs of
a setup as tasks for parallel execution.  A run depends on the setup, the policy's name and the seed only, so
its :class:`PolicyOutcome` is the same on any machine, except for the seconds that the policy took.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from itertools import islice
from pathlib import Path
from time import perf_counter
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from copter.errors import choices
from copter.problems.cluster import ESTIMATORS, PLACERS
from copter.problems.cluster.estimation.estimators import make_estimator
from copter.problems.cluster.nodes import NodeChange, NodeFailure, draw_failures
from copter.problems.cluster.placement import SiaPlacer, placer_for
from copter.problems.cluster.policy import Policy
from copter.problems.cluster.presets import cluster_by_name
from copter.problems.cluster.registry import SettingsError, by_name, make_policy, trace_names
from copter.problems.cluster.report.metrics import interval, over_seeds, summarise
from copter.problems.cluster.results import ClusterRecord, JobRecord, Segment
from copter.problems.cluster.simulation.resize import Resize
from copter.problems.cluster.simulation.simulator import Simulator
from copter.problems.cluster.traces.families import from_file
from copter.problems.cluster.workload import Scenario
from copter.tasks.tasks import Task, Tell

_PlacerMaker: TypeAlias = Callable[[Policy], SiaPlacer | None]
_PLACERS: dict[str, _PlacerMaker] = {
    "auto": placer_for,
    "sia": lambda _: SiaPlacer(),
    "shared": lambda _: SiaPlacer(sharing=True),
    "none": lambda _: None,
}
_FAILURES = 1
"""Second entry of the random seed of failures, so that failures are independent of the trace."""
_WARM_UP_ROUNDS = 3
_TELL_SECONDS = 0.1
_warm: set[str] = set()
"""Policies that have been played in this process."""


@dataclass(frozen=True)
class PolicyOutcome:
    """Outcome of one policy with one seed.

    `rejected`: jobs that do not fit on the cluster. `figures`: the metrics of
    :func:`copter.problems.cluster.report.metrics.summarise`, and for each figure of the policy its mean and
    its largest value over the rounds, as ``name_mean`` and ``name_max``.
    """

    policy: str
    seed: int
    scenario: Scenario
    jobs: list[JobRecord]
    rounds: list[ClusterRecord]
    segments: list[Segment]
    rejected: tuple[str, ...]
    figures: dict[str, float]


def _conclude(name: str, seed: int, simulator: Simulator) -> PolicyOutcome:
    """Return the outcome of a simulation."""
    jobs = simulator.job_results()
    return PolicyOutcome(
        name,
        seed,
        simulator.scenario,
        jobs,
        simulator.records,
        simulator.segments,
        simulator.rejected,
        summarise(simulator.scenario, jobs, simulator.records, simulator.segments)
        | _of_the_policy(simulator.records),
    )


def _of_the_policy(rounds: Sequence[ClusterRecord]) -> dict[str, float]:
    """Return mean and maximum of the policy's figures over the rounds that have them; NaN without any."""
    found: dict[str, float] = {}
    for name in dict.fromkeys(name for record in rounds for name in record.figures):
        values = np.array([record.figures.get(name, math.nan) for record in rounds], np.float64)
        known = values[np.isfinite(values)]
        found[f"{name}_mean"] = float(known.mean()) if known.size else math.nan
        found[f"{name}_max"] = float(known.max()) if known.size else math.nan
    return found


def averages(outcomes: Sequence[PolicyOutcome]) -> dict[str, dict[str, float]]:
    """Return the statistics over seeds of each policy's figures.

    Result for each figure: the mean as ``name``, the standard deviation as ``name_std``, and the 95% interval
    of the mean (Student's t), ``name_low`` to ``name_high``.
    """
    by_policy: dict[str, list[dict[str, float]]] = {}
    for outcome in outcomes:
        by_policy.setdefault(outcome.policy, []).append(outcome.figures)
    averaged = {}
    for policy, samples in by_policy.items():
        ends: dict[str, float] = {}
        for name in samples[0]:
            ends[f"{name}_low"], ends[f"{name}_high"] = interval([one.get(name, math.nan) for one in samples])
        averaged[policy] = over_seeds(samples) | ends
    return averaged


@dataclass(frozen=True, kw_only=True)
class Setup:
    """Conditions under which policies are played, by names and numbers.

    `cluster`, `trace`: names, see :mod:`.presets` and :mod:`.traces`; a trace may be the path of a workload
    file. `data`: folder of real traces. `jobs`: number of jobs; default: the trace's own. `estimator`,
    `placement`: names in :mod:`copter.problems.cluster`. `failures`: mean hours between
    failures of a node. `settings`: settings of policies by policy name; the settings of the trace are under
    the name "trace".
    """

    cluster: str = "heterogeneous-64"
    trace: str = "philly"
    data: Path | None = None
    jobs: int | None = None
    estimator: str = "oracle"
    placement: str = "auto"
    failures: float | None = None
    round_seconds: float | None = None
    max_hours: float | None = None
    settings: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        cluster_by_name(self.cluster)
        file = Path(self.trace).is_file()
        for what, name, known in (
            ("trace", self.trace, [self.trace] if file else trace_names()),
            ("estimator", self.estimator, ESTIMATORS),
            ("placer", self.placement, PLACERS),
        ):
            if name not in known:
                raise SettingsError(f"unknown {what} {name!r}: {choices(str(name), known)}")
        for what in ("jobs", "failures", "round_seconds", "max_hours"):
            _check_number(what, getattr(self, what))
        if self.placement == "none" and self.failures is not None:
            raise SettingsError("placement = none: must be another one, with failures")
        if file and (self.jobs is not None or self.settings.get("trace")):
            what = "the settings `jobs` and of the trace"
            raise SettingsError(f"trace = {self.trace}: {what} do not apply to a workload file")

    @classmethod
    def names(cls) -> tuple[str, ...]:
        """Return the names of the attributes."""
        return tuple(one.name for one in fields(cls))

    def simulator(self, policy: str, seed: int) -> Simulator:
        """Return a simulation that has not begun."""
        scenario, made = self.scenario(seed), self.policy(policy)
        return Simulator(
            scenario,
            made,
            round_seconds=None if made.round_seconds is None else self.round_seconds,
            placer=_PLACERS[self.placement](made),
            resize=self.resize(),
            estimator=None if self.estimator == "oracle" else make_estimator(self.estimator, seed),
            events=() if self.failures is None else self._failures(scenario, seed),
            max_hours=self.max_hours,
        )

    def policy(self, name: str) -> Policy:
        """Return a new policy."""
        return make_policy(name, **self.settings.get(name, {}))

    def resize(self) -> Resize | None:
        """Return the cost of changes; None for the simulator's own."""
        return None

    def scenario(self, seed: int) -> Scenario:
        """Return the scenario of a seed: the jobs, and the cluster on which they run."""
        cluster = cluster_by_name(self.cluster)
        if Path(self.trace).is_file():
            return from_file(self.trace, cluster, seed)
        own = dict(self.settings.get("trace", {})) | ({} if self.jobs is None else {"jobs": self.jobs})
        return by_name(self.trace, cluster, seed, self.data, **own)

    def _failures(self, scenario: Scenario, seed: int) -> Sequence[NodeChange | NodeFailure]:
        assert self.failures is not None
        hours = max((job.time for job in scenario.jobs), default=0.0) / 3600.0
        rng = np.random.default_rng((seed, _FAILURES))
        return draw_failures(scenario.cluster.types, 4.0 * hours + 24.0, rng, mean_hours=self.failures)


def _check_number(name: str, value: object) -> None:
    """Raise SettingsError if a number of a setup is out of its range."""
    if value is None:
        return
    kind = "an integer" if name == "jobs" else "a number"
    if isinstance(value, bool) or not isinstance(value, int if name == "jobs" else (int, float)):
        raise SettingsError(f"{name} = {value!r}: must be {kind}")
    if not 0 < value < math.inf:
        raise SettingsError(f"{name} = {value}: must be positive and finite")


class Progress(NamedTuple):
    """Progress of a run: simulated `hour`, number of jobs without GPUs (`queue`), `over` if it has ended."""

    policy: str
    seed: int
    completed: int
    total: int
    hour: float = 0.0
    queue: int = 0
    over: bool = False


def run_tasks(setup: Setup, policies: Sequence[str], seeds: Sequence[int]) -> list[Task]:
    """Return the tasks of all policies and seeds, policy by policy."""
    return [
        Task(f"{policy}, seed {seed}", play, (setup, policy, seed)) for policy in policies for seed in seeds
    ]


def play(setup: Setup, policy: str, seed: int, *, tell: Tell | None = None) -> PolicyOutcome:
    """Play one policy on one sample until all jobs are complete."""
    if policy not in _warm:  # so that compilation does not count in a round's time
        for _ in islice(setup.simulator(policy, seed).run(), _WARM_UP_ROUNDS):
            pass
        _warm.add(policy)
    simulator = setup.simulator(policy, seed)
    told, now = 0.0, Progress(policy, seed, 0, simulator.admitted)
    for record in simulator.run():
        if tell is not None and perf_counter() - told > _TELL_SECONDS:
            hour, queue = record.time / 3600.0, record.jobs - record.running
            now = now._replace(completed=simulator.completed, hour=hour, queue=queue)
            tell(now)
            told = perf_counter()
    if tell is not None:
        tell(now._replace(completed=simulator.completed, over=True))
    return _conclude(policy, seed, simulator)
