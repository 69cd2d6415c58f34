"""Families of LPs of tasks on servers, for `copter bench export`: relaxations of the assignment."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import numpy as np

from copter.bench.sequences.family import Family, SequenceRounds, rounds_of_programs
from copter.program.program import ContinualProgram
from copter.shims.choose_one import ChooseOneShim
from copter.solvers.registry import repeatable_solver

_KINDS = ("cpu", "memory", "gpus")
_MOVE = 0.3
"""Price of moving a task away from its server, in units of the smallest value of a task."""


def families() -> list[Family]:
    """Return the families."""
    return [
        Family(
            "placement-tasks-small",
            "60 tasks on 16 servers: 4 tasks leave and 4 arrive, and moving a placed task has a price.",
            ("columns", "costs", "rows"),
            partial(_rounds, 16, 60, "tasks"),
        ),
        Family(
            "placement-servers-large",
            "240 tasks on 48 servers: servers fail and return, and moving a placed task has a price.",
            ("costs", "sides"),
            partial(_rounds, 48, 240, "servers"),
        ),
    ]


class _Servers:
    """Tasks on servers: a request is a task, and has a column for each server on which it fits."""

    def __init__(self, servers: int, rng: np.random.Generator) -> None:
        self.rng, self.program = rng, ContinualProgram()
        size = rng.choice([1.0, 2.0], servers)
        self.free = np.column_stack((64.0 * size, 256.0 * size, rng.choice([0.0, 4.0, 8.0], servers)))
        self.ids = [(server, kind) for server in range(servers) for kind in _KINDS]
        self.program.add_resources(self.ids, upper=self.free.ravel())
        self.solver, self.shim = repeatable_solver("copter", tolerance=1e-6), ChooseOneShim(unplaced="allow")
        self.number = 0

    def arrive(self, count: int) -> None:
        """Add random tasks: cores, GiB, GPUs and value."""
        rng = self.rng
        for _ in range(count):
            gpus = float(rng.choice([0.0, 0.0, 1.0, 2.0, 4.0]))
            need = float(rng.integers(2, 33)), float(rng.integers(4, 129)), gpus
            fits = np.flatnonzero((self.free >= need).all(axis=1)).tolist()
            usage = {
                (server, kind): ([k], [need[at]])
                for k, server in enumerate(fits)
                for at, kind in enumerate(_KINDS)
                if need[at]
            }
            value = float(1.0 + need[0] / 16.0 + gpus * rng.uniform(0.5, 1.5))
            costs = -value * rng.uniform(0.95, 1.05, len(fits))
            self.program.add_request(self.number, costs, usage, total=1)
            self.number += 1

    def leave(self, count: int) -> None:
        """Remove random tasks."""
        ids = self.program.request_ids
        self.program.remove_requests([ids[k] for k in self.rng.choice(len(ids), count, replace=False)])

    def fail(self, servers: list[int], share: float) -> None:
        """Set the capacity of servers to a share of their size."""
        ids = [(server, kind) for server in servers for kind in _KINDS]
        self.program.update_resources(ids, upper=share * self.free[servers].ravel())

    def decide(self) -> None:
        """Place the tasks, and set the prices of moves."""
        rounded = self.shim.round(self.program, self.solver.solve(self.program))
        choice = rounded.choice
        self.program.price_moves(list(choice), list(choice.values()), _MOVE)


def _programs(servers: int, tasks: int, change: str, seed: int) -> Iterator[ContinualProgram]:
    """Yield the program of each round."""
    rng = np.random.default_rng(seed)
    model, down = _Servers(servers, rng), [0]
    model.arrive(tasks)
    while True:
        yield model.program
        model.decide()
        if change == "tasks":
            count = max(1, tasks // 15)
            model.leave(count)
            model.arrive(count)
        else:
            model.fail(down, 1.0)
            down = np.sort(rng.choice(servers, max(1, servers // 16), replace=False)).tolist()
            model.fail(down, 0.0)


def _rounds(servers: int, tasks: int, change: str, seed: int) -> SequenceRounds:
    return rounds_of_programs(_programs(servers, tasks, change, seed))
