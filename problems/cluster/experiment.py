"""Policies over seeds: what `copter run cluster`, its sweeps and the reproductions play and average.

Every policy plays the same jobs of a seed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from copter.problems.cluster.metrics import interval, over_seeds, summarise
from copter.problems.cluster.parts import Estimator, Interference, NodeChange, NodeFailure, Placer, Resize
from copter.problems.cluster.policy import Policy
from copter.problems.cluster.registry import make_policy
from copter.problems.cluster.results import JobRecord, RoundRecord, Segment
from copter.problems.cluster.scenario import Scenario
from copter.problems.cluster.simulator import Simulator


@dataclass(frozen=True, kw_only=True)
class Conditions:
    """What a policy is played under, made anew for each run.

    Attributes
    ----------
    scenario : callable
        From a seed to a scenario.
    placer : callable, optional
        From a policy to a placer, or to None where GPUs are only counted.
    resize, interference : callable, optional
        Makers of the simulator's parts; its own defaults if not given.
    estimator : callable, optional
        From a seed to an estimator.
    events : callable, optional
        From a scenario and a seed to changes and failures of nodes.
    round_seconds, max_hours : float, optional
        Of the simulator; the first for policies with rounds.
    settings : mapping of str to mapping
        Settings of policies, by their names.
    """

    scenario: Callable[[int], Scenario]
    placer: Callable[[Policy], Placer | None] | None = None
    resize: Callable[[], Resize] | None = None
    interference: Callable[[], Interference] | None = None
    estimator: Callable[[int], Estimator] | None = None
    events: Callable[[Scenario, int], Sequence[NodeChange | NodeFailure]] | None = None
    round_seconds: float | None = None
    max_hours: float | None = None
    settings: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)

    def simulator(self, policy: str | Callable[[], Policy], seed: int) -> Simulator:
        """A simulation that has not begun.

        Parameters
        ----------
        policy : str or callable
            Name of a policy, or its maker.
        """
        scenario = self.scenario(seed)
        made = make_policy(policy, **self.settings.get(policy, {})) if isinstance(policy, str) else policy()
        return Simulator(
            scenario,
            made,
            round_seconds=None if made.round_seconds is None else self.round_seconds,
            placer=self.placer(made) if self.placer is not None else None,
            resize=self.resize() if self.resize is not None else None,
            interference=self.interference() if self.interference is not None else None,
            estimator=self.estimator(seed) if self.estimator is not None else None,
            events=self.events(scenario, seed) if self.events is not None else (),
            max_hours=self.max_hours,
        )


@dataclass(frozen=True)
class Outcome:
    """What became of one policy with one seed.

    Attributes
    ----------
    jobs : list of JobRecord
    rounds : list of RoundRecord
    segments : list of Segment
    rejected : tuple of str
        Jobs that do not fit on the cluster.
    figures : dict of str to float
        Of :func:`.metrics.summarise`.
    """

    policy: str
    seed: int
    scenario: Scenario
    jobs: list[JobRecord]
    rounds: list[RoundRecord]
    segments: list[Segment]
    rejected: tuple[str, ...]
    figures: dict[str, float]


def conclude(name: str, seed: int, simulator: Simulator) -> Outcome:
    """Collect what a simulation left.

    Parameters
    ----------
    name : str
        Of the policy.
    simulator : Simulator
        Played.
    """
    jobs = simulator.job_results()
    return Outcome(
        name,
        seed,
        simulator.scenario,
        jobs,
        simulator.records,
        simulator.segments,
        simulator.rejected,
        summarise(simulator.scenario, jobs, simulator.records, simulator.segments),
    )


def averages(outcomes: Sequence[Outcome]) -> dict[str, dict[str, float]]:
    """Figures of each policy over its seeds: the mean by name, `_std` and the ends of its interval beside it.

    Parameters
    ----------
    outcomes : sequence of Outcome

    Returns
    -------
    dict of str to dict of str to float
        ``name``, ``name_std``, and the 95% interval of the mean (Student's t), ``name_low`` to ``name_high``.
    """
    by_policy: dict[str, list[dict[str, float]]] = {}
    for outcome in outcomes:
        by_policy.setdefault(outcome.policy, []).append(outcome.figures)
    averaged = {}
    for policy, samples in by_policy.items():
        ends: dict[str, float] = {}
        for name in samples[0]:
            ends[f"{name}_low"], ends[f"{name}_high"] = interval([one[name] for one in samples])
        averaged[policy] = over_seeds(samples) | ends
    return averaged
