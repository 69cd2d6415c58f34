"""Log of edits of a store: the requests that were edited after a given revision."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from copter.store.slabs import typed

_FIRST = 64
_LEAST = 4096
"""Smallest limit of the number of entries."""


class EditLog:
    """Slots of edited requests, in the order of their edits.

    The limit of the number of entries is the number of request slots, or 4,096 if that is more. A full log
    drops its older half. An edit of more requests than half the limit clears the log, because a solver then
    reads the whole program. The log is complete for edits after the revision `complete_after`.
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
        """Restore the log from what :meth:`arrays` returned; raise ValueError if it is invalid."""
        (after,), revision, slot = (typed(arrays[name], np.int64) for name in ("after", "revision", "slot"))
        if revision.size != slot.size or (np.diff(revision, prepend=after) < 0).any():
            raise ValueError("the log of edits is inconsistent")
        self.complete_after, self._used = int(after), revision.size
        self._revision, self._slot = revision, slot

    def note(self, revision: int, slots: NDArray[np.int64], requests: int) -> None:
        """Add an edit of the requests in `slots`.

        `revision` is the store's revision after the edit and never decreases. `requests` is the number of
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
        """Return the ascending slots of the requests, also removed ones, that were edited after a revision.

        Return None if the log does not reach back that far.
        """
        if revision < self.complete_after:
            return None
        begin = int(np.searchsorted(self._revision[: self._used], revision, side="right"))
        slots = np.sort(self._slot[begin : self._used])
        if slots.size > 1:
            slots = slots[np.append(slots[1:] != slots[:-1], True)]
        return slots

    def _forget(self, count: int) -> None:
        """Drop the `count` oldest entries."""
        self.complete_after = int(self._revision[count - 1])
        for array in (self._revision, self._slot):
            array[: self._used - count] = array[count : self._used]
        self._used -= count
