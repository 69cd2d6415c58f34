"""The journal of a live cluster: its events in an SQLite file, in the order in which they took effect.

Rows are only added, never changed.  Events written with ``durable=True`` are on disk when the call returns (a
write-ahead log, ``synchronous=FULL``).  Reports of jobs are not durable; they wait in memory for the next
write.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator
from pathlib import Path

from copter.durable.database import connect, transaction
from copter.errors import FileError
from copter.live.events import Closed, Event, made

_SCHEMA = """
CREATE TABLE events (
    id INTEGER PRIMARY KEY,
    time REAL NOT NULL,
    kind TEXT NOT NULL,
    job TEXT,
    fields TEXT NOT NULL
);
CREATE INDEX by_job ON events (job, kind) WHERE job IS NOT NULL;
CREATE INDEX by_kind ON events (kind, id);
"""
_VERSION = 1
JOURNAL = "journal.sqlite"
"""Name of the journal in a service's folder."""


class LiveJournal:
    """Events in a file, which is created if needed; `last` is the number of the last event.

    Raises FileError if the file is damaged or not a journal of copter.
    """

    def __init__(self, path: Path, *, read_only: bool = False) -> None:
        self.path = path
        try:
            self._file = connect(path, _SCHEMA, _VERSION, read_only=read_only)
            (self.last,) = self._file.execute("SELECT coalesce(max(id), 0) FROM events").fetchone()
        except (sqlite3.Error, OSError) as error:
            raise FileError(path, f"cannot be read as a journal: {error}") from error
        self._waiting: list[tuple[int, float, str, str | None, str]] = []

    def add(self, *events: Event, durable: bool = True) -> None:
        """Append events; those that are not `durable` are written with the next durable event."""
        before = len(self._waiting), self.last
        for event in events:
            self.last += 1
            fields = event.as_dict()
            job = fields.pop("job", None)
            text = json.dumps(fields, separators=(",", ":"))
            self._waiting.append((self.last, event.time, type(event).__name__, job, text))
        if durable and self._waiting:
            try:
                self.flush()
            except sqlite3.Error:  # the disk is full: drop the new events, keep the others
                del self._waiting[before[0] :]
                self.last = before[1]
                raise

    def flush(self) -> None:
        """Write the events that wait in memory."""
        with transaction(self._file):
            self._file.executemany("INSERT INTO events VALUES (?, ?, ?, ?, ?)", self._waiting)
        self._waiting.clear()

    def history(self) -> Iterator[tuple[int, Event]]:
        """Yield all events in order, except the reports of jobs that have ended."""
        rows = self._file.execute(
            "SELECT id, time, kind, job, fields FROM events WHERE kind != 'Reported' OR job NOT IN "
            "(SELECT job FROM events WHERE kind = 'Closed') ORDER BY id"
        )
        for row in rows:
            yield row[0], _event(row)

    def events(
        self, after: int = 0, *, kind: str | None = None, job: str | None = None
    ) -> Iterator[tuple[int, Event]]:
        """Yield events with their numbers, in order."""
        where, values = ["id > ?"], list[object]([after])
        for column, value in (("kind", kind), ("job", job)):
            if value is not None:
                where.append(f"{column} = ?")
                values.append(value)
        rows = self._file.execute(
            f"SELECT id, time, kind, job, fields FROM events WHERE {' AND '.join(where)} ORDER BY id", values
        )
        for row in rows:
            yield row[0], _event(row)

    def last_of(self, kind: str, job: str) -> Event | None:
        """Return the last event of a kind for a job."""
        row = self._file.execute(
            "SELECT id, time, kind, job, fields FROM events "
            "WHERE job = ? AND kind = ? ORDER BY id DESC LIMIT 1",
            (job, kind),
        ).fetchone()
        return None if row is None else _event(row)

    def closed(self, count: int) -> list[Closed]:
        """Return the ends of the jobs that ended last, the latest first."""
        rows = self._file.execute(
            "SELECT id, time, kind, job, fields FROM events WHERE kind = 'Closed' ORDER BY id DESC LIMIT ?",
            (count,),
        )
        return [event for event in map(_event, rows.fetchall()) if isinstance(event, Closed)]

    def told(self, after: int, count: int) -> list[tuple[int, Event]]:
        """Return events except reports and rounds: the first after a number, or the last if that is 0."""
        order = "ASC" if after else "DESC"
        rows = self._file.execute(
            "SELECT id, time, kind, job, fields FROM events "
            f"WHERE id > ? AND kind NOT IN ('Reported', 'Decided') ORDER BY id {order} LIMIT ?",
            (after, count),
        )
        return sorted(((row[0], _event(row)) for row in rows.fetchall()), key=lambda one: one[0])

    def last_time(self) -> float:
        """Return the time of the last event; 0 without events."""
        row = self._file.execute("SELECT time FROM events ORDER BY id DESC LIMIT 1").fetchone()
        return 0.0 if row is None else float(row[0])

    @property
    def bytes(self) -> int:
        """Size of the file with its write-ahead log."""
        paths = (self.path, self.path.with_name(self.path.name + "-wal"))
        return sum(path.stat().st_size for path in paths if path.exists())

    def knows(self, job: str) -> bool:
        """Return whether a job of this name was ever submitted."""
        row = self._file.execute(
            "SELECT 1 FROM events WHERE job = ? AND kind = 'Submitted' LIMIT 1", (job,)
        ).fetchone()
        return row is not None

    def sound(self) -> bool:
        """Return whether SQLite's check finds the file intact."""
        return self._file.execute("PRAGMA quick_check").fetchone() == ("ok",)

    def close(self) -> None:
        """Write the events that wait in memory, and close the file; it is closed also if that fails."""
        try:
            if self._waiting:
                self.flush()
        finally:
            self._file.close()


def _event(row: tuple[int, float, str, str | None, str]) -> Event:
    _, time, kind, job, text = row
    return made(kind, time, json.loads(text) | ({} if job is None else {"job": job}))
