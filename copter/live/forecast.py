"""Estimates of when queued jobs will start: the policy is played ahead from the present state of the service.

A new policy with the same settings plays in the simulator, in a process of low priority (:mod:`.ahead`), as
if no further jobs arrived.  Running jobs hold what they have.  Queued jobs have their times of submission;
jobs that wait for others arrive when these have completed.  Nodes out of use stay so.

The run time of a job is what the service knows of it:

- A rigid job lasts its declared ``seconds``, by default one hour, or until its time limit.  A job that has
  run for longer is assumed to run as long again.  The policy that is played sees these times.
- A job that trains has the speed that is fitted to its reports.  Before its first reports this is a guess.
  Its time limit is not considered.

Also left out are the memory of the policy, further rounds after events (`soon_seconds`), the time until the
GPUs of a stopped run are free, and jobs that were submitted while the policy decides.
"""

from __future__ import annotations

import asyncio
import json
import logging
import math
import os
import pickle
import signal
import sys
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

from copter.errors import CopterError
from copter.live.ahead import Question, Rigid
from copter.live.cluster import EligibleJobs
from copter.live.jobs import LiveJob
from copter.live.policy_thread import described
from copter.live.record import ServiceRecord
from copter.live.rounds import LiveRounds
from copter.problems.cluster.policy import Placement
from copter.problems.cluster.profiles.base import Profile
from copter.problems.cluster.profiles.tables import CountProfile
from copter.problems.cluster.simulation.ahead import Ending
from copter.problems.cluster.simulation.present import Present, PresentJob
from copter.problems.cluster.workload import JobSubmission

_log = logging.getLogger("copter.live")

PLAY_SECONDS = 10.0
"""Seconds for which a process plays; then its result is what it knows."""
_START_SECONDS = 8.0
"""Seconds that a process may take in addition, to start and to answer; then it is killed."""
_TURN_SECONDS = 8.0
"""Longest wait in seconds of a job that is not submitted for the processes of other forecasts."""
_MOST_WAITING = 4
"""Largest number of jobs that are not submitted and wait for these processes."""
_BUSY = "other estimates take all the time"
_END_SECONDS = 1.0
"""Longest wait in seconds for the end of a process that was killed, or for what an ended one has written."""
_LONGEST_ANSWER = 64 * 1024 * 1024
"""Largest answer of a process, in bytes."""
_KEPT_SECONDS = 30.0
"""Age in seconds at which a forecast is replaced although no event has changed the record."""
_LEAST_LEFT = 1e-3
"""Least seconds that a job which has not ended is assumed to need."""
_NICE = 19
"""Priority of the process: the lowest."""


class ForecastError(CopterError, RuntimeError):
    """No forecast could be made, for the reason in the message."""


@dataclass(frozen=True)
class Forecast:
    """When jobs would start, from a present of the service.

    Attributes
    ----------
    time : float
        Time of the present in seconds since the service first began, as all times here.
    changes : int
        :attr:`.record.ServiceRecord.changes` at that time; -1 if nothing was played.
    jobs : frozenset of str
        Jobs that were played.
    starts : mapping of str to float
        Time at which each of them that had no GPUs first gets some, as far as known.
    until : float
        Time of the last round that was played.
    ending : {"started", "idle", "stopped"}
        Why no further round was played: all jobs have started, the policy starts no further one, or the time
        for playing was over.
    later, fewer : tuple of str or None
        With a job that is not submitted: other jobs that start later because of it, and those that have fewer
        GPUs when it starts; None if unknown.
    error : str
        Reason why no start is known; otherwise empty.
    """

    time: float
    changes: int
    jobs: frozenset[str]
    starts: Mapping[str, float]
    until: float
    ending: Ending
    later: tuple[str, ...] | None = None
    fewer: tuple[str, ...] | None = None
    error: str = ""


