"""Requests of users and runs: each request is checked, then written to the record or refused.

Users submit and cancel jobs; admins also drain nodes; runs report their progress.  A refused request changes
nothing.

The role of the author of a request decides what the author may do.  An admin may do everything, a user may
submit jobs and change the user's own jobs, and the role ``read`` may only read.
"""

from __future__ import annotations

import fnmatch
import math
import secrets
from collections.abc import Sequence
from pathlib import Path

from copter.errors import CopterError
from copter.live import ENDINGS
from copter.live.events import Closed, Drained, Reported, Submitted
from copter.live.files import LONGEST_NAME, JobFile
from copter.live.jobs import ActiveRun, LiveJob
from copter.live.record import ServiceRecord
from copter.live.rounds import LiveRounds
from copter.live.tokens import ADMIN, Author, Role
from copter.live.training.plan import Orders, TrainingReport
from copter.problems.cluster.rounds import can_run, fits

_REPORTS_PER_SECOND, _MOST_AT_ONCE = 40.0, 200.0
"""Mean rate at which the reports of a run are accepted, and how many are accepted at once.

A report counts once, and once more for every four step times in it."""
_MOST_ARRAY_BYTES = 16 * 1024 * 1024
"""Largest product of an array's size and the bytes of its file, which the journal has for each job."""
_MOST_PATTERNS = 100
"""Largest number of patterns in a request, because each pattern is compared with the names of all jobs."""


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
    """Checks of the requests of users and runs."""

    def __init__(self, record: ServiceRecord, rounds: LiveRounds) -> None:
        self._record, self._rounds = record, rounds

    def submit(self, file: JobFile, author: Author = ADMIN, array: int | None = None) -> list[str]:
        """Accept a job and return its name; it is in the journal then.

        With `array`, accept that many jobs that differ in their number, and return their names NAME-0, NAME-1
        and so on.  All of them are in the journal when this returns, or none.

        Raises
        ------
        RefusedError
            If a name is taken or too long, there are too many jobs, the cluster cannot run the job, the array
            is too large, or the author may not submit jobs.
        """
        stem, bytes_each = file.name or _new_name(file), len(file.model_dump_json())
        names = [stem] if array is None else [f"{stem}-{index}" for index in range(array)]
        if len(names[-1]) > LONGEST_NAME:
            raise RefusedError(
                422, f"name = {stem!r}: {names[-1]!r} must have at most {LONGEST_NAME} characters"
            )
        if len(names) * bytes_each > _MOST_ARRAY_BYTES:
            raise RefusedError(
                422,
                f"array = {array}: {array} jobs of {bytes_each} bytes each must take at most "
                f"{_MOST_ARRAY_BYTES} bytes; shorten the job, for example with a script as its command",
            )
        self._checked(file, names, author)
        now, timer = self._record.now(), self._record.state.timer
        self._record.write(
            *(
                Submitted(
                    time=now,
                    job=name,
                    file=file.model_copy(update={"name": name}),
                    author=author.name,
                    index=None if array is None else index,
                    contention=timer.contention,
                    weight=timer.weight,
                )
                for index, name in enumerate(names)
            )
        )
        return names

    def dry_run(self, file: JobFile, author: Author = ADMIN) -> LiveJob:
        """Return the job that `submit` would accept; raise RefusedError as `submit` does; change nothing."""
        return self._checked(file, [file.name or _new_name(file)], author)

    def _checked(self, file: JobFile, names: Sequence[str], author: Author) -> LiveJob:
        """Return the job of a file under the first new name; raise RefusedError as `submit` does."""
        check_role(author, "submit jobs", "admin", "user")
        state = self._record.state
        most = state.file.max_jobs
        for name in names:
            if state.find(name) is not None:
                raise RefusedError(
                    409, f"name = {name!r}: must be new; there is a job of this name, which may have ended"
                )
        if len(state.jobs) + len(names) > most:
            raise RefusedError(503, f"the service has at most {most} jobs (max_jobs): submit the job later")
        types = [one.type for one in state.file.gpus]
        for other in file.after:
            if (job := state.find(other)) is None:
                raise RefusedError(422, f"after = {other!r}: there is no job of this name")
            if (end := job.closed) is not None and end.ending != "completed":
                raise RefusedError(409, f"after = {other!r}: must complete first, but {ENDINGS[end.ending]}")
        unknown = [type for type in file.types if type not in types]
        if unknown:
            raise RefusedError(422, f"types = {unknown[0]!r}: must be one of {types}")
        policy, whole = self._rounds.policy, state.file.cluster()
        job = state.new_job(file, names[0])
        if not can_run(policy, job, whole):
            why = "no configuration of this cluster can run the job: see gpus, min_gpus and types"
            if fits(job, whole):
                why = f"policy {policy.name!r} never gives a job {job.gpus} GPUs here; 'queue' does"
            raise RefusedError(422, why)
        return job

    def cancel(self, *names: str, author: Author = ADMIN) -> list[str]:
        """End jobs; the service stops their runs at the next tick, and kills them after the grace period.

        Parameters
        ----------
        *names : str
            Names, or patterns with ``*``, ``?`` or ``[...]`` for all matching jobs that the author can
            cancel.

        Returns
        -------
        list of str
            Names of the jobs.

        Raises
        ------
        RefusedError
            If there is no such job, a job has ended, the author may not change it, or no job matches a
            pattern.  Then nothing has changed.
        """
        jobs, now = self._chosen(names, author), self._record.now()
        reason = f"cancelled by {author.name}"
        self._record.write(
            *(
                Closed(time=now, job=job, ending="cancelled", reason=reason, author=author.name)
                for job in jobs
            )
        )
        return jobs

    def _chosen(self, names: Sequence[str], author: Author) -> list[str]:
        """Return the jobs to end by names and patterns, each once; raise RefusedError as `cancel` does."""
        check_role(author, "cancel jobs", "admin", "user")
        chosen: dict[str, None] = {}
        names = list(dict.fromkeys(names))
        patterns = {name for name in names if any(sign in name for sign in "*?[")}
        if len(patterns) > _MOST_PATTERNS:
            raise RefusedError(422, f"jobs: {len(patterns)} patterns: must be at most {_MOST_PATTERNS}")
        jobs = self._record.state.jobs
        can_change = [name for name, job in jobs.items() if patterns and _may_change(author, job.owner)]
        for name in names:
            found = fnmatch.filter(can_change, name) if name in patterns else [name]
            if found == [name]:
                self._check_change(name, author)
            elif not found:
                raise RefusedError(404, f"no job that {author.name!r} can cancel matches {name!r}")
            chosen |= dict.fromkeys(found)
        return list(chosen)

    def _check_change(self, name: str, author: Author) -> None:
        """Raise RefusedError if an author cannot end a job."""
        job = known_job(self._record, name)
        if job.closed is not None:
            raise RefusedError(409, f"job {name!r} has ended")
        if not _may_change(author, job.owner):
            raise RefusedError(
                403, f"job {name!r} belongs to {job.owner!r}: {author.name!r} may not cancel it"
            )

    def drain(self, type: str, node: int, author: Author = ADMIN, *, back: bool = False) -> None:
        """Take a node out of use or, with `back`, put it back into use.

        Raises
        ------
        RefusedError
            If there is no such node, or the author may not drain nodes.
        """
        check_role(author, "drain nodes", "admin")
        record = self._record
        if (type, node) not in {(one, number) for one, number, _ in record.state.file.all_nodes}:
            raise RefusedError(404, f"there is no node {node} of type {type!r}")
        record.write(Drained(time=record.now(), type=type, node=node, back=back, author=author.name))

    def report(self, name: str, number: int, report: TrainingReport) -> Orders:
        """Write the report of a run, and return the orders for the run.

        Raises
        ------
        RefusedError
            If the run is not the present run of its job (then it must end), or if it reports too often.
        """
        record = self._record
        job = record.state.jobs.get(name)
        if job is None or job.run is None or job.run.number != number:
            raise RefusedError(410, f"run {number} of job {name!r} has ended")
        now = record.now()
        _count(job.run, report, now)
        record.write(Reported(time=now, job=name, number=number, report=report), durable=False)
        batch, chosen = None, job.batch(job.run.place)
        if chosen is not None and chosen != job.run.batch:
            batch = job.run.batch = chosen
        stop = not math.isnan(job.run.told)
        return Orders(record.state.file.lease_seconds, stop, batch)


