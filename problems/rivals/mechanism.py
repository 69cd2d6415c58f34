"""Gavel's mechanism: turns shares of time into rounds.

A source of shares gives each job the share x_jt of time for which it should run on GPUs of type t.  In every
round pairs (job, type) are taken by the ratio of that share to the share of the type's time that the job
has had since the last reset, the highest first, as long as they fit; ties go to the larger deficit, the
time that a job was owed at resets.  A source that is blind to types gives each job one share of time on any;
its jobs go to the type with room on which they complete first, restarts counted.  GPUs that are left over go
to whoever fits.  Shares are computed anew when jobs came or went, but not more often than every
``reset_seconds``; a job that came since then has no share and runs only on GPUs that nobody else takes.

Source: Gavel's scheduling mechanism (Narayanan et al., OSDI 2020, section 5), which Shockwave's authors
keep for all baselines; constants are those of their public code.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from copter.problems.cluster.cluster import Configuration
from copter.problems.cluster.policy import ClusterState
from copter.problems.cluster.workload import Kind
from copter.problems.rivals.rigid import ROUND_SECONDS, RigidRound, look

RESET_SECONDS = 1000.0
"""Least time between two computations of shares."""
_NEVER_RAN = 1e9
_NO_SHARE = 1e-9


class Shares(Protocol):
    """Computes the share of time of each job.

    Attributes
    ----------
    name : str
        Of the policy.
    """

    name: str

    def shares(self, now: RigidRound) -> NDArray[np.float64]:
        """Shares of time in [0, 1]: on each type, shape (n, T), or on any, shape (n, 1).

        Parameters
        ----------
        now : RigidRound
            Has at least one job.

        Returns
        -------
        (n, T) or (n, 1) array
        """


class Mechanism:
    """Policy that runs the shares of a source.

    Attributes
    ----------
    name : str
        Of the source.
    kind : str
        Rigid.
    """

    kind: Kind = "rigid"

    def __init__(
        self, source: Shares, *, reset_seconds: float = RESET_SECONDS, round_seconds: float = ROUND_SECONDS
    ) -> None:
        self.source, self.reset_seconds = source, reset_seconds
        self.name = source.name
        self.round_seconds: float | None = round_seconds
        self._shares: dict[str, NDArray[np.float64]] = {}
        self._width = 1
        self._known: list[str] = []
        self._changed = True
        self._reset_at: float | None = None
        self._had: dict[str, NDArray[np.float64]] = {}
        self._deficits: dict[str, NDArray[np.float64]] = {}
        self._total: NDArray[np.float64] = np.zeros(1)
        self._last: dict[str, tuple[int, float]] = {}

    def schedule(self, now: ClusterState) -> Mapping[str, Configuration]:
        """Jobs of a round, and what they get.

        Returns
        -------
        dict of str to Configuration
        """
        here = look(now)
        self._account(here)
        self._changed |= here.names != self._known
        self._known = here.names
        if not here.jobs:
            self._last = {}
            return {}
        due = self._reset_at is None or now.time - self._reset_at >= self.reset_seconds
        if self._changed and due:
            self._reset(here)
        placed = here.pack(self._ranked(here))
        self._last = {
            here.jobs[job].name: (type if self._width > 1 else 0, here.jobs[job].run_seconds)
            for job, type in placed.items()
        }
        return here.allocation(placed)

    def _account(self, now: RigidRound) -> None:
        """Write down what the jobs of the last round have had, and begin to count for those that came."""
        ran = {job.name: job.run_seconds for job in now.jobs}
        for name, (at, before) in self._last.items():
            if name in ran:
                self._had[name][at] += ran[name] - before
                self._total[at] += ran[name] - before
            else:
                # It completed within the round, on average in the middle.
                self._total[at] += now.seconds / 2.0
        for name in [name for name in self._had if name not in ran]:
            del self._had[name], self._deficits[name]
        for name in ran:
            if name not in self._had:
                self._had[name] = np.full(self._width, now.seconds / 2.0)
                self._deficits[name] = np.zeros(self._width)

    def _reset(self, now: RigidRound) -> None:
        elapsed = now.time - (self._reset_at or 0.0)
        start = now.seconds / 2.0
        for name, had in self._had.items():
            owed = self._shares[name] * elapsed if name in self._shares else 0.0
            self._deficits[name] = self._deficits[name] + owed - (had - start)
        shares = self.source.shares(now)
        self._width = shares.shape[1]
        self._shares = dict(zip(now.names, shares, strict=True))
        for name in self._had:
            self._had[name] = np.full(self._width, start)
            self._deficits[name] = np.broadcast_to(self._deficits[name], self._width).copy()
        self._total = np.sum(list(self._had.values()), axis=0)
        self._reset_at = now.time
        self._changed = False

    def _ranked(self, now: RigidRound) -> list[tuple[int, list[int]]]:
        """Jobs, with the types to try, by priority."""
        none = np.zeros(self._width)
        share = np.array([self._shares.get(name, none) for name in now.names])
        deficit = np.array([self._deficits[name] for name in now.names])
        had = np.array([self._had[name] for name in now.names])
        fraction = np.divide(had, self._total, out=np.zeros_like(had), where=self._total > 0)
        priority = np.divide(share, fraction, out=share * _NEVER_RAN, where=fraction > 0)
        priority[share <= _NO_SHARE] = 0.0
        typed = self._width > 1
        speed = now.relative_speed if typed else np.ones_like(share)
        pairs = np.argwhere(speed > 0)
        at = tuple(pairs.T)
        order = np.lexsort((-speed[at], -share[at], -deficit[at], -priority[at]))
        ranked = pairs[order].tolist()
        return [(job, [type] if typed else now.preferences(job)) for job, type in ranked]
