"""Traffic rounds for benchmarks: demands that drift, links that fail and return, the same for every solver.

The expensive work, paths and matrices, is done once (:func:`prepare`) and kept in a file for every solver's
process. Rounds follow from the seed: each solver edits its own model by the same events.

Solvers are compared by their flows after repair, with one checker.  `optimality` is the ratio of a feasible
flow to the least certified upper bound of the round that any solver of the benchmark found.  For min-MLU it
is the ratio of the largest lower bound to the utilisation.  So `optimality` is itself a certificate: the true
ratio to the optimum is never smaller.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from time import perf_counter
from typing import TYPE_CHECKING, Any, ClassVar, cast

import numpy as np
from numpy.typing import ArrayLike, NDArray

from copter.arrays import Flags, Floats, Ints
from copter.bench.course import COMPLETE, Course, Figure, Play, method_round
from copter.bench.domain import record_round
from copter.bench.settings import Record
from copter.problems.traffic import CHANGES, DRIFTS, MAX_MIN, Drift, Objective, PathKind
from copter.problems.traffic.baselines import is_method, run_method
from copter.problems.traffic.fairness import MaxMinFlows, accuracy_of
from copter.problems.traffic.model import TrafficEngineering
from copter.problems.traffic.paths import PathSet
from copter.problems.traffic.search import Progress, edge_disjoint_paths, k_shortest_paths
from copter.problems.traffic.state import TrafficState
from copter.problems.traffic.topology import Topology
from copter.rounds.rounds import Rounds
from copter.solution import Status

if TYPE_CHECKING:
    from copter.bench.result_files import SolverResult
    from copter.bench.settings import SolverSettings
    from copter.solvers.base import Solver

_SMALL_PAIRS = 32_000
"""Number of pairs of the warm-up: more than 50,000 columns, so that pricing passes use threads."""


@dataclass(frozen=True)
class Instance:
    """A network, the pairs with demands in some round, their paths, and their volumes.

    `volumes` (T, pairs): one row, or one row for each matrix of a sequence.
    """

    topology: Topology
    paths: PathSet
    volumes: Floats

    def sample(self, pairs: int, seed: int) -> Instance:
        """Return an instance of random pairs, scaled to the volume of all pairs to keep links as busy."""
        if pairs >= self.paths.n_pairs:
            return self
        chosen = np.sort(np.random.default_rng(seed).choice(self.paths.n_pairs, pairs, replace=False))
        return Instance(self.topology, self.paths.take(chosen), _busy(self.volumes, chosen))


def make_instance(
    topology: Topology,
    matrices: ArrayLike,
    *,
    demands: int | None = None,
    k: int = 4,
    kind: PathKind = "edge-disjoint",
    seed: int = 0,
    threads: int | None = None,
    progress: Progress | None = None,
) -> Instance:
    """Find paths for the demands of traffic matrices.

    `demands`: number of random pairs among those with a demand; default: all. Their volumes are scaled to the
    volume of all pairs, so that links are as busy as with all of them. `k`: largest number of paths per pair.
    `seed`: seed of the pairs. `threads`, `progress`: see :func:`copter.problems.traffic.edge_disjoint_paths`.
    """
    stack = np.asarray(matrices, np.float64)
    stack = stack[None] if stack.ndim == 2 else stack
    some: Flags = np.any(stack > 0, axis=0)
    np.fill_diagonal(some, False)
    source, target = np.nonzero(some)
    volumes = stack[:, source, target]
    if demands is not None and demands < source.size:
        drawn = np.sort(np.random.default_rng(seed).choice(source.size, demands, replace=False))
        source, target, volumes = source[drawn], target[drawn], _busy(volumes, drawn)
    find = edge_disjoint_paths if kind == "edge-disjoint" else k_shortest_paths
    if demands is None and source.size > stack[0].size // 4:
        everything = find(topology, None, k, threads=threads, progress=progress)
        paths = everything.take(TrafficState(topology, everything).pairs(source, target))
    else:
        paths = find(topology, (source, target), k, threads=threads, progress=progress)
    return Instance(topology, paths, volumes)


def _busy(volumes: Floats, chosen: Ints) -> Floats:
    """Return the volumes of some pairs, scaled to the volume of all pairs, separately for each matrix."""
    some = volumes[:, chosen]
    total = some.sum(axis=1, keepdims=True)
    scaled: Floats = some * (volumes.sum(axis=1, keepdims=True) / np.where(total > 0, total, 1.0))
    return scaled


@dataclass(frozen=True)
class TrafficEvent:
    """Changes before a round: new volumes, links that fail, and links that return, by their numbers."""

    volumes: Floats | None = None
    failed: Ints = field(default_factory=lambda: np.zeros(0, np.int64))
    restored: Ints = field(default_factory=lambda: np.zeros(0, np.int64))

    def told(self) -> Iterator[tuple[Any, ...]]:
        """Yield the changes as events of :class:`.model.TrafficEngineering`."""
        if self.restored.size:
            yield "restore_links", self.restored
        if self.failed.size:
            yield "fail_links", self.failed
        if self.volumes is not None:
            yield "set_volumes", self.volumes

    def apply(self, traffic: TrafficState) -> None:
        """Apply the changes to a model."""
        for name, change in self.told():
            getattr(traffic, name)(change)


def _events_of(instance: Instance, change: str, seed: int) -> Iterator[TrafficEvent]:
    """Yield the events of infinitely many rounds, starting from the demands of the first matrix."""
    if change not in CHANGES:
        raise ValueError(f"change = {change!r}: must be one of {', '.join(CHANGES)}")
    volumes = instance.volumes
    if change == "failures":
        yield from failures(instance.topology, min(5, max(1, instance.topology.n_links // 20)), seed=seed)
    elif change == "single":
        rng, moved = np.random.default_rng(seed), volumes[0]
        while True:
            pair, moved = int(rng.choice(np.flatnonzero(volumes[0]))), moved.copy()
            moved[pair] = volumes[0][pair] * rng.uniform(0.5, 1.5)
            yield TrafficEvent(moved)
    elif change == "sequence":
        yield from (TrafficEvent(volumes[number % len(volumes)]) for number in itertools.count(1))
    else:
        yield from map(TrafficEvent, drift(cast(Drift, change), instance.paths.source, volumes[0], seed=seed))


def _schedule(
    instance: Instance, changes: Sequence[str], rounds: int, seed: int
) -> Iterator[tuple[str, TrafficEvent]]:
    """Yield the kind of change and the event of each round: the first matrix, then `rounds` - 1 of each kind.

    Each kind starts from the first matrix with all links up, independent of previous kinds.

    `rounds`: rounds of each kind, including the common first round, whose kind is ``first``.
    """
    volumes, none = instance.volumes[0], np.zeros(0, np.int64)
    yield "first", TrafficEvent(volumes)
    down = none
    for change in changes:
        for number, event in zip(range(rounds - 1), _events_of(instance, change, seed), strict=False):
            if number == 0 and change != changes[0]:
                again = volumes if event.volumes is None else event.volumes
                event, down = replace(event, volumes=again, restored=down), none
            down = np.union1d(np.setdiff1d(down, event.restored), event.failed)
            yield change, event


@dataclass(frozen=True)
class TrafficCourse(Course):
    """Rounds of max-flow.

    `rounds`: rounds of each kind of change, including the common first round, a cold start. `changes`: some
    of :data:`CHANGES`, one kind after the other. `seed`: seed of the events and of POP's parts. `split`:
    POP's client splitting, see :func:`.baselines.run_method`. `on_loads`: function of the model and the flow
    on each link, called after each round.
    """

    objective: ClassVar[Objective] = "max-flow"
    measure: ClassVar[str] = "total_flow"
    figures: ClassVar[Sequence[Figure]] = (
        Figure("total_flow", "flow", "median", ",.1f"),
        Figure("optimality", "optimality", "min", ".4%"),
        Figure("parallel_seconds_estimated", "parallel (estimated)", "median", ".3g"),
    )

    instance: Instance
    rounds: int = 5
    changes: Sequence[str] = ("independent",)
    seed: int = 0
    split: float = 0.0
    on_loads: Callable[[TrafficState, Floats], None] | None = None

    @property
    def n_rounds(self) -> int:
        """Total number of rounds."""
        return 1 + len(self.changes) * (self.rounds - 1)

    def small(self) -> TrafficCourse:
        """Return three rounds of some of the pairs."""
        small = self.instance.sample(_SMALL_PAIRS, self.seed)
        return replace(self, instance=small, rounds=3, on_loads=None)

    def play(self, settings: SolverSettings) -> Play:
        """Return the rounds of a solver or of one of :data:`METHODS`."""
        events = _schedule(self.instance, self.changes, self.rounds, self.seed)
        network = self.instance.topology, self.instance.paths, self.objective
        if is_method(settings.name):
            return Play(self._method_rounds(TrafficState(*network), events, settings))
        solver, traffic = settings.make(), TrafficEngineering(*network, program=settings.program())
        return Play(self._rounds(traffic, events, solver), solver.stopping(), traffic.program)

    def _rounds(
        self, traffic: TrafficEngineering, events: Iterator[tuple[str, TrafficEvent]], solver: Solver
    ) -> Iterator[Record]:
        rounds = Rounds(traffic, solver)
        for change, event in events:
            record = record_round(rounds, *event.told())
            if self.on_loads is not None:
                self.on_loads(traffic, traffic.link_loads(rounds.answer.flows))
            yield record | {"change": change, "parallel_seconds_estimated": record["seconds"]}

    def _method_rounds(
        self, traffic: TrafficState, events: Iterator[tuple[str, TrafficEvent]], settings: SolverSettings
    ) -> Iterator[Record]:
        for number, (change, event) in enumerate(events):
            event.apply(traffic)
            done = run_method(settings, traffic, seed=self.seed + number, split=self.split)
            check, loads = traffic.check(done.path_flows), traffic.loads_of(done.path_flows)
            if self.on_loads is not None:
                self.on_loads(traffic, loads)
            value = check.total_flow if self.objective == "max-flow" else check.mlu
            yield method_round(
                settings.name,
                number,
                solve_seconds=done.seconds,
                answer_objective=-value if self.objective == "max-flow" else value,
                change=change,
                overload=traffic.overload(loads),
                parallel_seconds_estimated=done.estimated_seconds,
                **{self.measure: value},
            )

    def compare(self, measured: Sequence[SolverResult]) -> None:
        """Add `optimality`: the ratio to the round's best certified bound or, without one, best answer."""
        records = [record for one in measured for record in one.records]
        for number in {record["round"] for record in records}:
            of_round = [record for record in records if record["round"] == number]
            costs = [record["answer_objective"] for record in of_round]
            bounds = [record["bound"] for record in of_round if math.isfinite(record["bound"])]
            best = max(bounds) if bounds else min(filter(math.isfinite, costs), default=math.nan)
            for record, cost in zip(of_round, costs, strict=True):
                record["optimality"] = self._share(cost, best)

    def _share(self, cost: float, best: float) -> float:
        high, low = (best, cost) if self.objective == "max-flow" else (cost, best)
        if high == low:
            return 1.0
        return low / high if math.isfinite(cost) and high else math.nan


