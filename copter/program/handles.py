"""Handles of the columns that many requests of a program share.

A slot of the store is used again after its content is removed. A handle therefore also has a generation and a
random key. The handle is valid for the program that made it and for copies of that program, including saved
copies.
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass, field
from typing import Any, Self

from copter.errors import EditError
from copter.store.edit import Edit


@dataclass(frozen=True)
class SharedColumns:
    """Handle of columns that many requests share; made by :meth:`copter.ContinualProgram.share_columns`.

    Attributes
    ----------
    slot : int
        Slot of the columns in the table of usages.
    n_columns : int
        Number of the shared columns.
    generation : int
        Revision of the store when the handle was made.
    key : int
        Random number that distinguishes the columns from those of other programs.
    names : tuple of n_columns hashables, or None
        Names of the columns. None if the columns are numbered.

    Examples
    --------
    >>> from copter import ContinualProgram
    >>> program = ContinualProgram()
    >>> program.add_resource("gpu", upper=8)
    >>> columns = program.share_columns({"gpu": [1, 2]}, n_columns=2)
    >>> program.add_request("a", costs=[-1.0, -1.8], usage=columns, total=1)
    >>> program.add_request("b", costs=[-1.0, -1.5], usage=columns, total=1)
    >>> program.requests["a"].shared_columns == columns
    True
    """

    slot: int
    n_columns: int
    generation: int = field(default=-1, repr=False)
    key: int = field(default=0, repr=False)
    names: tuple[Hashable, ...] | None = field(default=None, repr=False, compare=False)

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        return self  # a copy of a name may be unequal to the name, so handles are not copied


class Handles(dict[int, SharedColumns]):
    """Handles of a program, by slot, in the order in which they were made."""

    def make(self, slot: int, edit: Edit, generation: int) -> SharedColumns:
        """Make the handle of the columns that an edit has put into a slot."""
        assert edit.sizes is not None
        names = None if edit.labels is None else edit.labels.each()[0]
        self[slot] = SharedColumns(slot, int(edit.sizes[0]), generation, edit.key, names)
        return self[slot]

    def check(self, subject: Hashable, handle: Any) -> None:
        """Raise EditError if the program does not have a handle; `subject` is a request or an edit method."""
        if not isinstance(handle, SharedColumns) or self.get(handle.slot) != handle:
            why = "must be a handle of shared columns that this program made and did not forget"
            raise EditError(subject, "usage", handle, why)
