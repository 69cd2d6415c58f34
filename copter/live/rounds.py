"""Rounds of a service: the calls of the policy, and the records of its decisions.

A policy with rounds is asked at the end of each round.  If the service was started with `soon_seconds`, the
policy is also asked earlier, after an event.  A policy without rounds is asked after an event, or at the time
that it requested.  The policy decides in its own thread, with copies of the jobs as they were when it was
asked.  During the decision, jobs run, report, arrive and end.

A decision has a deadline.  If the policy raises an exception or misses the deadline, all jobs keep their
places and a new policy replaces the present one.  The policy is also replaced if the journal cannot be
written, because the policy has then made a decision that does not count.
"""

from __future__ import annotations

import asyncio
import logging
import math
import sqlite3
import threading
import time
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from dataclasses import replace
from types import MappingProxyType
from typing import Any, TypeVar

from copter.live.cluster import EligibleJobs, LiveCluster, ReportedSpeeds
from copter.live.events import Decided, Opened
from copter.live.files import ClusterFile
from copter.live.jobs import LiveJob
from copter.live.policy_thread import (
    NO_DECISION,
    THREAD,
    PolicyFailedError,
    PolicySilentError,
    call_policy,
    described,
)
from copter.live.record import ServiceRecord
from copter.live.untrusted import MOST_SENTENCE, words
from copter.problems.cluster.placement import placer_for
from copter.problems.cluster.policy import ClusterState, Explains, Policy, WarmsUp
from copter.problems.cluster.registry import make_policy
from copter.problems.cluster.rounds import ClusterRounds, Decision

_log = logging.getLogger("copter.live")

_SHORTEST_GAP = 0.2
"""Minimum seconds between two rounds of a policy without rounds."""
_AGAIN_SECONDS = 5.0
"""Seconds until a policy without rounds is asked again after it failed."""
_LEAST_DECISION_SECONDS, _DECISION_ROUNDS = 60.0, 10.0
"""Default deadline of a decision: this many seconds or this many rounds, whichever is longer."""
_CLOSE_SECONDS = 1.0
"""Longest time in seconds for which the end of the service waits for the policy."""
_T = TypeVar("_T")


