"""Requests of users and runs: each request is checked, then written to the record or refused.

Users submit and cancel jobs and drain nodes; runs report their progress.  A refused request changes nothing.

The role of the author of a request decides what the author may do.  An admin may do everything, a user may
submit jobs and change the jobs of the same author, and the role ``read`` may only read.
"""

from __future__ import annotations

import math
import secrets
from collections.abc import Collection
from pathlib import Path

from copter.errors import CopterError, choices
from copter.live.backends.base import Backend
from copter.live.events import Closed, Drained, Reported, Submitted
from copter.live.files import ClusterFile, JobFile
from copter.live.jobs import ActiveRun, LiveJob
from copter.live.record import ServiceRecord
from copter.live.rounds import LiveRounds
from copter.live.tokens import ADMIN, Author, Role
from copter.live.training.plan import Orders, TrainingReport
from copter.problems.cluster.cluster import Cluster
from copter.problems.cluster.rounds import can_run

_REPORTS_PER_SECOND, _MOST_AT_ONCE = 40.0, 200.0
"""Mean rate at which the reports of a run are accepted, and how many are accepted at once.

A report counts once, and once more for every four times of steps in it."""


class RefusedError(CopterError, ValueError):
    """The service refused a request.

    Attributes
    ----------
    status : int
        HTTP status code of the response.
    """

    def __init__(self, status: int, why: str) -> None:
        self.status = status
        super().__init__(why)