class Forecasts:
    """The forecasts of a service: one process at a time, whose result all askers share."""

    def __init__(self, record: ServiceRecord, rounds: LiveRounds) -> None:
        self._record, self._rounds = record, rounds
        self._turn, self._waiting = asyncio.Lock(), 0
        self._kept: Forecast | None = None
        self._task: asyncio.Task[Forecast] | None = None

    async def about(self, job: str, seconds: float) -> Forecast | None:
        """Return a forecast that has a job; an older one, or None without one, if it takes too long.

        The present forecast is the result as long as it is valid, also if it does not have the job.

        Parameters
        ----------
        job : str
            Name of a job that has not ended.
        seconds : float
            Longest wait.  The forecast is made all the same, for later calls.
        """
        loop = asyncio.get_running_loop()
        deadline = loop.time() + seconds
        while (kept := self._kept) is None or not self._is_valid(kept):
            if self._task is None or self._task.done():
                self._task = loop.create_task(self._renew())
            task = self._task
            done, _ = await asyncio.wait({task}, timeout=max(deadline - loop.time(), 0.0))
            if not done:
                return kept if kept is not None and job in kept.jobs else None
            kept = task.result()
            if job in kept.jobs or kept.error:
                return kept  # it is as recent as can be, also if a further event has changed the record
        return kept

    async def with_new(self, job: LiveJob) -> Forecast:
        """Return a forecast with a job that is not submitted; it is not kept.

        If other forecasts take too long, or too many such jobs wait for them, nothing is played.
        """
        if self._waiting >= _MOST_WAITING:
            return self._unplayed(_BUSY)
        self._waiting += 1
        try:
            await asyncio.wait_for(self._turn.acquire(), _TURN_SECONDS)
        except TimeoutError:
            return self._unplayed(_BUSY)
        finally:
            self._waiting -= 1
        try:
            if self._record.state.find(job.name) is not None:
                return self._unplayed("a job of this name was submitted in the meantime")
            return await self._make(job)
        finally:
            self._turn.release()

    def _is_valid(self, forecast: Forecast) -> bool:
        recent = self._record.now() - forecast.time < _KEPT_SECONDS
        return recent and forecast.changes == self._record.changes

    async def _renew(self) -> Forecast:
        async with self._turn:
            self._kept = await self._make(None)
        return self._kept

    def _unplayed(self, error: str) -> Forecast:
        """Return a forecast that knows nothing but the reason for that."""
        return Forecast(
            time=self._record.now(),
            changes=-1,
            jobs=frozenset(),
            starts={},
            until=math.nan,
            ending="stopped",
            error=error,
        )

    async def _make(self, new: LiveJob | None) -> Forecast:
        """Return a forecast of the present, or the reason why there is none; the caller has the turn."""
        record = self._record
        try:
            question = question_of(record, self._rounds, new)
        except Exception as error:  # it must not hide what the service knows
            _log.exception("the present of the service cannot be played ahead")
            return self._unplayed(described(error))
        present = question.present
        blank = replace(
            self._unplayed(""),
            time=present.time,
            changes=record.changes,
            jobs=frozenset((*present.jobs, *present.after)),
        )
        try:
            said = await self._ask(await asyncio.to_thread(pickle.dumps, question))
        except ForecastError as error:
            return replace(blank, error=str(error))
        except Exception as error:  # it must not hide what the service knows
            _log.exception("the start of jobs cannot be estimated")
            return replace(blank, error=described(error))
        return replace(
            blank,
            starts=said["starts"],
            until=math.nan if said["until"] is None else said["until"],
            ending=said["ending"],
            later=None if said["later"] is None else tuple(said["later"]),
            fewer=None if said["fewer"] is None else tuple(said["fewer"]),
            error=said["error"] and f"the policy {self._rounds.policy_name!r} failed: {said['error']}",
        )

    async def _ask(self, question: bytes) -> dict[str, Any]:
        """Return the answer of a process; raise ForecastError if there is none in time.

        The process finds modules where the service finds them, and not in its working directory, in which
        jobs may be able to write.  It leads a session; at the end all processes in it are killed.
        """
        path = [*filter(None, (os.environ.get("PYTHONPATH"),)), *filter(os.path.isabs, sys.path)]
        try:
            process = await asyncio.create_subprocess_exec(
                *(sys.executable, "-P", "-m", "copter.live.ahead"),
                env=os.environ | {"PYTHONPATH": os.pathsep.join(path)},
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.DEVNULL,
                start_new_session=True,
                limit=_LONGEST_ANSWER,
            )
        except OSError as error:
            raise ForecastError(f"the process of the estimate cannot begin: {error}") from None
        try:
            with suppress(ProcessLookupError):
                os.setpriority(os.PRIO_PROCESS, process.pid, _NICE)
            line = await asyncio.wait_for(_answer(process, question), PLAY_SECONDS + _START_SECONDS)
        except TimeoutError:
            raise ForecastError(f"no answer within {PLAY_SECONDS + _START_SECONDS:g} s") from None
        finally:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            with suppress(TimeoutError):
                await asyncio.wait_for(process.wait(), _END_SECONDS)
        if not line.endswith(b"\n"):
            raise ForecastError(f"the process of the estimate ended with status {process.returncode}")
        said: dict[str, Any] = json.loads(line)
        return said


