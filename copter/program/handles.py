"""Handles of what many requests of a program share, columns and costs, and which of them are known.

A slot of the store is used again, so a handle has more: when it was made, and a key drawn at random.  It is
good for the program that made it and for copies of that, saved ones too, and for no other program.
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass, field
from typing import Any, Generic, Self, TypeVar

from copter.errors import EditError
from copter.store.edit import Edit


@dataclass(frozen=True)
class Handle:
    """A shared object in a program's store.

    `slot`: in its table. `n_columns`: of each request that uses it. `generation`: the store's revision when
    it was made. `key`: random number that tells it from another program's. `names`: of shared columns, None
    for numbers.
    """

    slot: int
    n_columns: int
    generation: int = field(default=-1, repr=False)
    key: int = field(default=0, repr=False)
    names: tuple[Hashable, ...] | None = field(default=None, repr=False, compare=False)

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        return self  # a copy of a name may be another name


class SharedColumns(Handle):
    """Handle of columns that many requests share; made by ``ContinualProgram.share_columns``."""


class SharedCosts(Handle):
    """Handle of costs that many requests share; made by ``ContinualProgram.share_costs``."""


H = TypeVar("H", bound=Handle)


class Handles(dict[int, H], Generic[H]):
    """The handles of one kind that a program has, by slot, in the order in which they were made.

    `called`, `given_as`: the kind, and the argument that it is given as, for messages.
    """

    def __init__(self, kind: type[H], called: str, given_as: str) -> None:
        super().__init__()
        self.kind, self._called, self._given_as = kind, called, given_as

    def make(self, slot: int, edit: Edit, generation: int) -> H:
        """A handle of what an edit has put into a slot."""
        assert edit.sizes is not None
        names = None if edit.labels is None else edit.labels.each()[0]
        self[slot] = self.kind(slot, int(edit.sizes[0]), generation, edit.key, names)
        return self[slot]

    def check(self, subject: Hashable, handle: Any) -> None:
        """Raise an EditError about a subject (a request or an edit method) if there is no such handle."""
        if not isinstance(handle, self.kind) or self.get(handle.slot) != handle:
            why = f"no {self._called} of this program (any more)"
            raise EditError(subject, self._given_as, handle, why)