class Admission:
    """Checks of the requests of users and runs.

    Parameters
    ----------
    profiled : collection of str
        Applications that have a profile; only their jobs can be paced.
    """

    def __init__(
        self,
        record: ServiceRecord,
        rounds: LiveRounds,
        file: ClusterFile,
        backend: Backend,
        profiled: Collection[str],
    ) -> None:
        self._record, self._rounds, self._file, self._backend = record, rounds, file, backend
        self._profiled = profiled

    def submit(self, file: JobFile, author: Author = ADMIN) -> str:
        """Accept a job and return its name; the job is in the journal when this returns.

        Raises
        ------
        RefusedError
            The name is taken, there are too many jobs, the cluster cannot run the job, or the author may not
            submit jobs.
        """
        _check_role(author, "submit jobs", "admin", "user")
        record, name = self._record, file.name or _new_name(file)
        state = record.state
        if record.journal.knows(name):
            raise RefusedError(409, f"name = {name!r}: must be new; there is or was a job of this name")
        if len(state.jobs) + len(record.pending()) >= self._file.max_jobs:
            raise RefusedError(
                503, f"the service has {self._file.max_jobs} jobs, its limit (max_jobs): submit the job later"
            )
        self._check_fields(file)
        policy, whole = self._rounds.policy, self._file.cluster()
        job = LiveJob(file, name, state.timer, whole, policy.kind)
        if not can_run(policy, job, whole):
            raise RefusedError(
                422, "no configuration of this cluster can run the job: see gpus, min_gpus and types"
            )
        if job.submission.reserved and not self._has_room(job, whole):
            raise RefusedError(
                422, "reserved: the whole cluster has no room for this job and the other reserved jobs"
            )
        record.write(
            Submitted(time=record.now(), job=name, file=file.model_dump(mode="json"), author=author.name)
        )
        return name

    def cancel(self, name: str, author: Author = ADMIN) -> None:
        """End a job; the service stops its run at the next tick, and kills it after the grace period.

        Raises
        ------
        RefusedError
            If there is no such job, the job has ended, or the author may not change it.
        """
        _check_role(author, "cancel jobs", "admin", "user")
        record, owner = self._record, self._owner(name)
        if author.role != "admin" and author.name != owner:
            raise RefusedError(403, f"job {name!r} belongs to {owner!r}: {author.name!r} may not cancel it")
        reason = f"cancelled by {author.name}"
        record.write(
            Closed(time=record.now(), job=name, ending="cancelled", reason=reason, author=author.name)
        )

    def _owner(self, name: str) -> str:
        """Return the owner of a job; raise RefusedError if there is no such job, or it has ended."""
        record = self._record
        if not record.journal.knows(name):
            raise RefusedError(404, f"there is no job {name!r}")
        if record.is_over(name):
            raise RefusedError(409, f"job {name!r} has ended")
        job = record.state.jobs.get(name)
        if job is not None:
            return job.owner
        return next(event.author for event in record.pending() if event.job == name)

    def drain(self, type: str, node: int, author: Author = ADMIN, *, back: bool = False) -> None:
        """Take a node out of use or, with `back`, put it back into use.

        Raises
        ------
        RefusedError
            If there is no such node, or the author may not drain nodes.
        """
        _check_role(author, "drain nodes", "admin")
        record = self._record
        if (type, node) not in {(one, number) for one, number, _ in record.state.nodes()}:
            raise RefusedError(404, f"there is no node {node} of type {type!r}")
        record.write(Drained(time=record.now(), type=type, node=node, back=back, author=author.name))

    def report(self, name: str, number: int, report: TrainingReport) -> Orders:
        """Write the report of a run, and return the orders for the run.

        Raises
        ------
        RefusedError
            If the run is not the present run of its job, which must end then; or if it reports too often.
        """
        record = self._record
        job = record.state.jobs.get(name)
        if job is None or job.run is None or job.run.number != number:
            raise RefusedError(410, f"run {number} of job {name!r} has ended")
        now = record.now()
        _count(job.run, report, now)
        record.write(Reported(time=now, job=name, number=number, report=report.as_dict()), durable=False)
        held = job.run.configuration
        record.past.hear(now, job, report, predicted=float(job.seen.curve(held)[0]))
        record.metrics.reported()
        batch = None
        if not record.deciding:  # a policy's thread may be fitting the same job
            chosen = job.batch(job.run.place)
            if chosen is not None and chosen != job.run.batch:
                batch = job.run.batch = chosen
        stop = not math.isnan(job.run.told)
        return Orders(self._file.lease_seconds, stop, batch)

    def _check_fields(self, file: JobFile) -> None:
        """Raise RefusedError if the file of a job names an unknown type, option or application."""
        types = self._record.state.cluster.names
        unknown = [type for type in file.types if type not in types]
        if unknown:
            raise RefusedError(422, f"types = {unknown[0]!r}: must be one of {list(types)}")
        known = self._backend.job_options
        for option in file.options:
            if option not in known:
                why = f"has no {option!r}: {choices(option, known)}" if known else "takes no options"
                raise RefusedError(422, f"options: backend {self._backend.name!r} {why}")
        if self._file.pace is not None and file.elastic and file.application not in self._profiled:
            profiled = ", ".join(self._profiled)
            raise RefusedError(
                422,
                f"application = {file.application!r}: paced slots need a profile; there are: {profiled}",
            )

    def _has_room(self, job: LiveJob, whole: Cluster) -> bool:
        """Return whether a reserved job fits next to all other reserved jobs, placing the largest first."""
        reserved = [one for one in self._record.state.jobs.values() if one.submission.reserved]
        free = whole.capacity
        needs = [
            (one.gpus or one.submission.min_gpus or 1, one.file.types or whole.names)
            for one in (*reserved, job)
        ]
        for gpus, types in sorted(needs, key=lambda need: (-need[0], len(need[1]))):
            fits = [type for type in types if free.get(type, 0) >= gpus]
            if not fits:
                return False
            free[max(fits, key=lambda type: free[type])] -= gpus
        return True


def _count(run: ActiveRun, report: TrainingReport, now: float) -> None:
    """Count a report of a run; raise RefusedError if the run reports too often.

    Without a limit a run could fill the disk of the journal.
    """
    before = max(run.counted - (now - run.counted_at) * _REPORTS_PER_SECOND, 0.0)
    counted = before + 1 + len(report.times) // 4
    if counted > _MOST_AT_ONCE:
        raise RefusedError(429, f"a run may send {_REPORTS_PER_SECOND:g} reports a second on average")
    run.counted, run.counted_at = counted, now


def _check_role(author: Author, what: str, *roles: Role) -> None:
    """Raise RefusedError unless the author has one of some roles."""
    if author.role not in roles:
        raise RefusedError(403, f"the token {author.name!r} has the role {author.role!r}: it may not {what}")


def _new_name(file: JobFile) -> str:
    stem = "".join(c for c in Path(file.command[0]).stem if c.isalnum() or c in "-_")
    return f"{stem[:40].lstrip('-_') or 'job'}-{secrets.token_hex(4)}"