@dataclass(frozen=True)
class UtilisationCourse(TrafficCourse):
    """Rounds of min-MLU."""

    objective: ClassVar[Objective] = "min-mlu"
    measure: ClassVar[str] = "mlu"
    figures: ClassVar[Sequence[Figure]] = (
        Figure("mlu", "MLU", "median", ".4f"),
        *TrafficCourse.figures[1:],
    )


@dataclass(frozen=True)
class FairCourse(TrafficCourse):
    """Rounds of max-min fairness, by solvers of linear programs."""

    figures: ClassVar[Sequence[Figure]] = (
        Figure("total_flow", "flow", "median", ",.1f"),
        Figure("limited", "limited demands", "median", ",.0f"),
        Figure("bottlenecks", "bottlenecks", "median", ",.0f"),
        Figure("shortfall", "shortfall", "max", ".1e"),
        Figure("solves", "solves", "median", ".0f"),
    )

    def play(self, settings: SolverSettings) -> Play:
        """Return the rounds of a solver."""
        instance = self.instance
        events = _schedule(instance, self.changes, self.rounds, self.seed)
        tight = replace(settings, tolerance=accuracy_of(settings.tolerance))
        solvers = tight.make(), tight.make()
        traffic = MaxMinFlows(
            instance.topology, instance.paths, tolerance=settings.tolerance, solvers=solvers
        )
        return Play(self._fair_rounds(traffic, events, settings.name), solvers[0].stopping())

    def _fair_rounds(
        self, traffic: MaxMinFlows, events: Iterator[tuple[str, TrafficEvent]], name: str
    ) -> Iterator[Record]:
        for number, (change, event) in enumerate(events):
            begin = perf_counter()
            event.apply(traffic)
            edited = perf_counter()
            done = traffic.round()
            seconds = perf_counter() - edited
            check, loads = traffic.check(done.path_flows), traffic.loads_of(done.path_flows)
            if self.on_loads is not None:
                self.on_loads(traffic, loads)
            yield method_round(
                name,
                number,
                edit_seconds=edited - begin,
                solve_seconds=seconds,
                answer_objective=-check.total_flow,
                change=change,
                overload=traffic.overload(loads),
                parallel_seconds_estimated=seconds,
                total_flow=check.total_flow,
                limited=int((done.bottleneck >= 0).sum()),
                bottlenecks=len(done.prices),
                status=str(Status.OPTIMAL) if done.shortfall <= traffic.tolerance else COMPLETE,
                gap=done.shortfall,
                answer_gap=done.shortfall,
                warm_started=number > 0,
                shortfall=done.shortfall,
                solves=done.solves,
            )

    def compare(self, measured: Sequence[SolverResult]) -> None:
        """Add nothing: each solver's shortfall is its own certificate."""


