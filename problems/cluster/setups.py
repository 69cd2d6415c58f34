"""Conditions by name: what the commands' words stand for."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np

from copter.errors import choices
from copter.problems.cluster.estimators import make_estimator
from copter.problems.cluster.experiment import Conditions
from copter.problems.cluster.failures import draw_failures
from copter.problems.cluster.interference import SharedNodes
from copter.problems.cluster.names import ESTIMATORS, PLACERS
from copter.problems.cluster.parts import Estimator, NodeChange, NodeFailure, Placer
from copter.problems.cluster.placement import SiaPlacer
from copter.problems.cluster.policy import Policy
from copter.problems.cluster.presets import cluster_by_name
from copter.problems.cluster.scenario import Scenario
from copter.problems.cluster.settings import SettingsError
from copter.problems.cluster.traces.families import from_file
from copter.problems.cluster.traces.registry import by_name, trace_names

PlacerMaker: TypeAlias = Callable[[Policy], Placer | None]
_PLACERS: dict[str, PlacerMaker] = {
    "auto": lambda policy: SiaPlacer(sharing=policy.kind == "rigid"),
    "sia": lambda _: SiaPlacer(),
    "shared": lambda _: SiaPlacer(sharing=True),
    "none": lambda _: None,
}
_FAILURES = 1
"""Beside the seed: failures are drawn apart from the trace."""


@dataclass(frozen=True, kw_only=True)
class Setup:
    """Names and numbers that make up conditions.

    Attributes
    ----------
    cluster, trace : str
        Names, see :mod:`.presets` and :mod:`.traces`; a trace may be the path of a workload file.
    data : Path, optional
        Folder of real traces.
    jobs : int, optional
        In place of the trace's own number.
    estimator, placement : str
        Of :mod:`.names`.
    interference : float
        Slowdown of distributed jobs that share a node.
    failures : float, optional
        Mean hours between failures of a node.
    settings : mapping of str to mapping
        Of policies, by their names; "trace" stands for the trace's own.

    Raises
    ------
    SettingsError
        An unknown name, which lists those that are known; a number out of range; conditions that exclude
        each other.
    """

    cluster: str = "heterogeneous-64"
    trace: str = "philly"
    data: Path | None = None
    jobs: int | None = None
    estimator: str = "oracle"
    placement: str = "auto"
    interference: float = 0.0
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
                raise SettingsError(f"no {what} is called {name!r}: {choices(str(name), known)}")
        for what in ("jobs", "interference", "failures", "round_seconds", "max_hours"):
            _check_number(what, getattr(self, what))
        if self.placement == "none" and (self.interference or self.failures is not None):
            raise SettingsError("placement none only counts GPUs: interference and failures need nodes")
        if file and (self.jobs is not None or self.settings.get("trace")):
            raise SettingsError(f"{self.trace}: a file has its own jobs: no other number, no trace settings")

    @classmethod
    def names(cls) -> tuple[str, ...]:
        """Names of the attributes.

        Returns
        -------
        tuple of str
        """
        return tuple(one.name for one in fields(cls))

    def conditions(self) -> Conditions:
        """What the names stand for."""
        slowdown = self.interference
        estimator = None if self.estimator == "oracle" else self._estimator
        return Conditions(
            scenario=self._scenario,
            placer=_PLACERS[self.placement],
            interference=(lambda: SharedNodes(slowdown)) if slowdown else None,
            estimator=estimator,
            events=self._failures if self.failures is not None else None,
            round_seconds=self.round_seconds,
            max_hours=self.max_hours,
            settings=self.settings,
        )

    def _scenario(self, seed: int) -> Scenario:
        cluster = cluster_by_name(self.cluster)
        if Path(self.trace).is_file():
            return from_file(self.trace, cluster, seed)
        own = dict(self.settings.get("trace", {})) | ({} if self.jobs is None else {"jobs": self.jobs})
        return by_name(self.trace, cluster, seed, self.data, **own)

    def _estimator(self, seed: int) -> Estimator:
        return make_estimator(self.estimator, seed)

    def _failures(self, scenario: Scenario, seed: int) -> Sequence[NodeChange | NodeFailure]:
        assert self.failures is not None
        hours = max((job.time for job in scenario.jobs), default=0.0) / 3600.0
        rng = np.random.default_rng((seed, _FAILURES))
        return draw_failures(scenario.cluster.types, 4.0 * hours + 24.0, rng, mean_hours=self.failures)


def _check_number(name: str, value: object) -> None:
    """Raise if a number of a setup is none, or out of its range."""
    if value is None and name != "interference":
        return
    kind = "whole number" if name == "jobs" else "number"
    if isinstance(value, bool) or not isinstance(value, int if name == "jobs" else (int, float)):
        raise SettingsError(f"{name} = {value!r}: must be a {kind}")
    if name == "interference" and not 0 <= value < 1:
        raise SettingsError(f"interference = {value}: must be at least 0 and below 1")
    if name != "interference" and not 0 < value < math.inf:
        raise SettingsError(f"{name} = {value}: must be positive and finite")
