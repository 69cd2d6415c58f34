"""Small random programs and edits of every kind, solved by open requests only wherever that can be."""

from dataclasses import replace

import numpy as np

import copter
from copter import ContinualProgram, CopterError, ProximalPoint
from copter.solvers.proximal.tuning import LazyTuning, ProximalTuning

ALWAYS = ProximalTuning(
    lazy=LazyTuning(
        requests_from=5, columns_from=5, most_touched=0.9, most_frozen=0.9, most_open=0.9, rows_for_own=1
    )
)
"""Closes requests of programs as small as these."""


def lazy_solver(holds: bool = False, **settings) -> ProximalPoint:
    """A solver that does so, and, if told, holds columns at their bounds as it does with large programs."""
    rows = LazyTuning().rows_for_own if holds else ALWAYS.lazy.rows_for_own
    return ProximalPoint(tuning=replace(ALWAYS, lazy=replace(ALWAYS.lazy, rows_for_own=rows)), **settings)


def is_lazy(solution) -> bool:
    """Whether a round looked at open requests only."""
    return "open_requests" in solution.details


class Rounds:
    """A program that a seed makes and changes: all kinds of requests, of columns and of edits."""

    def __init__(self, seed: int) -> None:
        self.rng = rng = np.random.default_rng(seed)
        self.rows, self.requests = int(rng.integers(2, 9)), int(rng.integers(20, 120))
        self.own = 0.9 if seed % 4 == 3 else 0.35
        self.width, self.unit = int(rng.integers(1, 8)), 10.0 ** rng.integers(-4, 5)
        self.program = ContinualProgram(cost_dtype=str(rng.choice(["float64", "float32"])))
        for row in range(self.rows):
            lower = -np.inf if rng.random() < 0.7 else 0.1 * rng.random()
            self.program.add_resource(row, self._capacity() * (1 if rng.random() < 0.9 else 100), lower=lower)
        self.shared = [self.program.share_columns(self._usage(), self.width) for _ in range(3)]
        self.vectors = [self.program.share_costs(self._costs()) for _ in range(3)]
        self.next = 0
        for _ in range(self.requests):
            self.add()
        self.edits = [getattr(self, name) for name in dir(self) if name.startswith("edit_")]

    def change(self) -> None:
        """A few edits at random; what an edit cannot do with its request is left out."""
        for _ in range(int(self.rng.integers(0, 4))):
            edit = self.edits[self.rng.integers(len(self.edits))]
            ids = self.program.request_ids
            try:
                edit(ids[self.rng.integers(len(ids))])
            except CopterError as error:  # an override of a column that there is not, say
                assert isinstance(error, copter.EditError)  # noqa: PT017 - nothing else may go wrong

    def add(self) -> None:
        """A request of one of six kinds, with columns and costs that are its own or shared."""
        rng, width = self.rng, self.width
        own = {"total": 1.0}, {"total": float(rng.uniform(0.5, 2.0)), "relation": "=="}
        boxed = {"upper": rng.uniform(0.2, 1.0, width)}, {"total": 1.0, "upper": rng.uniform(0.4, 1.0, width)}
        kinds = (*own, *boxed, {"total": 1.0, "upper": 0.7}, {"upper": 1.0})
        given = dict(kinds[rng.integers(len(kinds))])
        if rng.random() < 0.2:
            given["scale"] = float(rng.uniform(0.5, 2.0))
        usage = self._usage() if rng.random() < self.own else self.shared[rng.integers(3)]
        costs = self.vectors[rng.integers(3)] if rng.random() < 0.2 else self._costs()
        self.program.add_request(self.next, costs, usage, **given)
        self.next += 1

    def edit_costs(self, id) -> None:
        self.program.update_request(id, costs=self._costs())

    def edit_ties(self, id) -> None:
        self.program.update_request(id, costs=np.round(self._costs() / self.unit, 1) * self.unit)

    def edit_scale(self, id) -> None:
        self.program.update_request(id, scale=float(self.rng.uniform(0.5, 2.0)))

    def edit_remove(self, id) -> None:
        self.program.remove_request(id)

    def edit_add(self, id) -> None:
        self.add()

    def edit_total(self, id) -> None:
        self.program.update_request(id, total=float(self.rng.choice([0.0, 0.5, 1.0, 2.0])))

    def edit_override(self, id) -> None:
        column = int(self.rng.integers(self.width))
        self.program.update_request(id, override={column: -self.unit * self.rng.random()})

    def edit_upper(self, id) -> None:
        self.program.update_request(id, upper=float(self.rng.uniform(0.5, 1.5)))

    def edit_capacity(self, id) -> None:
        rows = self.program.resource_ids
        self.program.update_resources(rows[self.rng.integers(len(rows))], upper=self._capacity())

    def edit_relation(self, id) -> None:
        self.program.update_request(id, relation=str(self.rng.choice(["<=", "=="])), total=1.0)

    def edit_columns(self, id) -> None:
        self.program.update_request(id, costs=self._costs(), usage=self.shared[self.rng.integers(3)])

    def edit_own_columns(self, id) -> None:
        self.program.update_request(id, costs=self._costs(), usage=self._usage())

    def edit_rows(self, id) -> None:
        rows = self.program.resource_ids
        if self.rng.random() < 0.1 and len(rows) > 2:
            self.program.remove_resources(rows[0])
        elif self.rng.random() < 0.1:
            self.program.add_resource(("more", self.next), self._capacity())
            self.next += 1

    def _capacity(self) -> float:
        return float(self.rng.uniform(0.2, 0.9) * self.requests / 4)

    def _costs(self) -> np.ndarray:
        sign = -1.0 if self.rng.random() < 0.8 else 1.0
        return sign * self.unit * self.rng.uniform(0.1, 1.0, self.width)

    def _usage(self) -> dict:
        rng, n = self.rng, self.width
        rows = self.program.resource_ids
        return {row: rng.uniform(0.5, 1.5, n) * (rng.random(n) < 0.5) for row in rows}
