"""Costs that many requests share: vectors that the program keeps, and requests that point at them.

Requests of one kind often have the same costs up to a factor: jobs of one model, say, whose restarts differ.
They share a vector as they share a column template; each has its own scale on it and its own overrides.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, DTypeLike, NDArray

from copter.errors import EditError
from copter.program.columns import Columns
from copter.program.handles import CostVector, Handles
from copter.program.precision import check_vector
from copter.program.validation import cost_vector, whole_numbers
from copter.store.costs import SharedCosts


class CostVectors(Columns):
    """The cost vectors of a program."""

    def __init__(self, cost_dtype: DTypeLike = np.float64) -> None:
        super().__init__(cost_dtype)
        self._vectors = Handles(CostVector, "cost vector", "costs")

    def add_cost_vector(self, costs: ArrayLike) -> CostVector:
        """Costs that many requests will share, given as their ``costs``.

        A request's scale and overrides stay its own.  A pass over the program looks at the columns of a
        vector once for all requests that share it and a column template: one more costs next to nothing.

        Parameters
        ----------
        costs : (n,) array_like
            Finite cost of each column.

        Raises
        ------
        EditError
            No vector, a NaN or an infinite cost.
        """
        checked = cost_vector("cost vector", "costs", costs)
        check_vector(self.store, checked)
        slot = self.store.add_vector(checked)
        return self._vectors.make(slot, checked.size, self.store.tick())

    def drop_cost_vector(self, vector: CostVector) -> None:
        """Forget a cost vector; requests that share it keep their costs."""
        self._vectors.check("cost vector", vector)
        del self._vectors[vector.slot]
        self.store.drop_vector(vector.slot)

    @property
    def cost_vectors(self) -> list[CostVector]:
        """Handles of all cost vectors, in the order in which they were added."""
        return list(self._vectors.values())

    def cost_vector(self, request: Hashable) -> CostVector | None:
        """Vector that a request's costs are of, None if they are its own or the vector was dropped."""
        return self._vectors.get(int(self.store.requests.vector[self._requests.slot(request)]))

    # ---- inside ----------------------------------------------------------------------------------

    def _costs_of_one(self, id: Hashable, costs: Any) -> NDArray[np.float64] | SharedCosts:
        """Costs of one request's columns: an array, or the vector that was given."""
        if not isinstance(costs, CostVector):
            return cost_vector(id, "costs", costs)
        self._vectors.check(id, costs)
        return SharedCosts(np.array([costs.slot]), np.array([costs.n_columns]))

    def _costs_of_many(self, label: str, ids: Sequence[Hashable], costs: Any, sizes: Any) -> Any:
        """What was given as costs of many requests, vectors resolved: one for all, or one each."""
        one = isinstance(costs, CostVector)
        if not one and not (isinstance(costs, (list, tuple)) and any(type(c) is CostVector for c in costs)):
            return costs
        if one:
            self._vectors.check(label, costs)
        elif len(costs) != len(ids):
            raise EditError(label, "costs", len(costs), f"needs one for each of {len(ids)} requests")
        else:
            for id, own in zip(ids, costs, strict=True):
                self._vectors.check(id, own)
        each = [costs] * len(ids) if one else costs
        slots = np.array([own.slot for own in each], np.int64)
        shared = SharedCosts(slots, np.array([own.n_columns for own in each], np.int64))
        if sizes is not None:
            wrong = whole_numbers(label, "sizes", sizes, len(ids)) != shared.sizes
            if wrong.any():
                where = int(wrong.argmax())
                why = f"its cost vector has {int(shared.sizes[where])} columns"
                raise EditError(ids[where], "sizes", int(np.asarray(sizes)[where]), why)
        return shared