def known_job(record: ServiceRecord, name: str) -> LiveJob:
    """Return a job that has not ended or is still kept; raise RefusedError for any other name."""
    job = record.state.find(name)
    if job is None:
        raise RefusedError(404, f"there is no job {name!r}")
    return job


def _count(run: ActiveRun, report: TrainingReport, now: float) -> None:
    """Count a report of a run; raise RefusedError if the run reports too often.

    Without this limit, a run could fill the disk of the journal.
    """
    before = max(run.counted - (now - run.counted_at) * _REPORTS_PER_SECOND, 0.0)
    counted = before + 1 + len(report.times) // 4
    if counted > _MOST_AT_ONCE:
        raise RefusedError(429, f"a run may send {_REPORTS_PER_SECOND:g} reports a second on average")
    run.counted, run.counted_at = counted, now


def _may_change(author: Author, owner: str) -> bool:
    """Return whether an author may change the jobs of an owner."""
    return author.role == "admin" or author.name == owner


def check_role(author: Author, what: str, *roles: Role) -> None:
    """Raise RefusedError unless the author has one of some roles."""
    if author.role not in roles:
        raise RefusedError(403, f"the token {author.name!r} has the role {author.role!r}: it may not {what}")


def _new_name(file: JobFile) -> str:
    stem = "".join(c for c in Path(file.command[0]).stem if c.isascii() and (c.isalnum() or c in "-_"))
    return f"{stem[:40].lstrip('-_') or 'job'}-{secrets.token_hex(4)}"
