"""Goodput of a job by number of nodes and GPUs, for all shapes that the genetic algorithm may come up with.

Pollux knows one kind of node.  In a cluster with several, a node with k times the GPUs of the smallest counts
as k nodes, as in Sia's evaluation of it (thesis section 3.4.3), and a job is modelled by the GPUs that it is
on.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from copter.problems.cluster.cluster import Cluster, Configurations
from copter.problems.cluster.profiles.base import Profile
from copter.problems.cluster.simulation.jobs import JobState

_KEPT = 4096
"""Tables that are remembered; jobs of one application at one level share theirs."""


class GoodputTables:
    """Goodput tables of jobs on one cluster.

    Parameters
    ----------
    max_gpus : int
        Largest number of GPUs of a job.

    Attributes
    ----------
    unit : int
        GPUs of the smallest node.
    max_gpus, max_nodes : int
        Largest of a table; nodes are of `unit` GPUs.
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
        self._known: dict[tuple[int, int, str], tuple[Profile, NDArray[np.float64], NDArray[np.float64]]] = {}

    def goodput(self, job: JobState, type: str) -> NDArray[np.float64]:
        """Goodput of a job on a type of GPUs now, as far as is known; 0 where it cannot run.

        Returns
        -------
        (max_gpus + 1, max_nodes + 1) array
            By GPUs and nodes; not to be changed.
        """
        return self._tables(job, type)[0]

    def usable(self, job: JobState, type: str) -> NDArray[np.float64]:
        """Its goodput if it may leave GPUs idle, by GPUs and nodes of :attr:`unit` GPUs.

        Returns
        -------
        (max_gpus + 1, max_nodes + 1) array
            Not to be changed.
        """
        return self._tables(job, type)[1]

    def _tables(self, job: JobState, type: str) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        key = (id(job.seen), min(job.level, job.seen.n_levels - 1), type)
        if key not in self._known:
            if len(self._known) >= _KEPT:
                self._known.clear()
            columns, values = job.row(self._shapes)
            mine = self._shapes.type_index[columns] == self.types.index(type)
            columns, values = columns[mine], values[mine]
            table = np.zeros((self.max_gpus + 1, self.max_nodes + 1))
            table[self._shapes.gpus[columns], self._shapes.nodes[columns]] = values
            # The profile too: its id is not used again while it lives.
            self._known[key] = job.seen, table, self._in_units(_filled(table), self._sizes[type])
        return self._known[key][1:]

    def _in_units(self, table: NDArray[np.float64], size: int) -> NDArray[np.float64]:
        """A table by nodes of `size` GPUs, read by nodes of :attr:`unit` GPUs."""
        if size == self.unit:
            return table
        gpus, nodes = (np.arange(length) for length in table.shape)
        real = np.maximum(-(-nodes * self.unit // size), -(-gpus[:, None] // size))
        return table[gpus[:, None], np.minimum(real, table.shape[1] - 1)]

    def home(self, job: JobState) -> str:
        """Type of GPUs by which a job is modelled: the one that it is on, or the first that can run it."""
        if job.allocation is not None and job.allocation.type in self.types:
            return job.allocation.type
        return next((type for type in self.types if self.goodput(job, type).any()), self.types[0])


def _filled(table: NDArray[np.float64]) -> NDArray[np.float64]:
    """Goodput by GPUs and nodes, where the job cannot run that of the best part of them."""
    filled = table.copy()
    for gpus in range(2, filled.shape[0]):
        fewer = filled[gpus - 1]
        part = np.maximum(fewer, np.concatenate(([0.0], fewer[:-1])))
        filled[gpus] = np.where(filled[gpus] > 0, filled[gpus], part)
    return filled
