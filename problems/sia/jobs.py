"""State of the active jobs as parallel arrays, one slot a job."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

NONE = -1
"""No configuration, or nothing sent yet."""

FIELDS: dict[str, tuple[type, float]] = {
    "active": (bool, False),
    "source": (np.int64, NONE),  # profile and limits on the GPUs
    "level": (np.int64, 0),
    "levels": (np.int64, 1),  # of the profile
    "penalty": (np.float64, 0.0),  # of having no GPUs
    "submitted": (np.float64, 0.0),
    "restart_seconds": (np.float64, 0.0),
    "restarts": (np.int64, 0),
    "started": (bool, False),
    "restart_until": (np.float64, -np.inf),
    "preemptible": (bool, True),
    "reserved": (bool, False),
    "current": (np.int64, NONE),  # configuration
    # what the program was last told
    "sent_row": (np.int64, NONE),
    "sent_mode": (np.int64, NONE),
    "sent_limit": (np.int64, NONE),
    "sent_current": (np.int64, NONE),
    "sent_penalty": (np.float64, np.nan),
    "column": (np.int64, NONE),  # of the current configuration in the request
    "column_cost": (np.float64, 0.0),
    "request": (np.int64, NONE),  # slot in the program
}


class JobTable:
    """Arrays named by :data:`FIELDS`, grown by doubling; freed slots are used again."""

    active: NDArray[np.bool_]
    source: NDArray[np.int64]
    level: NDArray[np.int64]
    levels: NDArray[np.int64]
    penalty: NDArray[np.float64]
    submitted: NDArray[np.float64]
    restart_seconds: NDArray[np.float64]
    restarts: NDArray[np.int64]
    started: NDArray[np.bool_]
    restart_until: NDArray[np.float64]
    preemptible: NDArray[np.bool_]
    reserved: NDArray[np.bool_]
    current: NDArray[np.int64]
    sent_row: NDArray[np.int64]
    sent_mode: NDArray[np.int64]
    sent_limit: NDArray[np.int64]
    sent_current: NDArray[np.int64]
    sent_penalty: NDArray[np.float64]
    column: NDArray[np.int64]
    column_cost: NDArray[np.float64]
    request: NDArray[np.int64]

    def __init__(self) -> None:
        self.size = 0
        self._free: list[int] = []
        for name, (type, fill) in FIELDS.items():
            setattr(self, name, np.full(64, fill, type))

    def add(self) -> int:
        """A slot with all fields at their defaults, marked active."""
        if self._free:
            slot = self._free.pop()
        else:
            slot, self.size = self.size, self.size + 1
            if self.size > self.active.size:
                self._grow()
        for name, (_, fill) in FIELDS.items():
            getattr(self, name)[slot] = fill
        self.active[slot] = True
        return slot

    def remove(self, slot: int) -> None:
        """Give a slot back."""
        self.active[slot] = False
        self._free.append(slot)

    def slots(self) -> NDArray[np.int64]:
        """Slots of the active jobs, ascending."""
        return np.flatnonzero(self.active[: self.size])

    def _grow(self) -> None:
        for name, (type, fill) in FIELDS.items():
            old = getattr(self, name)
            setattr(self, name, np.concatenate((old, np.full(old.size, fill, type))))
