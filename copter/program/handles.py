"""Handles of the columns and costs that many requests of a program share.

A slot of the store is used again after its content is removed. A handle therefore also has a generation and a
random key. It is valid for the program that made it and for copies of that program, including saved ones.
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass, field
from typing import Any, Generic, Self, TypeVar

from copter.errors import EditError
from copter.store.edit import Edit


@dataclass(frozen=True)
class Handle:
    """Handle of a shared object in a program's store.

    Attributes
    ----------
    slot : int
        Slot of the object in its table.
    n_columns : int
        Number of columns of each request that uses the object.
    generation : int
        Revision of the store when the object was made.
    key : int
        Random number that distinguishes the object from objects of other programs.
    names : tuple of n_columns hashables, or None
        Names of shared columns. None if the columns are numbered.
    """

    slot: int
    n_columns: int
    generation: int = field(default=-1, repr=False)
    key: int = field(default=0, repr=False)
    names: tuple[Hashable, ...] | None = field(default=None, repr=False, compare=False)

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        return self  # a copy of a name may be unequal to the name, so handles are not copied


class SharedColumns(Handle):
    """Handle of columns that many requests share; made by :meth:`copter.ContinualProgram.share_columns`.

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


class SharedCosts(Handle):
    """Handle of costs that many requests share; made by :meth:`copter.ContinualProgram.share_costs`.

    Examples
    --------
    >>> from copter import ContinualProgram
    >>> program = ContinualProgram()
    >>> program.add_resource("gpu", upper=8)
    >>> costs = program.share_costs([-1.0, -1.8])
    >>> program.add_request("a", costs=costs, usage={"gpu": [1, 2]}, total=1, scale=2.0)
    >>> program.requests["a"].costs
    array([-2. , -3.6])
    """


H = TypeVar("H", bound=Handle)


class Handles(dict[int, H], Generic[H]):
    """Handles of one kind that a program has, by slot, in the order in which they were made.

    Error messages use `called`, the name of the kind, and `given_as`, the argument that takes the handle.
    """

    def __init__(self, kind: type[H], called: str, given_as: str) -> None:
        super().__init__()
        self.kind, self._called, self._given_as = kind, called, given_as

    def make(self, slot: int, edit: Edit, generation: int) -> H:
        """Make the handle of the object that an edit has put into a slot."""
        assert edit.sizes is not None
        names = None if edit.labels is None else edit.labels.each()[0]
        self[slot] = self.kind(slot, int(edit.sizes[0]), generation, edit.key, names)
        return self[slot]

    def check(self, subject: Hashable, handle: Any) -> None:
        """Raise EditError if the program does not have a handle; `subject` is a request or an edit method."""
        if not isinstance(handle, self.kind) or self.get(handle.slot) != handle:
            why = f"must be a handle of {self._called} that this program made and did not forget"
            raise EditError(subject, self._given_as, handle, why)
