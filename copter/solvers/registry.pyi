"""Written by `python tests/solvers/test_registry_stub.py`: settings of each solver, for editors."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal, overload

from copter.proof.certificate import Certificate
from copter.solvers.base import Solver
from copter.solvers.baselines.highs import HighsRebuild
from copter.solvers.baselines.highs_hot import HighsHot
from copter.solvers.baselines.ortools_lp import Glop, Pdlp
from copter.solvers.exact.solver import ExactSolver
from copter.solvers.proximal.solver import Inner, ProximalPoint
from copter.solvers.proximal.tuning import ProximalTuning

@dataclass(frozen=True)
class SolverEntry:
    name: str
    target: str
    line: str = ...
    preset: Mapping[str, Any] = ...
    @property
    def summary(self) -> str: ...
    def load(self) -> type[Solver]: ...
    def make(self, **settings: Any) -> Solver: ...

class Registry(Mapping[str, SolverEntry]):
    def __init__(self, built_in: Mapping[str, SolverEntry]) -> None: ...
    def __getitem__(self, name: str) -> SolverEntry: ...
    def __iter__(self) -> Iterator[str]: ...
    def __len__(self) -> int: ...

SOLVERS: Mapping[str, SolverEntry]

def solver_entry(name: str, also: tuple[str, ...] = ...) -> SolverEntry: ...
def repeatable_solver(name: str, **settings: Any) -> Solver: ...
@overload
def make_solver(
    name: Literal["copter", "copter-cd", "copter-newton", "copter-cold"],
    *,
    tolerance: float = ...,
    time_limit: float | None = ...,
    threads: int | None = ...,
    inner: Inner = ...,
    iteration_limit: int = ...,
    warm_start: bool = ...,
    fall_back: bool = ...,
    callback: Callable[[int, Certificate], None] | None = ...,
    tuning: ProximalTuning = ...,
    engine: Literal["proximal", "fastest"] = ...,
) -> ProximalPoint: ...
@overload
def make_solver(
    name: Literal["copter-exact"],
    *,
    tolerance: float = ...,
    time_limit: float | None = ...,
    threads: int | None = ...,
    inner: Inner = ...,
    iteration_limit: int = ...,
    warm_start: bool = ...,
    fall_back: bool = ...,
    callback: Callable[[int, Certificate], None] | None = ...,
    tuning: ProximalTuning = ...,
    engine: Literal["proximal", "fastest"] = ...,
    integer_gap: float = ...,
    most_columns: int = ...,
    isolated: bool = ...,
) -> ExactSolver: ...
@overload
def make_solver(
    name: Literal["highs-hot"],
    *,
    tolerance: float = ...,
    time_limit: float | None = ...,
    threads: int | None = ...,
    strategy: Literal["auto", "choose", "dual", "primal"] = ...,
    keep_basis: bool = ...,
) -> HighsHot: ...
@overload
def make_solver(
    name: Literal["highs-simplex", "highs-ipm", "highs-pdlp", "highs-milp"],
    *,
    tolerance: float = ...,
    time_limit: float | None = ...,
    threads: int | None = ...,
    method: Literal["simplex", "ipm", "pdlp", "milp"] = ...,
    crossover: bool = ...,
    mip_gap: float = ...,
    isolated: bool = ...,
) -> HighsRebuild: ...
@overload
def make_solver(
    name: Literal["glop"],
    *,
    tolerance: float = ...,
    time_limit: float | None = ...,
    threads: int | None = ...,
) -> Glop: ...
@overload
def make_solver(
    name: Literal["pdlp"],
    *,
    tolerance: float = ...,
    time_limit: float | None = ...,
    threads: int | None = ...,
    warm_start: bool = ...,
) -> Pdlp: ...
@overload
def make_solver(name: str, **settings: Any) -> Solver: ...
