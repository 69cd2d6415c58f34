"""What the inner solvers and their working sets are tuned by."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple


class LineSearch(NamedTuple):
    """The search along a Newton step, and the damping that follows from how it went; kernels take it too."""

    armijo: float = 1e-4
    curvature: float = 0.8
    steps: int = 12
    growth: float = 4.0
    longest: float = 1e9
    retries: int = 5
    first_damping: float = 1e-3
    least_damping: float = 1e-12
    most_damping: float = 1e4
    damping_change: float = 4.0
    damping_jump: float = 100.0


class NewtonSystems(NamedTuple):
    """How Newton systems are solved; kernels take it too."""

    dense_rows: int = 1_000
    cg_steps: int = 500
    cg_closeness: float = 0.1


@dataclass(frozen=True)
class ElasticTuning:
    """The search for the least violation of rows that cannot be met (:mod:`copter.solvers.inner.elastic`)."""

    steps: int
    change: float
    growth: float = 10.0
    closeness: float = 1e-12


@dataclass(frozen=True)
class NewtonTuning:
    """Semismooth Newton on the prices (:mod:`copter.solvers.inner.newton`)."""

    compiled_rows: int = 100
    compiled_columns: int = 50_000
    columns_a_call: int = 200_000
    hessian_blocks: int = 10_000
    poor_steps: int = 3
    line: LineSearch = LineSearch()
    systems: NewtonSystems = NewtonSystems()
    elastic: ElasticTuning = ElasticTuning(steps=12, change=1e-10)
    elastic_iterations: int = 50


@dataclass(frozen=True)
class DescentTuning:
    """Coordinate descent on the augmented Lagrangian (:mod:`copter.solvers.inner.descent`)."""

    epochs: int = 100
    term_epochs: int = 200
    epochs_a_call: int = 20
    penalty: float = 1.0
    penalty_growth: float = 4.0
    first_growth: float = 16.0
    penalty_limit: float = 1e4
    enough: float = 0.5
    far: float = 1e6
    elastic: ElasticTuning = ElasticTuning(steps=9, change=0.0)


@dataclass(frozen=True)
class SetTuning:
    """Units of a working set (:mod:`copter.solvers.inner.working_set`)."""

    mean_passes: int = 4
    ruiz_passes: int = 8
    least_unit: float = 1e-6
    slack_sample: int = 48
