"""PartStore: store of one part of a distributed program, and the conversion of edits for it.

Rows have the slots that they have in the program. The request in slot s of the program is in slot
``s // parts`` of the part ``s % parts``. The part frees and allocates slots in the same order as the program,
so that slots need not be sent. Shared usages, which all parts have, are identified by their slots in the
program.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from copter.store.edit import OWN, Edit
from copter.store.local import LocalStore
from copter.store.slabs import typed


class PartStore(LocalStore):
    """Store of one part, to which edits of the program are applied.

    `usage_of` has the slot in this store of each shared usage with a handle, by its slot in the program.
    """

    def __init__(self) -> None:
        super().__init__()
        self.usage_of: dict[int, int] = {}

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Return the arrays of the store, and the pairs of slots of shared usages."""
        return super().arrays() | {"usage_of": np.array(list(self.usage_of.items()), np.int64).ravel()}

    def set_arrays(self, arrays: Mapping[str, NDArray[Any]]) -> None:
        """Restore the part from what :meth:`arrays` returned; raise the errors of a store."""
        super().set_arrays(arrays)
        self.usage_of = dict(typed(arrays["usage_of"], np.int64).reshape(-1, 2).tolist())

    def apply(self, edit: Edit) -> NDArray[np.int64]:
        """Apply an edit of this part, or an edit for all parts."""
        self.clock = edit.clock  # so that revisions are those of the program
        if edit.verb == "reserve":
            assert edit.sizes is not None
            self.reserve(int(edit.sizes[0]))
            return edit.slots
        if edit.verb == "forget_columns":
            return super().apply(edit._replace(slots=np.array([self.usage_of.pop(int(edit.slots[0]))])))
        if isinstance(edit.usage, np.ndarray):
            edit = edit._replace(usage=_mapped(edit.usage, self.usage_of))
        elif edit.usage is not None and edit.usage != OWN:
            edit = edit._replace(usage=self.usage_of[edit.usage])
        slots = super().apply(edit)
        if edit.verb == "share_columns":
            self.usage_of[int(edit.slots[0])] = int(slots[0])
        elif not np.array_equal(slots, edit.slots):
            what = f"{edit.verb.removeprefix('add_')} have the slots {slots} in their part, not {edit.slots}"
            raise RuntimeError(f"{what}; the part missed an edit")
        return slots


def _mapped(slots: NDArray[np.int64], to: Mapping[int, int]) -> NDArray[np.int64]:
    """Return the slots in the part of shared usages; OWN stays OWN."""
    return np.fromiter((OWN if slot == OWN else to[slot] for slot in slots.tolist()), np.int64, slots.size)
