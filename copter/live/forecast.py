"""Estimates of when queued jobs will start: the policy is played ahead from the present state of the service.

A new policy with the same settings plays in the simulator, in a process of low priority (:mod:`.ahead`), as
if no further jobs arrived.  Running jobs hold their present GPUs.  Queued jobs have their times of
submission; jobs that wait for other jobs arrive when these have completed.  Nodes out of use stay out of use.

The run time of a job follows from what the service knows:

- A rigid job lasts its declared ``seconds``, by default one hour, or until its time limit.  A job that has
  run for longer is assumed to run as long again.  The policy that is played sees these times.
- A job that trains has the speed that is fitted to its reports.  Before its first reports the speed is a
  guess.  The time limit of such a job is not considered.

The forecast does not consider the memory of the policy, additional rounds after events (`soon_seconds`), the
time until the GPUs of a stopped run are free, and jobs that were submitted while the policy decides.
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
from dataclasses import dataclass, field, replace
from typing import Any

from copter.live.ahead import Question
from copter.live.cluster import EligibleJobs
from copter.live.jobs import LiveJob
from copter.live.policy_thread import described
from copter.live.record import ServiceRecord
from copter.live.rounds import LiveRounds
from copter.problems.cluster.policy import Placement
from copter.problems.cluster.profiles.tables import CountProfile
from copter.problems.cluster.simulation.ahead import Ending
from copter.problems.cluster.simulation.present import Present, PresentJob
from copter.problems.cluster.workload import Scenario

_log = logging.getLogger("copter.live")

PLAY_SECONDS = 10.0
"""Seconds for which a process plays; then it returns the starts that it has found."""
_MORE_SECONDS = 9.0
"""Additional seconds in which a process must begin and end; then it is killed."""
_TURN_SECONDS = 8.0
"""Seconds for which the forecast of a job that is not submitted waits for other forecasts."""
_KEPT_SECONDS = 30.0
"""Age in seconds at which a forecast is replaced although no event has changed the record."""
_LEAST_LEFT = 1e-3
"""Least seconds that a job which has not ended is assumed to need."""


@dataclass(frozen=True)
class Forecast:
    """Estimated starts of jobs from a present state of the service.

    Attributes
    ----------
    time : float
        Time of the present state, in seconds since the service first began, like all times here.
    changes : int
        :attr:`.record.ServiceRecord.changes` at that time; -1 if nothing was played.
    jobs : frozenset of str
        Jobs that were played.
    starts : mapping of str to float
        Time at which each of these jobs that had no GPUs first gets some, if it was found.
    until : float or None
        Time of the last round that was played; None if no round was played.
    ending : {"started", "idle", "stopped"}
        Why no further round was played: all jobs have started, the policy starts no further job, or the time
        for playing was over.
    error : str
        Reason why no start is known; otherwise empty.
    """

    time: float
    changes: int = -1
    jobs: frozenset[str] = frozenset()
    starts: Mapping[str, float] = field(default_factory=dict)
    until: float | None = None
    ending: Ending = "stopped"
    error: str = ""


class Forecasts:
    """The forecasts of a service, by one process at a time, whose result all requests share."""

    def __init__(self, record: ServiceRecord, rounds: LiveRounds) -> None:
        self._record, self._rounds, self._turn = record, rounds, asyncio.Lock()
        self._kept: Forecast | None = None
        self._task: asyncio.Task[None] | None = None

    async def about(self, job: str, seconds: float) -> Forecast | None:
        """Return the last forecast; None if it is outdated and does not have a job.

        If the last forecast is outdated, a new one is made, and the method waits for it up to `seconds`.  A
        valid forecast, or one with an error, is returned even if it does not have the job.

        Parameters
        ----------
        job : str
            Name of a job that has not ended.
        seconds : float
            Longest wait.  A forecast that takes longer is completed for later calls.
        """
        if not self._is_valid():
            if self._task is None or self._task.done():
                self._task = asyncio.create_task(self._renew())
            await asyncio.wait({self._task}, timeout=seconds)
        kept = self._kept
        # If an event came in the meantime, a forecast that has the job is still the most recent one.
        return kept if kept is not None and (job in kept.jobs or kept.error or self._is_valid()) else None

    async def with_new(self, job: LiveJob) -> Forecast:
        """Return a forecast with a job that is not submitted; the forecast is not kept.

        If other forecasts take too long, nothing is played.
        """
        try:
            await asyncio.wait_for(self._turn.acquire(), _TURN_SECONDS)
        except TimeoutError:
            return Forecast(self._record.now(), error="other estimates take all the time")
        try:
            return await self._make(job)
        finally:
            self._turn.release()

    def _is_valid(self) -> bool:
        kept, changes, now = self._kept, self._record.changes, self._record.now()
        return kept is not None and kept.changes == changes and now - kept.time < _KEPT_SECONDS

    async def _renew(self) -> None:
        async with self._turn:
            self._kept = await self._make(None)

    async def _make(self, new: LiveJob | None) -> Forecast:
        """Return a forecast from the present state, or one with an error; the caller must hold the lock."""
        record, blank = self._record, Forecast(self._record.now())
        try:
            question = question_of(record, self._rounds, new)
            jobs = frozenset((*question.present.jobs, *question.present.after))
            blank = replace(blank, time=question.present.time, changes=record.changes, jobs=jobs)
            known = await self._ask(await asyncio.to_thread(pickle.dumps, question))
            return replace(blank, **known)
        except Exception as error:  # a failed forecast must not hide what the service knows
            _log.exception("the start of jobs cannot be estimated")
            return replace(blank, error=described(error))

    async def _ask(self, question: bytes) -> dict[str, Any]:
        """Return the answer of a process: fields of a forecast.

        The process finds modules where the service finds them, and not in its working directory, in which
        jobs may be able to write.  It leads a session; at the end all processes in this session are killed.
        """
        path = [*filter(None, (os.environ.get("PYTHONPATH"),)), *filter(os.path.isabs, sys.path)]
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-P", "-m", "copter.live.ahead"),
            env=os.environ | {"PYTHONPATH": os.pathsep.join(path)},
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.DEVNULL,
            start_new_session=True,
        )
        seconds = PLAY_SECONDS + _MORE_SECONDS
        try:
            said, _ = await asyncio.wait_for(process.communicate(question), seconds)
        except TimeoutError:
            return {"error": f"no answer within {seconds:g} s"}
        finally:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            await process.wait()
        if not said:
            return {"error": f"the process of the estimate ended with status {process.returncode}"}
        return dict(json.loads(said))


def question_of(record: ServiceRecord, rounds: LiveRounds, new: LiveJob | None) -> Question:
    """Return the present state of a service as a question for :mod:`.ahead`; `new` is a job without GPUs."""
    state, now = record.state, record.now()
    jobs = [*state.jobs.values(), *(() if new is None else (new,))]
    profiles = {job.name: job.seen if job.file.elastic else _rigid(job) for job in jobs}
    present = Present(
        now,
        {job.name: _state(job) for job in jobs if job.eligible},
        asks=max(now, rounds.next_round),
        after={job.name: tuple(job.waits_for) for job in jobs if not job.eligible},
        down=EligibleJobs(state).down,
    )
    return Question(
        rounds.policy_name,
        rounds.settings,
        rounds.round_seconds,
        # In a scenario, profiles are by application, so every job is its own application.
        Scenario(state.cluster, [replace(job.submission, application=job.name) for job in jobs], profiles),
        present,
        PLAY_SECONDS,
    )


def _rigid(job: LiveJob) -> CountProfile:
    """Return a profile with the seconds that a rigid job is assumed to run after its start."""
    ran, limit = job.present_seconds, job.file.time_limit_seconds
    left = job.file.seconds - ran if ran < job.file.seconds else ran
    if limit is not None:
        left = min(left, limit - job.used_seconds)
    seconds, gpus = ran + max(left, _LEAST_LEFT), [job.least_gpus]
    return CountProfile("rigid", 0.0, seconds, gpus, {type: [1.0] for type in job.types})


def _state(job: LiveJob) -> PresentJob:
    """Return the present state of a job."""
    elastic = job.file.elastic
    return PresentJob(
        progress=min(job.progress, math.nextafter(job.seen.work, 0.0)) if elastic else job.present_seconds,
        held=None if job.target is None else Placement(*job.target),
        since=job.since,
        restart_until=job.restart_until if elastic else -math.inf,
        started=job.started,
        restarts=job.restarts,
        run_seconds=job.run_seconds,
        gpu_seconds=job.gpu_seconds,
    )
