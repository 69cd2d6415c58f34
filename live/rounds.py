"""Rounds of a service: the calls of the policy, and the records of its decisions.

A policy with rounds is asked at the end of each round.  If the service was started with `soon_seconds`, the
policy is also asked earlier, after an event.  A policy without rounds is asked after an event, or at the time
that it requested.  The policy decides in its own thread while jobs run and report
(:meth:`.record.ServiceRecord.deferring`).
"""

from __future__ import annotations

import asyncio
import logging
import math
import time
from collections.abc import Awaitable, Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any

from copter.live.cluster import LiveCluster, ReportedSpeeds
from copter.live.events import Decided, Opened
from copter.live.files import ClusterFile
from copter.live.jobs import LiveJob
from copter.live.record import ServiceRecord
from copter.problems.cluster.placement import placer_for
from copter.problems.cluster.policy import Explains, Policy
from copter.problems.cluster.registry import make_policy
from copter.problems.cluster.rounds import ClusterRounds

_log = logging.getLogger("copter.live")

_SHORTEST_GAP = 0.2
"""Minimum seconds between two rounds of a policy without rounds."""
_AGAIN_SECONDS = 5.0
"""Seconds until a policy without rounds is asked again after it raised an error."""


class LiveRounds:
    """The rounds of a policy on a live cluster.

    `scales` is true if the backend adds and removes nodes, so that the policy can request nodes.  `trouble`
    is the error of the policy's last call; empty without an error.
    """

    def __init__(
        self,
        record: ServiceRecord,
        file: ClusterFile,
        *,
        scales: bool,
        policy: str,
        settings: Mapping[str, Any],
        round_seconds: float | None,
        soon_seconds: float | None,
    ) -> None:
        self._record, self._file, self._scales = record, file, scales
        self._name, self._settings, self._given_seconds = policy, dict(settings), round_seconds
        self._soon = soon_seconds
        self._thread = ThreadPoolExecutor(1, "policy")
        self.trouble = ""
        self._open()

    @property
    def policy(self) -> Policy:
        """The present policy; it is replaced after it raised an error."""
        return self._rounds.policy

    @property
    def round_seconds(self) -> float | None:
        """Length of a round; None for a policy without rounds."""
        return self._rounds.round_seconds

    async def run(self, looked: Callable[[], Awaitable[None]]) -> None:
        """Ask the policy until cancelled; `looked` waits until a tick has carried out the decision."""
        record, step = self._record, self.round_seconds
        while True:
            begin = record.now()
            if record.state.jobs:
                wakes = await self.ask()
                await looked()  # a policy that takes longer than a round is not asked before that
            else:
                wakes = math.inf
            if step is not None:
                await self._until(begin, begin + step)
            else:
                self._wake_at(wakes)
                await record.changed.wait()
                await asyncio.sleep(_SHORTEST_GAP)
                record.changed.clear()

    async def ask(self) -> float:
        """Ask the policy and write its decision; return when the policy wants to be asked again."""
        record, state, began = self._record, self._record.state, time.perf_counter()
        state.timer.time = asked = record.now()
        now = self._rounds.look()
        seen = record.journal.last
        decision, error = None, ""
        with record.deferring():
            try:
                loop = asyncio.get_running_loop()
                decision = await loop.run_in_executor(self._thread, self._rounds.decide, now)
            except Exception as raised:  # an error of the policy: all jobs keep their places
                _log.exception("round %d", now.index)
                error = f"{type(raised).__name__}: {raised}"
        self.trouble = error
        decided = Decided(
            time=record.now(),
            seen=seen,
            asked=asked,
            places={},
            contention=state.timer.contention,
            weight=state.timer.weight,
            error=error,
        )
        if decision is None:
            record.write(decided)
            record.note(f"round {now.index}: {error}; a new policy replaces the one that failed")
            self._open()  # the state of the former policy is lost
            return record.now() + _AGAIN_SECONDS
        self._rounds.carry_out(decision)
        places, state.changes = state.changes, {}
        decided = replace(
            decided,
            time=record.now(),
            places=places,
            figures={key: float(value) for key, value in decision.figures.items() if math.isfinite(value)},
            policy_seconds=decision.policy_seconds,
            seconds=time.perf_counter() - began,
            sizes=self._allowed(now.sizes),
        )
        record.write(decided)
        record.metrics.decided(decided)
        step = self.round_seconds
        if step is not None and decided.seconds > step:
            record.note(f"round {now.index}: the decision came {decided.seconds - step:.2f} s late")
        return min(now.wakes, default=math.inf)

    async def explain(self, job: str) -> list[str]:
        """Return the policy's sentences about a job in its last round; empty while it decides.

        Raises what the policy raises.
        """
        policy = self.policy
        if self._record.deciding or not isinstance(policy, Explains):
            return []
        loop = asyncio.get_running_loop()
        return list(await loop.run_in_executor(self._thread, policy.why, job))

    def close(self) -> None:
        """Wait for the policy to return, and end its thread."""
        self._thread.shutdown()

    def _open(self) -> None:
        """Create a new policy, and write that to the journal."""
        made = make_policy(self._name, **self._settings)
        self._rounds = make_rounds(made, self._record.state, self._given_seconds)
        self._record.write(
            Opened(
                time=self._record.now(),
                policy=self._name,
                settings=self._settings,
                kind=made.kind,
                round_seconds=self._given_seconds,
                cluster=self._file.model_dump(mode="json"),
            )
        )

    def _allowed(self, sizes: Mapping[str, int]) -> dict[str, int]:
        """Limit the numbers of nodes that a policy requests."""
        if not self._scales:
            return {}
        limits = {one.type: one.max_nodes or one.nodes for one in self._file.gpus}
        return {type: min(nodes, limits[type]) for type, nodes in sizes.items()}

    def _wake_at(self, time: float) -> None:
        if math.isfinite(time):
            delay = max(time - self._record.now(), 0.0)
            asyncio.get_running_loop().call_later(delay, self._record.changed.set)

    async def _until(self, begin: float, end: float) -> None:
        """Wait until a round ends: at its deadline or, if `soon_seconds` is set, after an event."""
        record = self._record
        while (now := record.now()) < end:
            if self._soon is None:
                await asyncio.sleep(end - now)
                continue
            try:
                await asyncio.wait_for(record.changed.wait(), end - now)
            except TimeoutError:
                continue
            if record.now() >= begin + self._soon:
                record.changed.clear()
                return
            await asyncio.sleep(begin + self._soon - record.now())


def make_rounds(policy: Policy, state: LiveCluster, round_seconds: float | None) -> ClusterRounds[LiveJob]:
    """Make the rounds of a policy on a live or a recorded cluster; default length: the policy's own."""
    return ClusterRounds(
        policy, state, round_seconds=round_seconds, placer=placer_for(policy), estimator=ReportedSpeeds()
    )
