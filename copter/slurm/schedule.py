"""The loop of `copter schedule`: read Slurm, ask the policy when a round begins, and act.

Only one scheduler of a partition acts at a time.  A second scheduler waits for the lock, and takes over when
the first scheduler ends.
"""

from __future__ import annotations

import asyncio
import fcntl
import logging
import math
import os
import time
from collections.abc import Callable
from pathlib import Path

from copter.errors import FileError
from copter.live.policy_thread import PolicyFailedError, call_policy, described
from copter.slurm.act import actions
from copter.slurm.commands import SlurmError
from copter.slurm.decide import SHOWN, Decider, Standing, standing
from copter.slurm.read import Mark, Snapshot, read

_log = logging.getLogger("copter.slurm")

_DECISION_SECONDS = 60.0
_LOCK_SECONDS = 0.5


class Scheduler:
    """A scheduler of a partition.

    Parameters
    ----------
    partition : str
        Name of the partition.
    decider : Decider
        The policy.
    every : float
        Seconds between two passes, each of which reads Slurm and acts.
    soon : float
        Least number of seconds between the starts of two rounds if the second one is started by a job that
        arrives or ends, or by a node that changes.
    say : callable
        Called with a sentence about each action and each problem.
    clock : callable
        Returns a time in seconds that never decreases.
    """

    def __init__(
        self,
        partition: str,
        decider: Decider,
        *,
        every: float,
        soon: float,
        say: Callable[[str], None],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._partition, self._decider, self._say, self._clock = partition, decider, say, clock
        self._every, self._soon = every, soon
        self._asked, self._wakes = -math.inf, math.inf
        self._known: object = None
        self._released: dict[str, float] = {}
        self._trouble = ""

    async def run(self) -> None:
        """Schedule until cancelled; raise SlurmError if the first reading of Slurm fails."""
        began = False
        while True:
            begin = time.monotonic()
            try:
                await self.step()
            except (SlurmError, PolicyFailedError) as error:
                if isinstance(error, SlurmError) and not began:
                    raise
                self._report(str(error))
            else:
                self._report("")
            began = True
            await asyncio.sleep(max(self._every - (time.monotonic() - begin), 0.0))

    async def step(self, *, dry: bool = False) -> None:
        """Read Slurm, ask the policy if a round begins, and act; if `dry`, only report the actions.

        Raises
        ------
        SlurmError
            If Slurm does not answer.
        PolicyFailedError
            If the policy fails; all jobs keep their GPUs.
        """
        seen = read(self._partition)
        if self._is_due(seen):
            await self._ask(seen)
        if self._decider.world is None:
            return
        for action in actions(seen, self._decider.world, self._waiting(seen)):
            try:
                if not dry:
                    action.run()
            except SlurmError as error:  # the job has changed since it was read; the next pass sees it
                self._say(f"job {action.job.key}: {error}")
            else:
                self._say(f"job {action.job.key} {action.text}")

    def _is_due(self, seen: Snapshot) -> bool:
        """Return whether a round is to begin."""
        known = (
            frozenset((job.key, standing(job, seen.time) in SHOWN, job.comment) for job in seen.jobs),
            seen.nodes,
            frozenset(seen.others.items()),
        )
        changed, since = known != self._known, self._clock() - self._asked
        step = self._decider.round_seconds
        due = (changed and since >= self._soon) or since >= (math.inf if step is None else step)
        if due or self._clock() >= self._wakes:
            self._known = known
            return True
        return False

    async def _ask(self, seen: Snapshot) -> None:
        """Ask the policy, and make its decision the target."""
        self._asked, self._wakes = self._clock(), math.inf
        try:
            call = self._decider.look(seen)
            decision = await call_policy(call, _DECISION_SECONDS)
            self._decider.use(decision)
        except PolicyFailedError:
            self._forget()
            raise
        except Exception as error:  # for example, the decision has a place that does not exist
            _log.exception("the decision of the policy cannot be used")
            self._forget()
            raise PolicyFailedError(described(error)) from error
        wakes = min(decision.now.wakes, default=math.inf)
        self._wakes = self._asked + max(wakes - decision.now.time, 0.0)

    def _forget(self) -> None:
        """Make a new policy, and have it asked soon."""
        self._decider.forget()
        self._known = None

    def _waiting(self, seen: Snapshot) -> dict[str, float]:
        """Return, for each released job that Slurm has not started, the seconds for which it has waited."""
        now = self._clock()
        waiting = {
            job.key
            for job in seen.jobs
            if job.mark is not Mark.NONE and standing(job, seen.time) is Standing.STARTING
        }
        self._released = {key: self._released.get(key, now) for key in waiting}
        return {key: now - since for key, since in self._released.items()}

    def _report(self, trouble: str) -> None:
        """Report a problem once when it begins, and once when it ends."""
        if trouble != self._trouble:
            self._say(trouble or "the trouble is over")
        self._trouble = trouble


def lock_path(partition: str) -> Path:
    """Return the default lock file of a partition: a file for each machine and user."""
    folder = Path("/run") if os.geteuid() == 0 else Path(os.environ.get("XDG_RUNTIME_DIR", "/tmp"))
    return folder / f"copter-schedule-{partition}.lock"


async def locked(path: Path, say: Callable[[str], None]) -> int:
    """Wait for the lock of a partition; return its file descriptor, whose closing releases the lock.

    Raises FileError if the lock file cannot be opened.
    """
    try:
        handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    except OSError as error:
        raise FileError(
            path, f"cannot be locked: {error.strerror}; choose another file with --lock"
        ) from None
    told = False
    while True:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return handle
        except BlockingIOError:
            if not told:
                say(f"another scheduler has {path}; this one takes over when it ends")
            told = True
            await asyncio.sleep(_LOCK_SECONDS)
