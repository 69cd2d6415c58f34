"""The journal of a live cluster: its events in an SQLite file, in the order in which they took effect.

Rows are added and never changed.  When too many jobs have ended, the events of the jobs that ended first are
dropped; the journal keeps sums over these jobs by owner.  No two events have the same number.  Events
written with ``durable=True`` are on disk when the call returns (a write-ahead log, ``synchronous=FULL``).
Reports of jobs are not durable; they wait in memory for the next write. After a restart ``_recover`` in
:mod:`copter.live.record` reads the journal.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from copter.durable.log import Log
from copter.errors import FileError
from copter.extras import extra
from copter.live.events import KINDS, Ending, Event, made
from copter.live.files import UNKNOWN, ValidationError, describe

with extra("live"):
    from pydantic import TypeAdapter

_SCHEMA = """
CREATE TABLE events (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    time REAL NOT NULL,
    kind TEXT NOT NULL,
    job TEXT,
    fields TEXT NOT NULL
);
CREATE INDEX by_job ON events (job, kind) WHERE job IS NOT NULL;
CREATE INDEX by_kind ON events (kind, id);
CREATE TABLE dropped (
    owner TEXT NOT NULL,
    ending TEXT NOT NULL,
    jobs INTEGER NOT NULL,
    gpu_seconds REAL NOT NULL,
    events INTEGER NOT NULL,
    PRIMARY KEY (owner, ending)
) WITHOUT ROWID;
"""
"""The table ``dropped`` has the sums of the jobs whose events were dropped."""
_VERSION = 4
_COLUMNS = "SELECT id, time, kind, job, fields FROM events"
_OTHER_VERSION = "the journal was written by another version of copter"
_NO_KIND = f"there is no event of this kind; {_OTHER_VERSION}"
_OBJECT = TypeAdapter(dict[str, Any])
JOURNAL = "journal.sqlite"
"""Name of the journal in a service's folder."""