_COURSES: dict[str, type[TrafficCourse]] = {
    "max-flow": TrafficCourse,
    "min-mlu": UtilisationCourse,
    MAX_MIN: FairCourse,
}


def course_of(
    instance: Instance, objective: str, *, rounds: int, changes: Sequence[str], seed: int, split: float
) -> TrafficCourse:
    """Return the course of an instance; `objective`: max-flow, min-mlu or max-min."""
    return _COURSES[objective](instance, rounds, changes, seed, split)


def drift(
    kind: Drift, source: ArrayLike, volume: ArrayLike, *, seed: int, amplitude: float = 0.1
) -> Iterator[Floats]:
    """Yield the volumes of infinitely many rounds, each made from the previous one.

    `kind`: what changes. A random factor, uniform in 1 +- `amplitude`, applies to each demand separately, to
    all demands of a source together, or to all demands together; or volumes are permuted among the demands.
    `source`, `volume`: sources and volumes of the demands before the first round. `amplitude`: between 0
    and 1.
    """
    if kind not in DRIFTS:
        raise ValueError(f"kind = {kind!r}: must be one of {DRIFTS}")
    if not 0 <= amplitude <= 1:
        raise ValueError(f"amplitude = {amplitude}: must be between 0 and 1")
    return _drift(
        kind, np.asarray(source), np.array(volume, np.float64), np.random.default_rng(seed), amplitude
    )


