"""Pollux: shares GPUs by the goodput of jobs that choose their own batch sizes.

In every round, a genetic algorithm (:mod:`.genetic`) searches for the allocation of greatest fitness
(:mod:`.fitness`), starting from its result of the previous round.  A job may get at most twice its largest
number of GPUs so far, and starts with the fewest on which it can run.

Pollux has one type of GPU.  With several types, the algorithm runs on the nodes of all types.  If it gives a
job GPUs of several types, the job keeps the type with most of its GPUs, or, if two types have equally many,
the faster type (thesis section 3.4.3).  Its other GPUs stay idle.  A rigid job with too few GPUs of each type
gets free GPUs of one type (:meth:`Pollux._gather`).

Source: Pollux section 4.2.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from copter.arrays import Floats
from copter.problems.cluster.cluster import Cluster, Configuration, Configurations
from copter.problems.cluster.jobs import Job
from copter.problems.cluster.nodes import working_nodes
from copter.problems.cluster.policy import ClusterState, Placement
from copter.problems.cluster.profiles.base import Profile
from copter.problems.cluster.workload import Kind
from copter.problems.pollux.fitness import POWER_MEAN, Fitness
from copter.problems.pollux.genetic import GENERATIONS, POPULATION, AllocationProblem, evolve

_Node = tuple[str, int]


_KEPT = 4096
"""Largest number of cached tables; jobs of one application at one level share a table."""


class Pollux:
    """Pollux as a policy.

    Parameters
    ----------
    fitness : Fitness
        :data:`.fitness.POWER_MEAN`, of the published scheduler, or :data:`.fitness.WEIGHTED_MEAN`, of the
        text.
    avoid_interference : bool
        Whether distributed jobs must not share a node.
    generations, population : int
        Number of generations and size of the population of the genetic algorithm.
    max_gpus : int
        Largest number of GPUs of a job.

    Attributes
    ----------
    figures : dict of str to float
        "fitness" of the allocation that the algorithm found for the last answer.
    """

    name = "pollux"
    kind: Kind = "adaptive"

    def __init__(
        self,
        *,
        fitness: Fitness = POWER_MEAN,
        avoid_interference: bool = True,
        generations: int = GENERATIONS,
        population: int = POPULATION,
        max_gpus: int = 64,
        round_seconds: float = 60.0,
        seed: int = 0,
    ) -> None:
        for name, value in (("generations", generations), ("population", population), ("max_gpus", max_gpus)):
            if value < 1:
                raise ValueError(f"{name} = {value}: must be at least 1")
        self.round_seconds: float | None = round_seconds
        self.figures: dict[str, float] = {}
        self._fitness, self._avoid, self._max_gpus = fitness, avoid_interference, max_gpus
        self._generations, self._size = generations, population
        self._rng = np.random.default_rng(seed)
        self._tables: _GoodputTables | None = None
        self._cluster: Cluster | None = None
        self._most: dict[str, int] = {}
        self._answer: dict[str, Placement] = {}
        self._population: NDArray[np.int8] = np.zeros((0, 0, 0), np.int8)
        self._rows: dict[str, int] = {}
        self._columns: dict[_Node, int] = {}

    def schedule(self, now: ClusterState) -> Mapping[str, Placement]:
        """Return the fittest allocation that was found; empty without jobs or without nodes."""
        jobs = list(now.jobs.values())
        nodes = nodes_of(now.cluster, now.down)
        if not (jobs and nodes):
            self._answer, self.figures = {}, {"fitness": 0.0}
            return self._answer
        problem = self.problem(jobs, now.cluster, nodes)
        start = self._carried_over(jobs, nodes, problem.held)
        matrices, values = evolve(
            problem,
            start,
            self._rng,
            generations=self._generations,
            population=self._size,
        )
        self._population = matrices
        self._rows = {job.name: row for row, job in enumerate(jobs)}
        self._columns = {node: column for column, node in enumerate(nodes)}
        answer = self._settled(jobs, matrices[0], nodes, now.cluster)
        self._answer = answer
        self.figures = {"fitness": float(values[0])}
        return answer

    # ---- the problem of a round ------------------------------------------------------------------

    def problem(self, jobs: list[Job], cluster: Cluster, nodes: list[_Node]) -> AllocationProblem:
        """Return the problem of a round.

        Parameters
        ----------
        nodes : list of (str, int)
            Types and numbers of the nodes.
        """
        tables = self._tables_of(cluster)
        held = np.zeros((len(jobs), len(nodes)), np.int8)
        column = {node: at for at, node in enumerate(nodes)}
        least, most = np.ones(len(jobs), np.int64), np.zeros(len(jobs), np.int64)
        stay, move = np.zeros(len(jobs)), np.zeros((len(jobs), tables.max_gpus + 1, tables.max_nodes + 1))
        fair = self._fair_share(len(jobs), tables) if self._fitness.fair_share else (1, 1)
        for row, job in enumerate(jobs):
            self._take_held(job, held[row], column)
            least[row], most[row] = self._limits(job)
            self._fill_values(job, held[row], fair, stay[row : row + 1], move[row])
        pinned = np.array([not job.submission.preemptible for job in jobs], np.bool_) & held.any(axis=1)
        sizes = {type.name: type.gpus_per_node for type in cluster.types}
        capacity = np.array([sizes[type] for type, _ in nodes], np.int64)
        return AllocationProblem(capacity, held, least, most, pinned, stay, move, tables.unit, self._avoid)

    def _tables_of(self, cluster: Cluster) -> _GoodputTables:
        if self._tables is None or cluster != self._cluster:
            self._tables, self._cluster = _GoodputTables(cluster, self._max_gpus), cluster.copy()
        return self._tables

    def _take_held(self, job: Job, row: NDArray[np.int8], column: Mapping[_Node, int]) -> None:
        """Set the GPUs that a job holds, on the simulator's nodes or else on the nodes of the last answer."""
        if job.allocation is None:
            return
        self._most[job.name] = max(self._most.get(job.name, 0), job.allocation.gpus)
        place = job.place if job.place is not None else self._answered(job)
        if all((job.allocation.type, node) in column for node, _ in place):
            for node, gpus in place:
                row[column[job.allocation.type, node]] = gpus

    def _answered(self, job: Job) -> tuple[tuple[int, int], ...]:
        last = self._answer.get(job.name)
        return last.nodes if last is not None and last.configuration == job.allocation else ()

    def _limits(self, job: Job) -> tuple[int, int]:
        """Return the fewest and most GPUs of a job that has any; (1, 0) if it cannot run."""
        assert self._tables is not None
        runs = np.flatnonzero(self._tables.goodput(job, self._tables.home(job)).any(axis=1))
        if job.gpus is not None:
            runs = runs[runs == job.gpus]
        if not runs.size:
            return 1, 0
        least = int(runs[0])
        return least, max(least, min(2 * self._most.get(job.name, 0), int(runs[-1])))

    def _fair_share(self, jobs: int, tables: _GoodputTables) -> tuple[int, int]:
        """Return the number of GPUs of each job if all jobs had equally many, and their number of nodes."""
        assert self._cluster is not None
        gpus = min(-(-self._cluster.gpus // jobs), tables.max_gpus)
        return gpus, -(-gpus // tables.unit)

    def _fill_values(
        self, job: Job, held: NDArray[np.int8], fair: tuple[int, int], stay: Floats, move: Floats
    ) -> None:
        """Compute the term of a job in the sum that is maximized, for any allocation."""
        assert self._tables is not None
        goodput = self._tables.usable(job, self._tables.home(job))
        base = goodput[fair] or goodput[goodput > 0].min(initial=np.inf)
        speedup = goodput / base
        weight = self._fitness.weight(job.gpu_seconds)
        nodes = int((-(-held.astype(np.int64) // self._tables.unit)).sum())
        stay[:] = weight * self._fitness.value(speedup[int(held.sum()), nodes])
        move[:] = weight * self._fitness.value(self._fitness.restarted(speedup, job))

    def _carried_over(self, jobs: list[Job], nodes: list[_Node], held: NDArray[np.int8]) -> NDArray[np.int8]:
        """Return the GPUs that jobs hold, and the last population, as matrices of present jobs and nodes."""
        count = min(len(self._population), self._size - 1)
        states = np.zeros((count, len(jobs), len(nodes)), np.int8)
        rows = [(new, self._rows[job.name]) for new, job in enumerate(jobs) if job.name in self._rows]
        columns = [(new, self._columns[node]) for new, node in enumerate(nodes) if node in self._columns]
        if count and rows and columns:
            (to_row, of_row), (to_column, of_column) = (np.array(pairs).T for pairs in (rows, columns))
            old = self._population[:count][np.ix_(np.arange(count), of_row, of_column)]
            states[np.ix_(np.arange(count), to_row, to_column)] = old
        return np.concatenate((held[None], states))

    # ---- the answer ------------------------------------------------------------------------------

    def _settled(
        self, jobs: list[Job], matrix: NDArray[np.int8], nodes: list[_Node], cluster: Cluster
    ) -> dict[str, Placement]:
        """Return the placements of the jobs by an allocation matrix."""
        answer, without = dict[str, Placement](), list[Job]()
        for job, row in zip(jobs, matrix, strict=True):
            placement = self._settle(job, row, nodes)
            if placement is not None:
                answer[job.name] = placement
            elif job.gpus is not None and row.any():
                without.append(job)
        if without:
            self._gather(without, answer, nodes, cluster)
        return answer

    def _gather(
        self, jobs: list[Job], answer: dict[str, Placement], nodes: list[_Node], cluster: Cluster
    ) -> None:
        """Place rigid jobs that have GPUs of several types, too few of each, on free GPUs of one type.

        The GPUs are on one node, or on nodes that no other job uses.  Without this rule, such jobs might wait
        for ever, because the fitness does not distinguish a matrix that gives them GPUs of several types.
        """
        sizes = {type.name: type.gpus_per_node for type in cluster.types}
        free: dict[str, dict[int, int]] = {name: {} for name in cluster.names}
        for type, node in nodes:
            free[type][node] = sizes[type]
        for placement in answer.values():
            for node, gpus in placement.nodes:
                free[placement.type][node] -= gpus
        for job in jobs:
            held = None if job.allocation is None else job.allocation.type
            for type in sorted(cluster.names, key=lambda type: type != held):
                found = self._fitting(job, type, free[type], sizes[type])
                if found is not None:
                    answer[job.name] = found
                    for node, gpus in found.nodes:
                        free[type][node] -= gpus
                    break

    def _fitting(self, job: Job, type: str, free: Mapping[int, int], size: int) -> Placement | None:
        """Return GPUs for a rigid job on one node, or on free nodes: its own nodes first, then full ones."""
        assert job.gpus is not None
        runs_here = job.allocation is not None and job.allocation.type == type
        mine = dict(job.place or ()) if runs_here else {}
        order = sorted(filter(free.get, free), key=lambda node: (node not in mine, free[node], node))
        enough = [node for node in order if free[node] >= job.gpus][:1]
        place, left = dict[int, int](), job.gpus
        for node in enough or (node for node in order if free[node] == size):
            if left:
                place[node] = min(left, free[node])
                left -= place[node]
        return None if left else self._runnable(job, type, place)

    def _settle(self, job: Job, row: NDArray[np.int8], nodes: list[_Node]) -> Placement | None:
        """Return the placement of a job on one type, with as many of its GPUs in `row` as it can run on."""
        by_type: dict[str, dict[int, int]] = {}
        for at in np.flatnonzero(row).tolist():
            type, node = nodes[at]
            by_type.setdefault(type, {})[node] = int(row[at])
        if not by_type:
            return None
        type = max(
            by_type, key=lambda type: (sum(by_type[type].values()), job.speed(Configuration(1, 1, type)))
        )
        return self._runnable(job, type, by_type[type])

    def _runnable(self, job: Job, type: str, place: dict[int, int]) -> Placement | None:
        """Remove GPUs from a placement one by one until the job can run; return None if it never can."""
        assert self._tables is not None
        table = self._tables.goodput(job, type)
        while place:
            gpus = sum(place.values())
            if gpus < table.shape[0] and table[gpus, len(place)] > 0 and job.gpus in (None, gpus):
                return Placement(type, tuple(sorted(place.items())))
            node = min(place, key=lambda node: (place[node], -node))
            place[node] -= 1
            if not place[node]:
                del place[node]
        return None


def nodes_of(cluster: Cluster, down: Mapping[str, frozenset[int]]) -> list[_Node]:
    """Return the types and numbers of a cluster's working nodes. `down`: failed nodes of each type."""
    none: frozenset[int] = frozenset()
    return [
        (type.name, node) for type in cluster.types for node in working_nodes(type, down.get(type.name, none))
    ]


class _GoodputTables:
    """Goodput of a job by number of nodes and GPUs, for all shapes that the genetic algorithm may find.

    Pollux has one type of node.  In a cluster with several types, a node with k times the GPUs of the
    smallest node counts as k nodes, as in Sia's evaluation of Pollux (thesis section 3.4.3), and a job is
    modelled by its present type of GPU.

    `unit`: GPUs of the smallest node. `max_gpus`, `max_nodes`: largest counts in a table, for nodes of `unit`
    GPUs.
    """

    def __init__(self, cluster: Cluster, max_gpus: int) -> None:
        self.types = cluster.names
        there = [type for type in cluster.types if type.nodes]
        self.unit = min((type.gpus_per_node for type in there), default=1)
        self.max_gpus = min(max_gpus, cluster.gpus)
        self.max_nodes = min(
            self.max_gpus, sum(-(-type.gpus_per_node // self.unit) * type.nodes for type in there)
        )
        self._sizes = {type.name: type.gpus_per_node for type in cluster.types}
        shapes = [
            (index, nodes, gpus)
            for index, type in enumerate(cluster.types)
            for gpus in range(1, min(self.max_gpus, type.gpus) + 1)
            for nodes in range(-(-gpus // type.gpus_per_node), min(gpus, type.nodes) + 1)
        ]
        columns = np.array(shapes, np.int64).reshape(-1, 3).T
        self._shapes = Configurations(self.types, columns[0].copy(), columns[1].copy(), columns[2].copy())
        self._known: dict[tuple[int, int, str], tuple[Profile, Floats, Floats]] = {}

    def goodput(self, job: Job, type: str) -> Floats:
        """Return the known present goodput of a job on a type of GPUs; 0 where the job cannot run.

        The table by GPUs and nodes must not be changed.
        """
        return self._tables(job, type)[0]

    def usable(self, job: Job, type: str) -> Floats:
        """Return the goodput of a job that may leave GPUs idle, by its numbers of GPUs and of nodes.

        A node has :attr:`unit` GPUs. The table must not be changed.
        """
        return self._tables(job, type)[1]

    def _tables(self, job: Job, type: str) -> tuple[Floats, Floats]:
        key = (id(job.seen), min(job.level, job.seen.n_levels - 1), type)
        if key not in self._known:
            if len(self._known) >= _KEPT:
                self._known.clear()
            columns, values = job.row(self._shapes)
            mine = self._shapes.type_index[columns] == self.types.index(type)
            columns, values = columns[mine], values[mine]
            table = np.zeros((self.max_gpus + 1, self.max_nodes + 1))
            table[self._shapes.gpus[columns], self._shapes.nodes[columns]] = values
            # Keep the profile too, so that its id is not used again.
            self._known[key] = job.seen, table, self._in_units(_filled(table), self._sizes[type])
        return self._known[key][1:]

    def _in_units(self, table: Floats, size: int) -> Floats:
        """Convert a table from nodes of `size` GPUs to nodes of :attr:`unit` GPUs."""
        if size == self.unit:
            return table
        gpus, nodes = (np.arange(length) for length in table.shape)
        real = np.maximum(-(-nodes * self.unit // size), -(-gpus[:, None] // size))
        return table[gpus[:, None], np.minimum(real, table.shape[1] - 1)]

    def home(self, job: Job) -> str:
        """Return the GPU type by which a job is modelled: its present type, or the first that can run it."""
        if job.allocation is not None and job.allocation.type in self.types:
            return job.allocation.type
        return next((type for type in self.types if self.goodput(job, type).any()), self.types[0])


def _filled(table: Floats) -> Floats:
    """Return the goodput by GPUs and nodes; where a job cannot run, that on the best part of these GPUs."""
    filled = table.copy()
    for gpus in range(2, filled.shape[0]):
        fewer = filled[gpus - 1]
        part = np.maximum(fewer, np.concatenate(([0.0], fewer[:-1])))
        filled[gpus] = np.where(filled[gpus] > 0, filled[gpus], part)
    return filled