async def _answer(process: asyncio.subprocess.Process, question: bytes) -> bytes:
    """Return the answer of a process; without its last character if the process ended before.

    Processes that the policy has started may keep the pipe open, so the answer ends with a line.
    """
    assert process.stdin is not None and process.stdout is not None
    with suppress(ConnectionError):  # it has ended
        process.stdin.write(question)
        await process.stdin.drain()
        process.stdin.close()
    reading = asyncio.ensure_future(process.stdout.readline())
    ended = asyncio.ensure_future(process.wait())
    try:
        await asyncio.wait({reading, ended}, return_when=asyncio.FIRST_COMPLETED)
        if not reading.done():  # what it has written is in the pipe
            await asyncio.wait({reading}, timeout=_END_SECONDS)
        elif not reading.result():
            await ended
        return reading.result() if reading.done() else b""
    finally:
        reading.cancel()
        ended.cancel()


def question_of(record: ServiceRecord, rounds: LiveRounds, new: LiveJob | None) -> Question:
    """Return the present of a service as a question for :mod:`.ahead`; `new` is a job without GPUs.

    The event loop waits for this, so it makes as few objects as possible.
    """
    state, now = record.state, record.now()
    lag = now - state.timer.time
    submissions: list[JobSubmission] = []
    profiles: dict[str, Profile | Rigid] = {}
    there: dict[str, PresentJob] = {}
    after: dict[str, tuple[str, ...]] = {}
    waiting = [job for job in state.jobs.values() if job.waits_for]
    for job in (*state.eligible.values(), *waiting, *(() if new is None else (new,))):
        others = job.waits_for
        if new is not None and job is new:
            others = {name for name in job.file.after if name in state.jobs}
        submissions.append(job.submission)
        profiles[job.name] = job.seen if job.file.elastic else _rigid(job, now, lag)
        if others:
            after[job.name] = tuple(others)
        else:
            there[job.name] = _state(job, lag)
    return Question(
        policy=rounds.policy_name,
        settings=rounds.settings,
        round_seconds=rounds.round_seconds,
        cluster=state.cluster.copy(),
        jobs=tuple(submissions),
        profiles=profiles,
        present=Present(
            now,
            there,
            asks=max(now, rounds.next_round),
            after=after,
            down=EligibleJobs(state).down,
        ),
        new=None if new is None else new.name,
        seconds=PLAY_SECONDS,
    )


def _rigid(job: LiveJob, now: float, lag: float) -> Rigid:
    """Return how long a rigid job is assumed to run."""
    ran, limit = _run_seconds(job, lag), job.file.time_limit_seconds
    left = job.file.seconds - ran if ran < job.file.seconds else ran
    if limit is not None:
        left = min(left, limit - job.used_seconds(now))
    assert isinstance(job.seen, CountProfile)
    return Rigid(ran + max(left, _LEAST_LEFT), job.least_gpus, tuple(job.seen.curves))


def _state(job: LiveJob, lag: float) -> PresentJob:
    """Return the present state of a job; `lag`: seconds by which the timer of the state is behind."""
    if math.isnan(job.started):
        return PresentJob(since=job.since)
    elastic, ran, held = job.file.elastic, _run_seconds(job, lag), None
    if job.allocation is not None and job.place is not None:
        held = Placement(job.allocation.type, job.place)
    return PresentJob(
        progress=min(job.progress, math.nextafter(job.seen.work, 0.0)) if elastic else ran,
        held=held,
        since=job.since,
        restart_until=job.restart_until if elastic else -math.inf,
        started=job.started,
        restarts=job.restarts,
        run_seconds=ran,
        gpu_seconds=job.gpu_seconds + (0.0 if held is None else lag * held.configuration.gpus),
    )


def _run_seconds(job: LiveJob, lag: float) -> float:
    """Return the running time of a job in seconds; for a rigid job, that of its present run until now."""
    if job.file.elastic:
        return job.run_seconds
    return job.present_seconds + (0.0 if job.run is None else lag)