class LiveRounds:
    """The rounds of a policy on a live cluster.

    `deciding` is true while the policy makes a decision.  `trouble` is the reason why the last call of the
    policy made no decision; empty if it made a decision.  `unplaced` has the jobs to which the policy gave
    GPUs in its last decision, but for which no nodes were found; empty after a restart.
    `policy_name` and `settings` are those with which the policy was chosen.  `next_round` is the time at
    which the next round begins, unless an event starts a round earlier; minus infinity for a policy without
    rounds.
    """

    def __init__(
        self,
        record: ServiceRecord,
        file: ClusterFile,
        *,
        policy: str,
        settings: Mapping[str, Any],
        round_seconds: float | None,
        soon_seconds: float | None,
    ) -> None:
        self._record = record
        self.policy_name, self.settings, self._given_seconds = policy, dict(settings), round_seconds
        self._soon = soon_seconds
        self._turn = asyncio.Lock()  # held during a call of the policy
        self.deciding, self.trouble = False, ""
        self.unplaced: frozenset[str] = frozenset()
        self.next_round = -math.inf
        self._copies: dict[str, LiveJob] = {}  # jobs as the policy has seen them
        self._lost = False  # True if the policy must be replaced before the next round
        self._open(self._make(), file)

    @property
    def policy(self) -> Policy:
        """The present policy; after a failure, a new policy replaces it."""
        return self._rounds.policy

    @property
    def round_seconds(self) -> float | None:
        """Length of a round; None for a policy without rounds."""
        return self._rounds.round_seconds

    @property
    def decision_seconds(self) -> float:
        """Seconds after which a decision is abandoned."""
        default = max(_LEAST_DECISION_SECONDS, _DECISION_ROUNDS * (self.round_seconds or 0.0))
        seconds = self._record.state.file.decision_seconds
        return default if seconds is None else seconds

    async def run(self, looked: Callable[[], Awaitable[None]]) -> None:
        """Ask the policy until cancelled; `looked` waits until a tick has carried out the decision."""
        record, step, loop = self._record, self.round_seconds, asyncio.get_running_loop()
        await self._warm_up()
        while True:
            begin, wakes = loop.time(), math.inf
            self.next_round = -math.inf if step is None else record.now() + step
            if record.state.eligible:
                wakes = await self.ask()
                await looked()  # a policy that takes longer than a round is not asked again before that
            if step is None:
                await self._until(loop.time() + wakes - record.now(), loop.time() + _SHORTEST_GAP)
            else:
                await self._until(begin + step, None if self._soon is None else begin + self._soon)

    async def _until(self, end: float, soon: float | None) -> None:
        """Wait until a time of the event loop; with `soon`, end at an event, but not before `soon`."""
        with suppress(TimeoutError):
            async with asyncio.timeout_at(end if math.isfinite(end) else None):
                if soon is None:
                    await asyncio.Event().wait()
                await self._record.changed.wait()
                await asyncio.sleep(max((soon or 0.0) - asyncio.get_running_loop().time(), 0.0))
                self._record.changed.clear()

    async def _warm_up(self) -> None:
        """Let the policy import its modules in its thread, while the service already answers requests."""
        policy = self.policy
        if isinstance(policy, WarmsUp):
            try:
                await self._call(policy.warm_up)
            except PolicyFailedError as failed:
                self.trouble, self._lost = str(failed), True
                self._record.note(f"the policy cannot warm up: {failed}; a new policy replaces it")

    async def ask(self) -> float:
        """Ask the policy and write its decision; return the time at which it requests the next call.

        If the journal cannot be written, nothing changes, and a new policy is asked later.
        """
        timer = self._record.state.timer
        sums = timer.contention, timer.weight
        try:
            if not self._lost or await self._replace():
                return await self._round()
        except sqlite3.Error:  # the record has the reason; undo the effects of this round
            timer.contention, timer.weight = sums
            self._lost = True
        return self._record.now() + _AGAIN_SECONDS

    async def _round(self) -> float:
        """Ask the policy and write its decision; return the time at which it requests the next call."""
        record, state, began = self._record, self._record.state, time.perf_counter()
        for job in state.eligible.values():
            if job.learn():  # reports that were read from the journal
                await asyncio.sleep(0)
        asked = record.now()
        now = self._copied(look_at(self._rounds))
        seen = record.journal.last
        self.deciding, error, own = True, "", dict[str, Any]()
        try:
            decision, figures, wakes = await self._answer(now)
            self._rounds.carry_out(decision)
            self.unplaced = frozenset(decision.placed.evicted)
            own = {"figures": figures, "policy_seconds": decision.policy_seconds}
        except PolicyFailedError as failed:  # all jobs keep their places
            error = str(failed)
        except Exception as raised:  # a place in the decision does not exist
            _log.exception("round %d", now.index)
            error = described(raised)
        finally:
            self.deciding = False
        self.trouble, places, state.changes = error, {} if error else state.changes, {}
        decided = Decided(
            time=record.now(),
            seen=seen,
            asked=asked,
            places=places,
            seconds=time.perf_counter() - began,
            contention=state.timer.contention,
            weight=state.timer.weight,
            error=error,
            **own,
        )
        record.write(decided)
        if error:
            record.note(f"round {now.index}: {error}; a new policy replaces the one that failed")
            self._lost = True  # the state of the policy cannot be trusted any more
            await self._replace()
            return record.now() + _AGAIN_SECONDS
        record.metrics.rounds.observe(decided.seconds)
        step = self.round_seconds
        if step is not None and decided.seconds > step:
            record.note(f"round {now.index}: the decision came {decided.seconds - step:.2f} s late")
        return wakes

    async def explain(self, job: str) -> list[str]:
        """Return the policy's sentences about a job in its last round; none while the policy decides.

        Raises PolicyFailedError if the policy fails.
        """
        policy = self.policy
        if self.deciding or self._lost or not isinstance(policy, Explains):
            return []
        return await self._call(lambda: [words(str(one), MOST_SENTENCE) for one in policy.why(job)])

    def close(self) -> None:
        """Wait for calls of the policy, but only for a moment, because they may never return."""
        for thread in threading.enumerate():
            if thread.name == THREAD:
                thread.join(_CLOSE_SECONDS)

    async def _answer(self, now: ClusterState) -> tuple[Decision, dict[str, float], float]:
        """Return the policy's decision, its finite figures, and the time of the next call that it requests.

        Raises PolicyFailedError if the policy failed.
        """
        rounds = self._rounds

        def answer() -> tuple[Decision, dict[str, float], float]:
            decision = rounds.decide(now)
            figures = {words(str(key)): float(value) for key, value in decision.figures.items()}
            finite = {key: value for key, value in figures.items() if math.isfinite(value)}
            return decision, finite, float(min(now.wakes, default=math.inf))

        return await self._call(answer)

    async def _call(self, function: Callable[[], _T]) -> _T:
        """Call the code of the policy after earlier calls have returned.

        If a call does not return in time, the policy is replaced, and calls that wait for this call fail.
        """
        turn = self._turn
        try:
            async with turn:
                if turn is not self._turn:
                    raise PolicyFailedError(f"{NO_DECISION}, because an earlier call did not return")
                return await call_policy(function, self.decision_seconds)
        except PolicySilentError:
            self._turn, self._lost = asyncio.Lock(), True
            raise

    async def _replace(self) -> bool:
        """Replace the policy; return False if that fails."""
        try:
            rounds = await self._call(self._make)
        except PolicyFailedError as failed:
            former, self.trouble = self.trouble, f"a new policy cannot be made: {failed}"
            if self.trouble != former:
                self._record.note(self.trouble)
            return False
        self._open(rounds, self._record.state.file)
        return True

    def _make(self) -> ClusterRounds[LiveJob]:
        """Make a new policy, with its rounds."""
        made = make_policy(self.policy_name, **self.settings)
        return make_rounds(made, self._record.state, self._given_seconds)

    def _open(self, rounds: ClusterRounds[LiveJob], file: ClusterFile) -> None:
        """Write a new policy and the cluster's file to the journal, and use it from now on."""
        self._record.write(
            Opened(
                time=self._record.now(),
                policy=self.policy_name,
                settings=self.settings,
                kind=rounds.policy.kind,
                round_seconds=self._given_seconds,
                cluster=file,
                began=self._record.began,
            )
        )
        self._rounds, self._lost = rounds, False
        self._copies, self._cluster = {}, rounds.world.cluster.copy()

    def _copied(self, now: ClusterState) -> ClusterState:
        """Return the input of the policy with copies of the jobs, which do not change until the next round.

        A job has the same copy in all rounds of a policy.
        """
        timer, former, jobs = replace(self._record.state.timer), self._copies, self._record.state.eligible
        left = tuple(former.pop(job.name, job) for job in now.left)
        self._copies = {name: job.copied(former.get(name), timer) for name, job in jobs.items()}
        if self._cluster != now.cluster:
            self._cluster = now.cluster.copy()
        arrived = tuple(self._copies[job.name] for job in now.arrived)
        return replace(
            now, cluster=self._cluster, jobs=MappingProxyType(self._copies), arrived=arrived, left=left
        )


def make_rounds(policy: Policy, state: LiveCluster, round_seconds: float | None) -> ClusterRounds[LiveJob]:
    """Make the rounds of a policy on a live or a recorded cluster; None for the policy's own length."""
    return ClusterRounds(
        policy,
        EligibleJobs(state),
        round_seconds=round_seconds,
        placer=placer_for(policy),
        estimator=ReportedSpeeds(),
    )


def look_at(rounds: ClusterRounds[LiveJob]) -> ClusterState:
    """Return the input of a policy, in which the policy cannot change the mapping of the jobs.

    The mapping is a copy, because an abandoned policy may read it while jobs arrive and end.
    """
    now = rounds.look()
    return replace(now, jobs=MappingProxyType(dict(now.jobs)))
