"""Gavel's mechanism: turns shares of time into rounds.

A policy gives each job the share of time for which it should run.  In every round jobs are taken by the
ratio of that share to the share that they have had since the last reset, the highest first, as long as they
fit; ties go to the larger deficit, the time that a job was owed at resets.  Shares are computed anew when
jobs came or went, but not more often than every ``reset_seconds``; a job that came since then has no share
and runs only on GPUs that nobody else takes.

Source: Gavel's scheduling mechanism (Narayanan et al., OSDI 2020, section 5), which Shockwave's authors
keep for all baselines; constants are those of their public code.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from copter.problems.shockwave.interface import RoundState, pack

RESET_SECONDS = 1000.0
"""Least time between two computations of shares."""
_NEVER_RAN = 1e9
_NO_SHARE = 1e-9


class Shares(Protocol):
    """Computes the share of time of each job."""

    name: str

    def shares(self, now: RoundState) -> Mapping[str, float]:
        """Share of time in [0, 1] by name."""


class Mechanism:
    """Policy that runs the shares of another.

    Parameters
    ----------
    source : Shares
    reset_seconds : float
    """

    def __init__(self, source: Shares, *, reset_seconds: float = RESET_SECONDS) -> None:
        self.source, self.reset_seconds = source, reset_seconds
        self.name = source.name
        self._shares: Mapping[str, float] = {}
        self._known: frozenset[str] = frozenset()
        self._changed = True
        self._reset_at: float | None = None
        self._had: dict[str, float] = {}
        self._deficits: dict[str, float] = {}
        self._total = 0.0
        self._last: dict[str, float] = {}

    def schedule(self, now: RoundState) -> list[str]:
        """Jobs of a round.

        Parameters
        ----------
        now : RoundState

        Returns
        -------
        list of str
            Names of those that run.
        """
        self._account(now)
        names = frozenset(state.name for state in now.jobs)
        self._changed |= names != self._known
        self._known = names
        for name in names - self._had.keys():
            self._had[name], self._deficits[name] = now.seconds / 2.0, 0.0
        due = self._reset_at is None or now.time - self._reset_at >= self.reset_seconds
        if self._changed and due:
            self._reset(now)
        ranked = sorted(
            now.jobs,
            key=lambda state: (
                self._priority(state.name),
                self._deficits[state.name],
                self._share(state.name),
            ),
            reverse=True,
        )
        running = pack(ranked, now.gpus)
        self._last = {state.name: state.run_seconds for state in now.jobs if state.name in set(running)}
        return running

    def _share(self, name: str) -> float:
        return self._shares.get(name, 0.0)

    def _account(self, now: RoundState) -> None:
        """Write down what the jobs of the last round have had."""
        ran = {state.name: state.run_seconds for state in now.jobs}
        for name, before in self._last.items():
            if name in ran:
                self._had[name] += ran[name] - before
                self._total += ran[name] - before
            else:
                # It completed within the round, on average in the middle.
                self._total += now.seconds / 2.0
        for name in self._had.keys() - ran.keys():
            del self._had[name], self._deficits[name]

    def _reset(self, now: RoundState) -> None:
        elapsed = now.time - (self._reset_at or 0.0)
        for name in self._had:
            self._deficits[name] += self._share(name) * elapsed - (self._had[name] - now.seconds / 2.0)
            self._had[name] = now.seconds / 2.0
        self._total = sum(self._had.values())
        self._reset_at = now.time
        self._changed = False
        self._shares = self.source.shares(now)

    def _priority(self, name: str) -> float:
        share = self._share(name)
        if share <= _NO_SHARE:
            return 0.0
        fraction = self._had[name] / self._total if self._total > 0 else 0.0
        return share / fraction if fraction > 0 else share * _NEVER_RAN