class LiveJournal(Log):
    """Events in a file, which is created if needed; `last` is the number of the last event.

    Raises FileError if the file is damaged or not a journal of copter.  All methods that return events raise
    FileError if an event is damaged or of another version of copter; the message has the event's number.
    """

    def __init__(self, path: Path, *, read_only: bool = False) -> None:
        super().__init__(path, _SCHEMA, _VERSION, read_only=read_only)
        ((self.last,),) = self.rows("SELECT coalesce(max(seq), 0) FROM sqlite_sequence WHERE name = 'events'")
        self._inode = path.stat().st_ino
        self._waiting: list[tuple[int, float, str, str | None, str]] = []

    def add(self, *events: Event, durable: bool = True) -> None:
        """Append events; events that are not `durable` are written with the next durable event."""
        before = len(self._waiting), self.last
        for event in events:
            self.last += 1
            fields = event.as_dict()
            job = fields.pop("job", None)
            del fields["time"]
            text = json.dumps(fields, separators=(",", ":"))
            self._waiting.append((self.last, event.time, type(event).__name__, job, text))
        if durable and self._waiting:
            try:
                self.flush()
            except sqlite3.Error:  # the disk may be full: drop the new events, and keep the earlier ones
                del self._waiting[before[0] :]
                self.last = before[1]
                raise

    def flush(self) -> None:
        """Write the events that wait in memory; raise sqlite3.Error if the file was removed or replaced."""
        if not self._is_there():
            raise sqlite3.OperationalError(f"{self.path} was removed or replaced while it was open")
        with self.writing():
            self.database.executemany("INSERT INTO events VALUES (?, ?, ?, ?, ?)", self._waiting)
        self._waiting.clear()

    def _is_there(self) -> bool:
        """Return whether the name of the file still leads to the file that is open."""
        try:
            return self.path.stat().st_ino == self._inode
        except FileNotFoundError:
            return False

    def history(self) -> Iterator[tuple[int, Event]]:
        """Yield the events from which the state follows, in order.

        Left out are notes, all reports of an ended job but the last, and rounds that changed no places,
        except for the last round and the last round without an error.
        """
        round = "SELECT max(id) FROM events WHERE kind = 'Decided'"
        last = "SELECT max(id) FROM events WHERE job = one.job AND kind = 'Reported'"
        return self._numbered(
            f"""
            {_COLUMNS} AS one WHERE kind != 'Noted' AND (
                kind != 'Reported' OR id = ({last})
                OR NOT EXISTS (SELECT 1 FROM events WHERE job = one.job AND kind = 'Closed')
            ) AND (
                kind != 'Decided' OR instr(fields, '"places":{{}}') = 0 OR id = ({round})
                OR id = ({round} AND instr(fields, '"error":""'))
            ) ORDER BY id
            """
        )

    def _numbered(self, query: str, values: Sequence[object] = ()) -> Iterator[tuple[int, Event]]:
        """Yield the events of a query with their numbers."""
        return ((row[0], self._event(row)) for row in self._rows(query, values))

    def dropped(self) -> list[tuple[str, str, int, float]]:
        """Return rows of owner, ending, number and GPU seconds of the jobs that were dropped."""
        return list(self._rows("SELECT owner, ending, jobs, gpu_seconds FROM dropped"))

    def drop(self, job: str, owner: str, ending: Ending, gpu_seconds: float) -> None:
        """Remove the events of a job that has ended, and add the job to the sums."""
        if self._waiting:
            self.flush()
        with self.writing():
            events = self.database.execute("DELETE FROM events WHERE job = ?", (job,)).rowcount
            self.database.execute(
                "INSERT INTO dropped VALUES (?, ?, 1, ?, ?) ON CONFLICT DO UPDATE SET jobs = jobs + 1,"
                " gpu_seconds = gpu_seconds + excluded.gpu_seconds, events = events + excluded.events",
                (owner, ending, gpu_seconds, events),
            )

    def events(self, *, kind: str | None = None, job: str | None = None) -> Iterator[tuple[int, Event]]:
        """Yield events with their numbers, in order."""
        wanted = {column: value for column, value in (("kind", kind), ("job", job)) if value is not None}
        where = " AND ".join(("TRUE", *(f"{column} = ?" for column in wanted)))
        return self._numbered(f"{_COLUMNS} WHERE {where} ORDER BY id", [*wanted.values()])

    def last_time(self) -> float:
        """Return the time of the last event; 0 without events."""
        row = self.database.execute("SELECT time FROM events ORDER BY id DESC LIMIT 1").fetchone()
        return 0.0 if row is None else float(row[0])

    @property
    def bytes(self) -> int:
        """Size of the file with its write-ahead log."""
        paths = (self.path, self.path.with_name(self.path.name + "-wal"))
        return sum(path.stat().st_size for path in paths if path.exists())

    def check(self) -> None:
        """Raise FileError if an event is missing."""
        first, count = next(self._rows("SELECT min(id), count(*) FROM events"))
        if self.last == 0:
            return
        (dropped,) = next(self._rows("SELECT coalesce(sum(events), 0) FROM dropped"))
        if (first, self.last) != (1, count + dropped):
            there = f"{count} events are there and {dropped} were dropped, not {self.last} in all"
            raise FileError(self.path, f"is damaged: {there}")

    @contextmanager
    def applying(self, number: int, event: Event) -> Iterator[None]:
        """Raise FileError with the number of an event if it cannot be applied."""
        try:
            yield
        except FileError:
            raise
        except Exception as error:
            raise self._wrong(number, type(event).__name__, error) from error

    def _rows(self, query: str, values: Sequence[object] = ()) -> Iterator[tuple[Any, ...]]:
        try:
            yield from self.database.execute(query, values)
        except sqlite3.DatabaseError as error:
            if isinstance(error, sqlite3.OperationalError):  # the cause may be the disk, not the file
                raise
            raise FileError(self.path, f"is damaged: {error}") from error

    def _event(self, row: tuple[Any, ...]) -> Event:
        """Return the event of a row; check its fields."""
        number, time, kind, job, text = row
        try:
            if kind not in KINDS:
                raise ValueError(_NO_KIND)
            fields = _OBJECT.validate_json(text)
            return made(kind, {"time": time} | ({} if job is None else {"job": job}) | fields)
        except ValueError as error:
            raise self._wrong(number, kind, error) from error

    def _wrong(self, number: int, kind: object, error: Exception) -> FileError:
        """Return the error of an event that cannot be read or applied."""
        if isinstance(error, ValidationError):
            said = describe(error.errors())
            if any(one["type"] in UNKNOWN for one in error.errors()):
                said += f"; {_OTHER_VERSION}"
        else:
            said = str(error) if isinstance(error, ValueError) else f"{type(error).__name__}: {error}"
        return FileError(self.path, f"event {number} ({kind}): {said}")

    def close(self) -> None:
        """Write the events that wait in memory, and close the file, also if the write fails."""
        try:
            if self._waiting:
                self.flush()
        finally:
            super().close()
