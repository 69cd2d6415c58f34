"""The tick of a service: it compares the place of each job with the place of its run, and makes them equal.

The launcher stops a run in the wrong place, kills a run that does not end in time, and launches a job without
a run as soon as the job's GPUs are free.  The comparison needs the state only, so the next tick repairs the
effects of a crash, a lost node or a kill between two steps.

A run is in the journal before it is started, and is never started twice (:mod:`.backends.base`).  A job is
complete when its present run ends with exit code 0; the outcomes of earlier runs have no effect.
"""

from __future__ import annotations

import asyncio
import logging
import math
import shutil
import sqlite3
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any, TypeVar

from copter.live.backends.base import Backend, BackendError, Run, RunState
from copter.live.events import Closed, Ended, Ending, Launched, NodesChanged, Told
from copter.live.files import ClusterFile
from copter.live.folder import JOBS, run_token
from copter.live.jobs import ActiveRun, LiveJob
from copter.live.policy_thread import described
from copter.live.record import ServiceRecord
from copter.live.training.plan import TrainingPlan
from copter.live.untrusted import UntrustedFileError, blamed_on, check_shared

_log = logging.getLogger("copter.live")

CHECKPOINTS, WORK = "checkpoints", "work"
"""Folders of a job: the folder of its checkpoints, and its default working directory."""
INDEX = "COPTER_ARRAY_INDEX"
"""Variable of the jobs of an array with the number of the job."""
_HANGING_SECONDS = 60.0
"""Seconds without an answer or the end of a tick after which the backend counts as hanging."""
_PRUNE_SECONDS = 0.2
"""Seconds in a tick for dropping ended jobs; the remaining ones wait for the next tick."""
_MOST_LOSSES = 20
"""Consecutive runs that may be lost before a job is given up."""
_T = TypeVar("_T")


