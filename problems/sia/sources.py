"""What jobs run by: a profile, and how many GPUs they may have, shared by all jobs with the same ones."""

from __future__ import annotations

from dataclasses import dataclass

from copter.problems.cluster.profiles.base import Profile
from copter.problems.cluster.workload import Kind


@dataclass(frozen=True)
class Source:
    """A profile within limits.

    Attributes
    ----------
    least : int
        Fewest GPUs that a job of it may have.
    most : int or None
        Most GPUs; None for any number.
    """

    profile: Profile
    least: int = 1
    most: int | None = None


class Sources:
    """Numbers of the sources in use; a number is never used for two."""

    def __init__(self) -> None:
        self._numbers: dict[Source, int] = {}
        self._sources: dict[int, Source] = {}
        self._users: dict[int, int] = {}
        self._fixed_batch: dict[Profile, Profile] = {}
        self._next = 0

    def __getitem__(self, number: int) -> Source:
        return self._sources[number]

    def __len__(self) -> int:
        return len(self._sources)

    def take(self, profile: Profile, kind: Kind, least: int, most: int | None) -> int:
        """Number of a source, counting one user more.

        Parameters
        ----------
        kind : {"adaptive", "strong-scaling", "rigid"}
            Jobs that are not adaptive run by the profile at its fixed batch size.
        most : int, optional
            Limits, see :class:`Source`.
        """
        if kind != "adaptive":
            if profile not in self._fixed_batch:
                self._fixed_batch[profile] = profile.at_fixed_batch()
            profile = self._fixed_batch[profile]
        source = Source(profile, least, most)
        if source not in self._numbers:
            self._numbers[source], self._sources[self._next] = self._next, source
            self._users[self._next] = 0
            self._next += 1
        number = self._numbers[source]
        self._users[number] += 1
        return number

    def release(self, number: int) -> None:
        """Count one user less; what nobody uses is forgotten, for jobs may bring profiles of their own."""
        self._users[number] -= 1
        if not self._users[number]:
            source = self._sources.pop(number)
            del self._numbers[source], self._users[number]
            self._fixed_batch = {k: v for k, v in self._fixed_batch.items() if v is not source.profile}