def _drift(
    kind: Drift, source: NDArray, volume: Floats, random: np.random.Generator, amplitude: float
) -> Iterator[Floats]:
    sizes = {"independent": volume.size, "source": int(source.max(initial=-1)) + 1, "global": 1}
    while True:
        if kind == "permute":
            volume = random.permutation(volume)
        else:
            factor = random.uniform(1 - amplitude, 1 + amplitude, sizes[kind])
            volume = volume * (factor[source] if kind == "source" else factor)
        yield volume


def failures(topology: Topology, count: int = 5, *, seed: int) -> Iterator[TrafficEvent]:
    """Yield the events of infinitely many rounds: some links fail, and those of the previous round return.

    `count`: number of lines that are down in a round, among lines with a capacity. The links in both
    directions between two nodes are one line; they fail together.
    """
    lines: dict[tuple[int, int], list[int]] = {}
    for (tail, head), link in topology.links.items():
        if topology.capacity[link] > 0:
            lines.setdefault((min(tail, head), max(tail, head)), []).append(link)
    if not 0 <= count <= len(lines):
        raise ValueError(f"count = {count}: must be from 0 to {len(lines)}, the lines of {topology.name!r}")
    return _failures(list(lines.values()), count, np.random.default_rng(seed))


def _failures(lines: list[list[int]], count: int, random: np.random.Generator) -> Iterator[TrafficEvent]:
    down = np.zeros(0, np.int64)
    while True:
        chosen = random.choice(len(lines), count, replace=False)
        failed = np.array(sorted(link for line in chosen for link in lines[line]), np.int64)
        # A line that is chosen twice in a row stays down.
        yield TrafficEvent(None, np.setdiff1d(failed, down), np.setdiff1d(down, failed))
        down = failed
