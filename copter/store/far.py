"""FarColumns: the tables of a program whose columns are elsewhere, and what is asked of single requests."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from copter.store.executor import Part
from copter.store.remote import RemoteExecutor
from copter.store.store import ConstraintStore
from copter.store.workers import Workers


class FarColumns(ConstraintStore):
    """Tables of a program whose columns are elsewhere.

    Parameters
    ----------
    workers : Workers
        Empty; who has the parts.
    cost_dtype : dtype
        What they keep costs as.
    """

    def __init__(self, workers: Workers, cost_dtype: DTypeLike = np.float64) -> None:
        super().__init__(cost_dtype)
        self._executor = RemoteExecutor(self, workers)

    @property
    def executor(self) -> RemoteExecutor:
        """What runs tasks on its parts."""
        return self._executor

    @property
    def parts(self) -> int:
        """Into how many parts its requests are cut."""
        return self.executor.workers.parts

    def get_override(self, slot: int) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
        """Columns and costs of a request's override."""
        found: tuple[NDArray[np.int64], NDArray[np.float64]]
        found = self.executor.ask(_tell, slot, "get_override")
        return found

    def base_costs(self, slot: int) -> NDArray[np.float64]:
        """A request's costs as they were given, without scale and overrides."""
        costs: NDArray[np.float64] = self.executor.ask(_tell, slot, "base_costs")
        return costs

    def effective_costs(self, slot: int) -> NDArray[np.float64]:
        """A request's costs, scale and overrides applied."""
        costs: NDArray[np.float64] = self.executor.ask(_tell, slot, "effective_costs")
        return costs

    def upper_bounds(self, slot: int) -> NDArray[np.float64]:
        """Upper bounds of a request's columns."""
        upper: NDArray[np.float64] = self.executor.ask(_tell, slot, "upper_bounds")
        return upper

    def request_entries(self, slot: int) -> tuple[NDArray[np.int64], NDArray[np.int32], NDArray[np.float64]]:
        """Columns, rows and coefficients of a request's entries."""
        found: tuple[NDArray[np.int64], NDArray[np.int32], NDArray[np.float64]]
        found = self.executor.ask(_tell, slot, "request_entries")
        return found

    @property
    def nnz(self) -> int:
        """Nonzeros in the resource rows."""
        return sum(self.executor.map(_nnz))


def _tell(part: Part, slot: int, what: str) -> Any:
    return getattr(part.store, what)(slot)


def _nnz(part: Part) -> int:
    return part.store.nnz