class Launcher:
    """The runs of a service.

    Runs report to `url` with tokens that are derived from the service's `token`.  `silent` is the error of
    the backend in the last tick; empty if there was none.
    """

    def __init__(
        self,
        record: ServiceRecord,
        folder: Path,
        file: ClusterFile,
        backend: Backend,
        *,
        url: str,
        token: str,
    ) -> None:
        self._record, self._backend = record, backend
        self._jobs, self._url, self._token = folder / JOBS, url, token
        self._opened = record.now()
        self._thread = ThreadPoolExecutor(1, "backend")
        self._ticked, self._answered_at = asyncio.Condition(), time.monotonic()
        self._file = file
        self.silent = ""

    async def tick(self) -> None:
        """Compare places once, and start, stop and kill runs accordingly."""
        try:
            await self._look_at_nodes()
            await self._look_at_runs()
            await self._launch()
            await self._prune()
        except sqlite3.Error:
            pass  # the record has the reason, and the next tick repeats what was not written
        except (BackendError, OSError) as error:
            if self.silent != str(error):
                self._record.note(f"the backend does not answer: {error}")
            self.silent = str(error)
        else:
            if self.silent:
                self._record.note("the backend answers again")
            self.silent = ""
        finally:
            self._answered_at = time.monotonic()
            async with self._ticked:
                self._ticked.notify_all()

    async def whole_tick(self) -> None:
        """Wait until a tick that begins after this call has ended."""
        for _ in range(2):  # the first tick may have begun before
            async with self._ticked:
                await self._ticked.wait()

    @property
    def trouble(self) -> str:
        """Reason why runs are not monitored; empty if they are."""
        if self.silent:
            return f"the backend does not answer: {self.silent}"
        if time.monotonic() - self._answered_at > _HANGING_SECONDS:
            return f"the backend has not answered for {_HANGING_SECONDS:g} s"
        return ""

    def close(self) -> None:
        """Wait for pending calls of the backend, and close it; runs continue."""
        self._thread.shutdown()
        self._backend.close()

    async def _ask(self, call: Callable[..., _T], *arguments: Any) -> _T:
        """Call the backend in its thread."""
        answer = await asyncio.get_running_loop().run_in_executor(self._thread, call, *arguments)
        self._answered_at = time.monotonic()
        return answer

    # ---- nodes -----------------------------------------------------------------------------------

    async def _look_at_nodes(self) -> None:
        """Write an event if the set of failed nodes has changed."""
        reasons, record, state = await self._ask(self._backend.down), self._record, self._record.state
        hosts = {state.host(type, node): (type, node) for type, node, _ in state.file.all_nodes}
        down = tuple(sorted((*hosts[host], why) for host, why in reasons.items() if host in hosts))
        if {one[:2] for one in down} != set(state.failed):
            record.write(NodesChanged(time=record.now(), down=down))

    # ---- present runs ----------------------------------------------------------------------------

    async def _look_at_runs(self) -> None:
        """Write events for runs that have ended, and stop or kill runs where needed."""
        asked = [
            (job, active, self._run_of(job, active))
            for job in self._record.state.running()
            if (active := job.run) is not None
        ]
        if not asked:
            return
        states = await self._ask(self._backend.states, [run for _, _, run in asked])
        for job, active, run in asked:
            state = states[run.id]
            if job.run is not active:  # the run has changed during the call above
                continue
            active.waiting = state.waiting
            if state.waiting:
                active.waited = self._record.now()
            try:
                if state.outcome is not None:
                    self._end(job, active, state)
                    continue
                if job.closed is None and (reason := _used_up(job)):
                    with suppress(sqlite3.Error):  # the run must also end if its end cannot be written
                        # As after a cancellation, the run is stopped, then killed.
                        now = self._record.now()
                        self._record.write(Closed(time=now, job=job.name, ending="failed", reason=reason))
                await self._end_if_wanted(job, active, run)
            except sqlite3.Error:  # the record has the reason; other runs may still need to be killed
                continue
            except UntrustedFileError as error:  # the error concerns the folder of this run only
                active.killed = active.killed or str(error)
                await self._ask(self._backend.kill, run)

    async def _end_if_wanted(self, job: LiveJob, active: ActiveRun, run: Run) -> None:
        """Kill a run if there is a reason, or stop a run whose job is to run elsewhere or has ended."""
        why = self._why_to_kill(job, active)
        if why:
            if not active.killed:
                active.killed = why
                self._record.note(f"run {run.number} is killed: {why}", job.name)
            await self._ask(self._backend.kill, run)
        elif (job.target != active.place or _used_up(job)) and math.isnan(active.stopped):
            if math.isnan(active.told):
                try:
                    self._record.write(Told(time=self._record.now(), job=job.name, number=run.number))
                except sqlite3.Error:
                    if job.closed is None and not _used_up(job):
                        raise
            await self._ask(self._backend.stop, run)
            active.stopped = self._record.now()  # not reached if the call fails; the next tick repeats it

    def _why_to_kill(self, job: LiveJob, run: ActiveRun) -> str:
        """Return the reason for killing a run; empty without a reason."""
        now = self._record.now()
        if now - run.left > self._file.grace_seconds:
            return f"it did not end within {self._file.grace_seconds:g} s of the stop signal"
        # A run cannot report before it has begun, or while no service listens.
        heard = max(run.heard, self._opened, run.waited)
        if job.file.elastic and now - heard > job.file.silence_seconds:
            return f"no report for {job.file.silence_seconds:g} s"
        return ""

    def _end(self, job: LiveJob, run: ActiveRun, state: RunState) -> None:
        """Write that a run ended and, if its job ends with it, in the same transaction the end of the job."""
        assert state.outcome is not None
        outcome, reason = state.outcome, state.reason
        if run.killed and outcome in ("lost", "failed"):
            outcome, reason = "failed", run.killed
        elif math.isnan(run.left) and (state.by_itself or (outcome == "stopped" and reason)):
            outcome = "failed"  # the run was not told to end
        ended = Ended(
            time=self._record.now(),
            job=job.name,
            number=run.number,
            outcome=outcome,
            reason=reason,
            exit_code=state.exit_code,
        )
        ending, why = self._ending(job, ended)
        if ending is None or job.closed is not None:
            self._record.write(ended)
        else:
            self._record.write(ended, Closed(time=ended.time, job=job.name, ending=ending, reason=why))

    def _ending(self, job: LiveJob, ended: Ended) -> tuple[Ending | None, str]:
        """Return how a job ends with its run, and why; None if the job does not end."""
        if ended.outcome == "completed":
            return "completed", ""
        if limit := _used_up(job):
            return "failed", limit
        failures, losses = self._record.state.after(job, ended)
        if failures > job.file.retries:
            return "failed", ended.reason
        if losses > _MOST_LOSSES:
            return "failed", f"{losses} runs in a row made no progress; the last: {ended.reason}"
        return None, ""

    async def _prune(self) -> None:
        """Drop the jobs that ended first, with their folders; after some time, continue in the next tick."""
        end, keep = time.monotonic() + _PRUNE_SECONDS, self._file.keep_jobs
        while time.monotonic() < end and (gone := self._record.oldest(keep)) is not None:
            await self._ask(_remove, self._jobs / gone)
            self._record.drop_oldest()

    # ---- new runs --------------------------------------------------------------------------------

    async def _launch(self) -> None:
        """Launch the jobs whose GPUs are free."""
        record, state = self._record, self._record.state
        if all(job.target is None or job.run is not None for job in state.jobs.values()):
            return
        await self._ask(check_shared, self._jobs)
        now, free, launched = record.now(), state.free(), list[tuple[LiveJob, Launched]]()
        for job in state.jobs.values():
            target = job.target
            if target is None or job.run is not None or now < job.retry_at:
                continue
            type, nodes = target
            if any(len(free.get((type, node), ())) < gpus for node, gpus in nodes):
                continue
            devices = tuple(tuple(free[type, node].pop(0) for _ in range(gpus)) for node, gpus in nodes)
            event = Launched(
                time=now,
                job=job.name,
                number=job.runs + 1,
                place=target,
                hosts=tuple(state.host(type, node) for node, _ in nodes),
                devices=devices,
            )
            launched.append((job, event))
        if not launched:
            return
        record.write(*(event for _, event in launched))
        for job, _ in launched:
            assert job.run is not None
            job.run.waiting = True
            with suppress(sqlite3.Error):  # the record has the reason; the other runs can be started
                await self._start(job, job.run)

    async def _start(self, job: LiveJob, active: ActiveRun) -> None:
        """Start a run that is in the journal."""
        run = self._run_of(job, active)
        try:
            if job.file.elastic:
                active.batch = job.batch(active.place)
                run = replace(run, training=asdict(self._plan(job, active)))
            await self._ask(_begin, self._backend, run)
        except BackendError as error:  # the next tick finds that the run is lost, unless the backend has it
            self._record.note(f"run {active.number} was not started: {error}", job.name)
        except Exception as error:  # an error of this job must not end the service
            _log.exception("job %s", job.name)
            why = str(error) if isinstance(error, UntrustedFileError) else described(error)
            self._end(job, active, RunState("failed", f"cannot be started: {why}"))

    def _run_of(self, job: LiveJob, active: ActiveRun) -> Run:
        """Return a job's present run for the backend."""
        if active.run is None:
            file, home = job.file, self._jobs / job.name
            index = {} if job.index is None else {INDEX: str(job.index)}
            active.run = Run(
                job=job.name,
                number=active.number,
                command=file.command,
                directory=file.directory or str(home / WORK),
                folder=home / "runs" / str(active.number),
                type=active.place[0],
                hosts=active.hosts,
                gpus=tuple(gpus for _, gpus in active.place[1]),
                devices=() if self._backend.picks_devices else self._numbers(active),
                once=not file.elastic,
                environment=file.environment | index,
                log_bytes=self._file.log_bytes,
            )
        return active.run

    def _numbers(self, run: ActiveRun) -> tuple[tuple[int, ...], ...]:
        """Return machine-wide numbers of a run's GPUs, if all nodes of the file are on this machine."""
        type, nodes = run.place
        first = [self._file.first_gpu(type, node) for node, _ in nodes]
        return tuple(
            tuple(begin + gpu for gpu in gpus) for begin, gpus in zip(first, run.devices, strict=True)
        )

    def _plan(self, job: LiveJob, run: ActiveRun) -> TrainingPlan:
        """Return the plan for the processes of an elastic job."""
        file = job.file
        assert file.work is not None and file.batch_size is not None and run.batch is not None
        return TrainingPlan(
            url=f"{self._url}/v1/runs/{job.name}/{run.number}",
            token=run_token(self._token, job.name, run.number),
            folder=str(self._jobs / job.name / CHECKPOINTS),
            number=run.number,
            work=file.work,
            initial_batch=file.batch_size,
            batch=run.batch,
            rule=file.rule,
            checkpoint_seconds=file.checkpoint_seconds,
            report_seconds=min(file.report_seconds, self._file.lease_seconds / 3.0),
            lease_seconds=self._file.lease_seconds,
        )


def _begin(backend: Backend, run: Run) -> None:
    """Write a run's file and start it; the folder of the run must be new."""
    home, jobs = run.folder.parents[1:3]
    try:
        jobs.mkdir(mode=0o700, exist_ok=True)
        with blamed_on(run.folder):
            home.mkdir(mode=0o700, exist_ok=True)
            run.folder.mkdir(parents=True)
        if run.folder.is_relative_to(Path(run.directory).parent):  # the working directory is the job's own
            with blamed_on(Path(run.directory)):
                Path(run.directory).mkdir(parents=True, exist_ok=True)
        run.write()
        backend.start(run)
    except UntrustedFileError:
        raise
    except OSError as error:
        raise BackendError(f"run {run.id}: {error}") from error


def _remove(folder: Path) -> None:
    """Remove a job's folder, except for files that cannot be removed."""
    try:
        shutil.rmtree(folder, ignore_errors=True)
    except RecursionError:
        _log.warning("%s: too deeply nested to be removed", folder)


def _used_up(job: LiveJob) -> str:
    """Return the reason why a job that has used up its time limit fails; empty if it has time left."""
    limit = job.file.time_limit_seconds
    return f"time limit of {limit:.0f} s" if limit is not None and job.used_seconds >= limit else ""
