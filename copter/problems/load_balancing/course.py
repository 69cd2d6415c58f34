"""Shard load balancing for benchmarks: each solver drives its own balancer through the same loads.

The cost of a round depends on the solver's last placement, so rounds cannot be recorded.  All solvers of
linear programs get the same reduced program and the same shim.  In rounds with few changes whose best answer
the shim has proven, no solver runs.  `highs-milp` solves the exact problem with its replicas X by branch and
bound.  `heuristic` and `pop-K` are methods of :mod:`copter.problems.load_balancing`.  The same rule holds for
all: replicas that carry load exist in the next round.  Groups of equal shards have no methods of their own.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from time import perf_counter
from typing import TYPE_CHECKING, Any, ClassVar

from copter.bench.course import Course, Figure, Play, method_round
from copter.bench.domain import records_of
from copter.bench.settings import Record
from copter.problems.load_balancing import (
    METHODS,
    BalancingRound,
    LoadBalancer,
    ShardPop,
    greedy,
    solve_exact,
)
from copter.problems.load_balancing.scenario import ShardScenario
from copter.problems.pop import pop_parts

if TYPE_CHECKING:
    from copter.bench.settings import SolverSettings

EXACT = "highs-milp"
MEANINGS = {
    "movements": "replicas that are new in the round",
    "imbalance": "largest load of a server over the smallest, minus 1",
    "balanced": "whether the imbalance is within twice the tolerance",
    "in_band": "whether the load of every server is within the band; stricter than balanced",
    "memory": "largest used share of a server's memory",
    "replicas": "replicas that carry load",
    "answer_objective": "total size of the new replicas, which is the data moved",
    "answer_gap": "certified gap of that size, relative to it or to the size of a shard, whichever is larger",
    "answer_bound": "certified lower bound of that size",
    "proven": "whether loads are within the band and no such placement has smaller new replicas",
    "objective": "cost of the fractional answer, in shards of mean size",
}
"""Meanings of the fields of a record."""
BURN_IN = 20
"""Number of first rounds that the authors' means omit; the summary omits them too if there are more."""
_WARM_UP: dict[str, Any] = {"shards": 512, "servers": 128, "rounds": 4}


@dataclass(frozen=True)
class Balancing(Course):
    """A scenario to measure solvers on. `warming`: whether this is the small version."""

    scenario: ShardScenario
    warming: bool = False

    figures: ClassVar[Sequence[Figure]] = (
        Figure("movements", "moves", "mean", ".2f"),
        Figure("answer_objective", "data moved", "mean", ".2f"),
        Figure("imbalance", "imbalance", "max", ".1%"),
        Figure("balanced", "balanced", "mean", ".1%"),
        Figure("in_band", "in the band", "mean", ".1%"),
        Figure("memory", "memory", "max", ".0%"),
        Figure("replicas", "replicas", "mean", ".0f"),
        Figure("proven", "proven", "mean", ".0%"),
    )

    @property
    def left_out(self) -> int:  # type: ignore[override]
        """Number of first rounds that the summary omits."""
        return BURN_IN if self.scenario.rounds > BURN_IN else 1

    def small(self) -> Balancing:
        """Return the same scenario with few shards."""
        return Balancing(replace(self.scenario, **_WARM_UP, memory=None, table=None), warming=True)

    def play(self, settings: SolverSettings) -> Play:
        """Return the rounds of a solver or a method."""
        name = settings.name
        if name not in (*METHODS, EXACT) and pop_parts(name) is None:
            solver = settings.make()
            balancer = self.scenario.groups() if self.scenario.copies > 1 else self.scenario.balancer()
            events = ((("set_loads", loads),) for loads in self.scenario.loads())
            records = records_of(balancer, solver, events)
            return Play(records, solver.stopping(), balancer.program)
        scenario = self.scenario
        if self.warming:
            parts = pop_parts(name) or 1
            scenario = replace(scenario, shards=16 * parts, servers=2 * parts, rounds=2)
        stopping = {} if name == "heuristic" else {"mip_rel_gap": settings.mip_gap}
        rounds = {"heuristic": _heuristic, EXACT: _exact}.get(name, _pop)
        return Play(rounds(scenario, settings), stopping)


def _figures(done: BalancingRound) -> Record:
    return {
        "answer_objective": done.cost,
        "answer_gap": done.gap,
        "answer_bound": done.bound,
        **done.figures,
    }


def _rounds(scenario: ShardScenario) -> Iterator[tuple[int, LoadBalancer]]:
    """Yield the number of each round, and the balancer with its loads."""
    balancer = scenario.balancer()
    for number, loads in enumerate(scenario.loads()):
        balancer.set_loads(loads)
        balancer.check()
        yield number, balancer


def _heuristic(scenario: ShardScenario, settings: SolverSettings) -> Iterator[Record]:
    for number, balancer in _rounds(scenario):
        begin = perf_counter()
        placement = greedy(balancer.fleet(), balancer.placement())
        seconds = perf_counter() - begin
        done = balancer.take(placement)
        yield method_round(settings.name, number, solve_seconds=seconds, **_figures(done))


def _exact(scenario: ShardScenario, settings: SolverSettings) -> Iterator[Record]:
    for number, balancer in _rounds(scenario):
        last = balancer.placement()
        exact = solve_exact(
            balancer.fleet(),
            last,
            mip_gap=settings.mip_gap,
            time_limit=settings.time_limit,
            threads=settings.threads,
        )
        done = balancer.take(exact.placement or last, exact.bound)
        own: dict[str, Any] = {
            "n_variables": exact.effort.columns,
            "n_rows": exact.effort.rows,
            "nnz": exact.effort.nnz,
            "status": str(exact.found.status),
            "gap": exact.found.gap,
            "bound": exact.bound,
            "iterations": exact.found.nodes,
            "feasible": done.in_band,  # `take` checks everything else
        }
        took = {"edit_seconds": exact.effort.build_seconds, "solve_seconds": exact.effort.seconds}
        fields = own | _figures(done)
        yield method_round(settings.name, number, **took, **fields)


def _pop(scenario: ShardScenario, settings: SolverSettings) -> Iterator[Record]:
    parts, pop = pop_parts(settings.name), None
    assert parts is not None
    for number, balancer in _rounds(scenario):
        fleet, last = balancer.fleet(), balancer.placement()
        pop = pop or ShardPop(fleet, parts, scenario.seed)
        found = pop.solve(fleet, last, mip_gap=settings.mip_gap, time_limit=settings.time_limit)
        done = balancer.take(found.placement)
        build = [answer.effort.build_seconds for answer in found.answers]
        solve = [answer.effort.seconds for answer in found.answers]
        fields = _figures(done) | {
            "n_variables": sum(answer.effort.columns for answer in found.answers),
            "parallel_seconds_estimated": max(map(sum, zip(build, solve, strict=True))),
            "status": "deadline" if found.unanswered else "complete",
        }
        yield method_round(settings.name, number, edit_seconds=sum(build), solve_seconds=sum(solve), **fields)
