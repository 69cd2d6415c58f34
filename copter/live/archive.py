"""Archives of jobs that ended long ago: one for each month, with the events and folders of the jobs.

The archive of a month is the folder ``archive/YYYY-MM`` of the service.  It has a journal with the events of
the jobs that ended in this month (UTC), and the folder ``jobs`` with what their folders had.  The month of a
job follows from its journal, so a service that is killed while it moves jobs moves them to the same place
when it starts again.
"""

from __future__ import annotations

import errno
import logging
from collections.abc import Collection, Iterator
from contextlib import closing, contextmanager
from datetime import UTC, datetime
from pathlib import Path

from copter.durable.files import sync_folder
from copter.errors import FileError
from copter.live.events import Event
from copter.live.folder import ARCHIVE, JOBS
from copter.live.journal import JOURNAL, LiveJournal

_log = logging.getLogger("copter.live")

_TAKEN = frozenset((errno.EEXIST, errno.EISDIR, errno.ENOTDIR, errno.ENOTEMPTY))
"""Error numbers of a move to a name that exists."""


def month_at(time: float) -> str:
    """Return the month of a time in seconds since the epoch."""
    return datetime.fromtimestamp(time, UTC).strftime("%Y-%m")


def bring_to_archive(journal: LiveJournal, jobs: Collection[str], month: str) -> None:
    """Copy the events of ended jobs to the archive of a month, and move their folders there.

    When this returns, the archive is on disk and has all that the service may remove from its journal.  After
    an error or a kill, the same call can be repeated.
    """
    folder = journal.path.parent
    archive = folder / ARCHIVE / month
    for one in (archive.parent, archive, archive / JOBS):
        one.mkdir(mode=0o700, exist_ok=True)
    with closing(LiveJournal(archive / JOURNAL)) as file:
        journal.copy_to(file, jobs)
    for job in jobs:
        _move(folder / JOBS / job, archive / JOBS / job)
    for one in (folder / JOBS, archive / JOBS, archive, archive.parent, folder):
        if one.exists():  # before the first run there is no folder of jobs
            sync_folder(one)


def _move(source: Path, target: Path) -> None:
    """Move the folder of a job, unless it was removed or moved before."""
    try:
        source.rename(target)
    except FileNotFoundError:
        return
    except OSError as error:
        if error.errno not in _TAKEN:
            raise
        _log.warning("%s stays, because %s exists", source, target)


@contextmanager
def journal_with(journal: LiveJournal, job: str) -> Iterator[LiveJournal]:
    """Open the journal that has the events of a job: the service's own, or that of an archive.

    Raises FileError if the archive does not exist any more.
    """
    month = journal.month_of(job)
    if month is None:
        yield journal
        return
    with closing(_open(journal, month)) as archive:
        yield archive


def home_of(journal: LiveJournal, job: str) -> Path:
    """Return the folder of a job, which may be in an archive."""
    month, folder = journal.month_of(job), journal.path.parent
    return (folder if month is None else folder / ARCHIVE / month) / JOBS / job


def archives(journal: LiveJournal) -> Iterator[LiveJournal]:
    """Open the archives of a journal one by one, the latest first; raises FileError if one is missing."""
    for month in journal.months():
        with closing(_open(journal, month)) as archive:
            yield archive


def whole_history(journal: LiveJournal) -> list[tuple[int, Event]]:
    """Return all events of a journal and its archives, with their numbers, in order.

    Raises FileError if an archive is missing.
    """
    events = dict(journal.events())
    for archive in archives(journal):  # after the journal, from which events may be moved meanwhile
        events = dict(archive.events()) | events
    return sorted(events.items())


def _open(journal: LiveJournal, month: str) -> LiveJournal:
    path = journal.path.parent / ARCHIVE / month / JOURNAL
    if not path.exists():
        raise FileError(path, "is missing, and has the events of archived jobs; restore it from a copy")
    return LiveJournal(path, read_only=True)
