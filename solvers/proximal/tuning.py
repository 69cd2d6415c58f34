"""What the proximal-point solver is tuned by: a frozen record, passed in as ``ProximalPoint(tuning=...)``."""

from __future__ import annotations

from dataclasses import dataclass

from copter.solvers.inner.tuning import DescentTuning, NewtonTuning, SetTuning


@dataclass(frozen=True)
class ScreeningTuning:
    """Which columns a pass collects (:mod:`copter.solvers.proximal.screening`)."""

    screen_from: int = 20_000
    wanted: int = 12
    more_wanted: int = 4
    widest: int = 6
    far_too_many: float = 4.0
    too_many: float = 1.5
    too_few: float = 0.6
    narrower: float = 0.7
    wider: float = 1.5


@dataclass(frozen=True)
class SampleTuning:
    """The sample whose prices a cold solve begins with (:mod:`copter.solvers.proximal.sample`)."""

    columns: int = 40_000
    columns_a_row: int = 20
    least_requests: int = 8
    largest_share: float = 0.25
    goal: float = 2e-3


@dataclass(frozen=True)
class StepsTuning:
    """Proximal-point steps on a working set (:mod:`copter.solvers.proximal.steps`)."""

    cold_sigma: float = 10.0
    warm_sigma: float = 600.0
    growth: float = 5.0
    least_sigma: float = 1e-6
    most_sigma: float = 1e12
    inner_limit: int = 25
    closeness: float = 0.01
    stalled: float = 0.7
    stalls: int = 3
    closer: float = 0.1
    inexact: float = 0.1
    inexact_steps: int = 20
    sharper: float = 1e-3
    sharper_steps: int = 4
    merely_long: float = 0.1
    nearly_there: float = 0.01
    long_steps: int = 8
    failures: int = 3
    ray_gap: float = 1e-3


@dataclass(frozen=True)
class PartialTuning:
    """Steps in which only some requests move (:mod:`copter.solvers.proximal.partial`)."""

    columns_from: int = 200_000
    requests_from: int = 10_000
    patience: float = 5.0
    more_patience: float = 8.0
    least_need: float = 0.01
    near: float = 0.15
    ignored: float = 0.2
    most: float = 0.5
    short: float = 1e-2
    row_passes: int = 4
    first_sigma: float = 20.0


@dataclass(frozen=True)
class HandOverTuning:
    """When HiGHS finishes a working set (:mod:`copter.solvers.proximal.finish`)."""

    idle_rounds: int = 6
    most: int = 40
    columns: int = 500_000
    tolerance: float = 1e-10
    least_row: float = 1e-12
    pivots: int = 50


@dataclass(frozen=True)
class ProximalTuning:
    """Every number that :class:`copter.solvers.proximal.solver.ProximalPoint` was tuned by."""

    goal_share: float = 0.3
    gap_share: float = 1e-3
    switch_rounds: int = 4
    idle_rounds: int = 30
    most_piece: float = 0.25
    screening: ScreeningTuning = ScreeningTuning()
    sample: SampleTuning = SampleTuning()
    steps: StepsTuning = StepsTuning()
    partial: PartialTuning = PartialTuning()
    hand_over: HandOverTuning = HandOverTuning()
    working_set: SetTuning = SetTuning()
    newton: NewtonTuning = NewtonTuning()
    descent: DescentTuning = DescentTuning()
