"""Asking those who hold the parts of a spread store, and the log of what was edited since they were asked."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
from numpy.typing import DTypeLike, NDArray

from copter.errors import UnusableError
from copter.store.excerpt import Excerpt, Message, answer
from copter.store.lent import Lent
from copter.store.places import Places
from copter.store.slabs import slice_indices
from copter.store.store import ConstraintStore
from copter.store.view import StoreView
from copter.store.where import Columns, Part, cut

if TYPE_CHECKING:
    from copter.store.edit import Edit

Result = TypeVar("Result")
_SEND_FROM = 1 << 26
"""Bytes from which on logged edits are sent without waiting for the round."""


class FarColumns(ConstraintStore):
    """Tables of a program whose columns are elsewhere.

    Parameters
    ----------
    places : Places
        Empty; who holds the parts.
    cost_dtype : dtype
        What they keep costs as.
    """

    def __init__(self, places: Places, cost_dtype: DTypeLike = np.float64) -> None:
        super().__init__(cost_dtype)
        self.places = places
        self._log: list[Edit] = []
        self._logged = 0
        self._excerpt: Excerpt | None = None
        self._ahead: dict[tuple[Any, ...], Sequence[tuple[Any, ...]]] = {}
        self._expected: list[Columns] = []
        self._refusal = ""

    # ---- where the columns are -----------------------------------------------------------------

    @property
    def parts(self) -> int:
        """Into how many parts its requests are cut."""
        return self.places.parts

    def refuse(self, why: str) -> None:
        """Refuse from now on what is asked of the parts, and edits.

        Parameters
        ----------
        why : str
            What the error says, and what to do.
        """
        self._refusal = why
        self._log, self._logged = [], 0

    def check(self) -> None:
        """Raise what :meth:`refuse` was told.

        Raises
        ------
        UnusableError
        """
        if self._refusal:
            raise UnusableError(self._refusal)

    def settle(self) -> None:
        """Send the edits that are in the log.

        Raises
        ------
        UnusableError
            The parts are closed, or some have missed edits.
        """
        self.check()
        if self._log:
            log, self._log, self._logged = self._log, [], 0
            try:
                self.places.send(log)
            except BaseException as error:  # some parts may have them, others not: Ctrl-C counts as well
                why = f"{type(error).__name__}: {error}"
                again = "close the program and make it again, or open its journal"
                self.refuse(f"edits did not reach all parts ({why}): {again}")
                raise

    def each(
        self, task: Callable[..., Result], *common: Any, own: Sequence[tuple[Any, ...]] | None = None
    ) -> list[Result]:
        """See :meth:`copter.store.where.Here.each`."""
        self.settle()
        return self.places.each(task, common, own)

    def excerpt(
        self, slot: NDArray[np.int64], column: NDArray[np.int64], *more: Columns
    ) -> tuple[StoreView, NDArray[np.int64]]:
        """See :meth:`copter.store.where.Here.excerpt`."""
        excerpt = self._some()
        view = excerpt.ask(self, (slot, column), *more)
        return view, excerpt.places(slot, column)

    def _some(self) -> Excerpt:
        """The excerpt of now."""
        if self._excerpt is None or not self._excerpt.fits(self):
            self._excerpt = Excerpt(self)
        return self._excerpt

    def expect(self, slot: NDArray[np.int64], column: NDArray[np.int64]) -> None:
        """See :meth:`copter.store.where.Here.expect`."""
        self._expected.append((slot, column))

    def ahead(
        self, task: Callable[..., Any], *common: Any, own: Sequence[tuple[Any, ...]] | None = None
    ) -> None:
        """See :meth:`copter.store.where.Here.ahead`."""
        if (task, *common) not in self.answers():
            self._ahead[(task, *common)] = [()] * self.parts if own is None else own

    def bring(self, task: Callable[..., Result], *common: Any) -> list[Result]:
        """See :meth:`copter.store.where.Here.bring`."""
        excerpt, ahead = self._some(), self._ahead
        slot, column = excerpt.missing(*self._expected)
        others = tuple((key[0], key[1:]) for key in ahead)
        message = Message(task, common, others, excerpt.mark)
        stale = np.concatenate([slot[:0], *excerpt.stale])
        mine = zip(cut(stale, self.parts), cut(slot, self.parts), *ahead.values(), strict=True)
        own = [(stale[old], slot[k], column[k], *each) for old, k, *each in mine]
        found = self.each(answer, message, own=own)
        self._expected, self._ahead, excerpt.stale = [], {}, []
        for number, key in enumerate(ahead):
            self.answers()[key] = [others[number] for _, others, _ in found]
        excerpt.take([given for _, _, given in found])
        return [result for result, _, _ in found]

    def whole(self) -> StoreView:
        """See :meth:`copter.store.where.Here.whole`."""
        sizes = self.requests.n_columns[: self.requests.size]
        every = np.repeat(np.arange(sizes.size), sizes), slice_indices(np.zeros_like(sizes), sizes)
        return self.excerpt(*every)[0]

    def lend(self, pieces: Sequence[Any]) -> Lent | None:
        """See :meth:`copter.store.where.Here.lend`."""
        self.check()
        return self.places.lend(pieces)

    def _put_down(self, edit: Edit, slots: NDArray[np.int64]) -> None:
        """Log an edit after which the columns of requests in some slots are others."""
        if edit.verb == "remove_resources":  # entries go when enough rows have been dropped
            self._excerpt = None
        elif self._excerpt is not None:
            self._excerpt.edited(slots)
        self._ahead, self._expected = {}, []
        self._log.append(edit)
        self._logged += edit.nbytes
        if self._logged > _SEND_FROM:
            self.settle()

    def told(self) -> dict[str, float]:
        """See :meth:`copter.store.where.Here.told`."""
        return self.places.told()

    # ---- one request ---------------------------------------------------------------------------

    def _ask(self, slot: int, what: str) -> Any:
        """What the part of a request says of it."""
        self.settle()
        return self.places.one(slot % self.parts, _tell, slot // self.parts, what)

    def get_override(self, slot: int) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
        """Columns and costs of a request's override."""
        found: tuple[NDArray[np.int64], NDArray[np.float64]] = self._ask(slot, "get_override")
        return found

    def base_costs(self, slot: int) -> NDArray[np.float64]:
        """A request's costs as they were given, without scale and overrides."""
        costs: NDArray[np.float64] = self._ask(slot, "base_costs")
        return costs

    def effective_costs(self, slot: int) -> NDArray[np.float64]:
        """A request's costs, scale and overrides applied."""
        costs: NDArray[np.float64] = self._ask(slot, "effective_costs")
        return costs

    def upper_bounds(self, slot: int) -> NDArray[np.float64]:
        """Upper bounds of a request's columns."""
        upper: NDArray[np.float64] = self._ask(slot, "upper_bounds")
        return upper

    def request_entries(self, slot: int) -> tuple[NDArray[np.int64], NDArray[np.int32], NDArray[np.float64]]:
        """Columns, rows and coefficients of a request's entries."""
        found: tuple[NDArray[np.int64], NDArray[np.int32], NDArray[np.float64]]
        found = self._ask(slot, "request_entries")
        return found

    @property
    def nnz(self) -> int:
        """Nonzeros in the resource rows."""
        return sum(self.each(_nnz))


def _tell(part: Part, slot: int, what: str) -> Any:
    return getattr(part.store, what)(slot)


def _nnz(part: Part) -> int:
    return part.store.nnz
