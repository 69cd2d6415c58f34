"""A cluster's state on its way to another process, where Sia recognises what it has seen before.

Sia takes a profile for a new one, to be priced again, if it is another object than the last time.  So a
profile is sent once, with a number, and is the same object wherever that number comes again.
"""

from __future__ import annotations

import io
import pickle
from itertools import chain
from typing import Any, NamedTuple

from copter.problems.cluster.policy import ClusterState
from copter.problems.cluster.profiles.base import Profile


class Parcel(NamedTuple):
    """What is sent.

    Attributes
    ----------
    profiles : dict of int to Profile
        Those that were not sent before, by number.
    numbers : set of int
        Of all that the state has; others are forgotten.
    """

    profiles: dict[int, Profile]
    numbers: set[int]
    state: bytes


class Mail:
    """One end of the way: it knows the profiles that are at both."""

    def __init__(self) -> None:
        self._profiles: dict[int, Profile] = {}
        self._numbers: dict[int, int] = {}
        self._next = 0

    def pack(self, now: ClusterState) -> Parcel:
        """Pack a state, with the profiles that the other end does not have."""
        jobs = chain(now.jobs.values(), now.arrived, now.left)
        there = {id(profile): profile for job in jobs for profile in (job.profile, job.seen)}
        new = {}
        for key, profile in there.items():
            if key not in self._numbers:
                self._numbers[key], new[self._next] = self._next, profile
                self._next += 1
        self._profiles |= new
        numbers = {self._numbers[key] for key in there}
        target = io.BytesIO()
        _Packer(target, self._numbers).dump(now)
        self._forget(numbers)
        return Parcel(new, numbers, target.getvalue())

    def unpack(self, parcel: Parcel) -> ClusterState:
        """Unpack a state."""
        self._profiles |= parcel.profiles
        now: ClusterState = _Unpacker(io.BytesIO(parcel.state), self._profiles).load()
        self._forget(parcel.numbers)
        return now

    def _forget(self, numbers: set[int]) -> None:
        """Keep the profiles of some numbers only; as long as they are kept, their ids are no one else's."""
        self._profiles = {number: self._profiles[number] for number in numbers}
        self._numbers = {id(profile): number for number, profile in self._profiles.items()}


class _Packer(pickle.Pickler):
    def __init__(self, target: io.BytesIO, numbers: dict[int, int]) -> None:
        super().__init__(target, protocol=pickle.HIGHEST_PROTOCOL)
        self._numbers = numbers

    def persistent_id(self, part: Any) -> int | None:
        return self._numbers.get(id(part))


class _Unpacker(pickle.Unpickler):
    def __init__(self, source: io.BytesIO, profiles: dict[int, Profile]) -> None:
        super().__init__(source)
        self._profiles = profiles

    def persistent_load(self, number: int) -> Profile:
        return self._profiles[number]
