"""The journal of a live cluster: its events in an SQLite file, in the order in which they were true.

Rows are only ever added.  What was written with ``durable=True`` is on disk when the call returns (a
write-ahead log, ``synchronous=FULL``); reports of jobs, which nobody was promised, wait in memory until then.
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
VERSION = 1
JOURNAL = "journal.sqlite"
"""Name of the file in a service's folder."""


class LiveJournal:
    """Events in a file.

    Parameters
    ----------
    path : Path
        Made if it is not there.

    Attributes
    ----------
    last : int
        Number of the last event, written or waiting.

    Raises
    ------
    FileError
        The file is damaged, or none of copter's.
    """

    def __init__(self, path: Path, *, read_only: bool = False) -> None:
        self.path = path
        try:
            self._file = connect(path, _SCHEMA, VERSION, read_only=read_only)
            (self.last,) = self._file.execute("SELECT coalesce(max(id), 0) FROM events").fetchone()
        except (sqlite3.Error, OSError) as error:
            raise FileError(path, f"cannot be read as a journal: {error}") from error
        self._waiting: list[tuple[int, float, str, str | None, str]] = []

    def add(self, *events: Event, durable: bool = True) -> int:
        """Write events; returns the number of the last one.

        Parameters
        ----------
        durable : bool
            Otherwise they are written with the next events that are.
        """
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
            except sqlite3.Error:  # the disk is full: these never happened, the others wait on
                del self._waiting[before[0] :]
                self.last = before[1]
                raise
        return self.last

    def flush(self) -> None:
        """Write what waits."""
        with transaction(self._file):
            self._file.executemany("INSERT INTO events VALUES (?, ?, ?, ?, ?)", self._waiting)
        self._waiting.clear()

    def history(self) -> Iterator[tuple[int, Event]]:
        """All events in order, but for the reports of jobs that are over."""
        rows = self._file.execute(
            "SELECT id, time, kind, job, fields FROM events WHERE kind != 'Reported' OR job NOT IN "
            "(SELECT job FROM events WHERE kind = 'Closed') ORDER BY id"
        )
        for row in rows:
            yield row[0], _event(row)

    def events(
        self, after: int = 0, *, kind: str | None = None, job: str | None = None
    ) -> Iterator[tuple[int, Event]]:
        """Events with their numbers, in order."""
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
        """The last event of a kind that happened to a job."""
        row = self._file.execute(
            "SELECT id, time, kind, job, fields FROM events "
            "WHERE job = ? AND kind = ? ORDER BY id DESC LIMIT 1",
            (job, kind),
        ).fetchone()
        return None if row is None else _event(row)

    def closed(self, count: int) -> list[Closed]:
        """The last jobs that are over, the last first."""
        rows = self._file.execute(
            "SELECT id, time, kind, job, fields FROM events WHERE kind = 'Closed' ORDER BY id DESC LIMIT ?",
            (count,),
        )
        return [event for event in map(_event, rows.fetchall()) if isinstance(event, Closed)]

    def told(self, after: int, count: int) -> list[tuple[int, Event]]:
        """Events but reports and rounds: the first ones after a number, or the last ones if that is 0."""
        order = "ASC" if after else "DESC"
        rows = self._file.execute(
            "SELECT id, time, kind, job, fields FROM events "
            f"WHERE id > ? AND kind NOT IN ('Reported', 'Decided') ORDER BY id {order} LIMIT ?",
            (after, count),
        )
        return sorted(((row[0], _event(row)) for row in rows.fetchall()), key=lambda one: one[0])

    @property
    def bytes(self) -> int:
        """Size of the file, with what is still in its write-ahead log."""
        paths = (self.path, self.path.with_name(self.path.name + "-wal"))
        return sum(path.stat().st_size for path in paths if path.exists())

    def knows(self, job: str) -> bool:
        """Whether a job of this name was ever handed in."""
        row = self._file.execute(
            "SELECT 1 FROM events WHERE job = ? AND kind = 'Submitted' LIMIT 1", (job,)
        ).fetchone()
        return row is not None

    def sound(self) -> bool:
        """Whether the file is whole, by SQLite's own check."""
        return self._file.execute("PRAGMA quick_check").fetchone() == ("ok",)

    def close(self) -> None:
        """Write what waits, and close."""
        if self._waiting:
            self.flush()
        self._file.close()


def _event(row: tuple[int, float, str, str | None, str]) -> Event:
    """The event of a row."""
    _, time, kind, job, text = row
    return made(kind, time, json.loads(text) | ({} if job is None else {"job": job}))
