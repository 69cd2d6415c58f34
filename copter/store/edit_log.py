"""The store's log of edits: which requests were edited after a given revision."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from copter.store.slabs import typed

_FIRST = 64
_LEAST = 4096
"""Entries that are kept at least, however few requests there are."""


class EditLog:
    """Slots of edited requests, in the order of their edits.

    The log drops its oldest entries when it has more entries than there are request slots, and all of them
    after an edit of so many requests, because a solver then reads the whole program anyway. It is complete
    after the revision `complete_after`.
    """

    def __init__(self) -> None:
        self.complete_after = 0
        self._revision, self._slot = np.empty(_FIRST, np.int64), np.empty(_FIRST, np.int64)
        self._used = 0

    def __getstate__(self) -> dict[str, object]:
        arrays = self.arrays()
        return vars(self) | {"_revision": arrays["revision"], "_slot": arrays["slot"]}

    def arrays(self) -> dict[str, NDArray[np.int64]]:
        """Return copies of the revision and slot of each entry, in the order of the edits."""
        return {
            "after": np.array([self.complete_after]),
            "revision": self._revision[: self._used].copy(),
            "slot": self._slot[: self._used].copy(),
        }

    def set_arrays(self, arrays: Mapping[str, NDArray[np.int64]]) -> None:
        """Become the log that :meth:`arrays` was asked of; a ValueError if they cannot be of one log."""
        (after,), revision, slot = (typed(arrays[name], np.int64) for name in ("after", "revision", "slot"))
        if revision.size != slot.size or (np.diff(revision, prepend=after) < 0).any():
            raise ValueError("the log of edits")
        self.complete_after, self._used = int(after), revision.size
        self._revision, self._slot = revision, slot

    def note(self, revision: int, slots: NDArray[np.int64], requests: int) -> None:
        """Add an edit of the requests in `slots`.

        `revision`: the store's revision after the edit, never less than an earlier one. `requests`: number of
        request slots.
        """
        most = max(_LEAST, requests)
        if 2 * slots.size > most:
            self.complete_after, self._used = revision, 0
            return
        if self._used + slots.size > most:
            self._forget(self._used // 2)
        end = self._used + slots.size
        if end > self._slot.size:
            room = max(2 * self._slot.size, end)
            self._revision, self._slot = (
                np.concatenate((array[: self._used], np.empty(room - self._used, np.int64)))
                for array in (self._revision, self._slot)
            )
        self._revision[self._used : end], self._slot[self._used : end] = revision, slots
        self._used = end

    def since(self, revision: int) -> NDArray[np.int64] | None:
        """Return the slots of the requests edited after a revision, ascending, also of removed requests.

        None if the log does not reach back that far.
        """
        if revision < self.complete_after:
            return None
        begin = int(np.searchsorted(self._revision[: self._used], revision, side="right"))
        slots = np.sort(self._slot[begin : self._used])
        if slots.size > 1:
            slots = slots[np.append(slots[1:] != slots[:-1], True)]
        return slots

    def _forget(self, count: int) -> None:
        """Forget so many of the oldest entries."""
        self.complete_after = int(self._revision[count - 1])
        for array in (self._revision, self._slot):
            array[: self._used - count] = array[count : self._used]
        self._used -= count
