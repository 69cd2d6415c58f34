"""The journal of a live cluster: its events in an SQLite file, in the order in which they took effect.

Rows are only added, never changed.  The events of the jobs that ended first are dropped when too many jobs
have ended; of these jobs the journal keeps sums by owner.  No number of an event is used twice.  Events
written with ``durable=True`` are on disk when the call returns (a write-ahead log, ``synchronous=FULL``).
Reports of jobs are not durable; they wait in memory for the next write.
"""

from __future__ import annotations

import json
import math
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from typing import Any

from copter.durable.log import Log
from copter.errors import FileError
from copter.live.events import KINDS, Closed, Decided, Ended, Ending, Event, Launched, made
from copter.live.files import ValidationError, describe

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
_VERSION = 2
_OWNER = "(SELECT json_extract(fields, '$.author') FROM events WHERE job = one.job AND kind = 'Submitted')"
_COLUMNS = "SELECT id, time, kind, job, fields FROM events"
_OTHER_VERSION = "the journal was written by another version of copter"
_NO_KIND = f"there is no event of this kind; {_OTHER_VERSION}"
JOURNAL = "journal.sqlite"
"""Name of the journal in a service's folder."""


class LiveJournal(Log):
    """Events in a file, which is created if needed; `last` is the number of the last event.

    Raises FileError if the file is damaged or not a journal of copter.  All methods that return events raise
    it if an event is damaged or of another version of copter; the message has the number of the event.
    """

    def __init__(self, path: Path, *, read_only: bool = False) -> None:
        try:
            super().__init__(path, _SCHEMA, _VERSION, read_only=read_only)
            try:
                numbers = "SELECT coalesce(max(seq), 0) FROM sqlite_sequence WHERE name = 'events'"
                (self.last,) = self.database.execute(numbers).fetchone()
            except sqlite3.Error:
                self.database.close()
                raise
        except (sqlite3.Error, OSError) as error:
            raise FileError(path, f"cannot be read as a journal: {error}") from error
        self._inode = path.stat().st_ino
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

    def unfinished(self) -> list[str]:
        """Return the jobs that have not ended, or whose last run has not ended.

        One search in the index for each job; reports are not read.
        """
        rows = self._rows(
            """
            WITH RECURSIVE one(job) AS (
                SELECT min(job) FROM events WHERE job IS NOT NULL UNION ALL
                SELECT (SELECT min(job) FROM events WHERE job > one.job) FROM one WHERE one.job IS NOT NULL
            )
            SELECT job FROM one WHERE job IS NOT NULL AND (
                NOT EXISTS (SELECT 1 FROM events WHERE job = one.job AND kind = 'Closed')
                OR coalesce((SELECT max(id) FROM events WHERE job = one.job AND kind = 'Launched'), 0)
                 > coalesce((SELECT max(id) FROM events WHERE job = one.job AND kind = 'Ended'), 0)
            )
            """
        )
        return [job for (job,) in rows]

    def history(self, jobs: Sequence[str]) -> Iterator[tuple[int, Event]]:
        """Yield the events that matter for the nodes and for some jobs, in order.

        These are the events of the jobs, those of nodes and policies, the rounds that requested nodes, and
        the rounds that changed places since the first of the jobs was submitted.
        """
        listed = json.dumps(list(jobs))
        (first,) = next(
            self._rows(
                "SELECT min((SELECT min(id) FROM events WHERE job = one.value AND kind = 'Submitted')) "
                "FROM json_each(?) AS one",
                (listed,),
            )
        )
        rows = self._rows(
            f"""
            {_COLUMNS} WHERE kind IN ('Opened', 'NodesChanged', 'Drained') UNION ALL
            {_COLUMNS} WHERE kind = 'Decided' AND (
                instr(fields, '"sizes":{{}}') = 0 OR (id > ? AND instr(fields, '"places":{{}}') = 0)
            ) UNION ALL
            SELECT events.id, time, kind, job, fields FROM json_each(?) AS one CROSS JOIN events
                ON job = one.value WHERE kind != 'Noted'
            ORDER BY 1
            """,
            (self.last if first is None else first, listed),
        )
        for row in rows:
            yield row[0], self._event(row)

    def endings(self) -> list[tuple[str, str, str]]:
        """Return the jobs that have ended in the order of their ends, each with its owner and its ending."""
        ending = "json_extract(fields, '$.ending')"
        rows = f"SELECT job, {_OWNER}, {ending} FROM events AS one WHERE kind = 'Closed' ORDER BY id"
        return list(self._extracted(rows))

    def gpu_seconds(self) -> dict[str, float]:
        """Return the GPUs of all runs that have ended times their seconds, by the owners of their jobs."""
        sums = "sum(json_extract(fields, '$.gpu_seconds'))"
        rows = f"SELECT {_OWNER}, {sums} FROM events AS one WHERE kind = 'Ended' GROUP BY 1"
        return dict(self._extracted(rows))

    def dropped(self) -> list[tuple[str, str, int, float]]:
        """Return owner and ending of the jobs that were dropped, with their number and their GPU seconds."""
        return list(self._rows("SELECT owner, ending, jobs, gpu_seconds FROM dropped"))

    def drop(self, job: str) -> None:
        """Remove the events of a job that has ended, and add it to the sums."""
        if self._waiting:
            self.flush()
        with self.writing():
            self.database.execute(
                f"""
                INSERT INTO dropped SELECT {_OWNER}, json_extract(fields, '$.ending'), 1, (
                    SELECT coalesce(sum(json_extract(fields, '$.gpu_seconds')), 0.0) FROM events
                    WHERE job = one.job AND kind = 'Ended'
                ), (SELECT count(*) FROM events WHERE job = one.job)
                FROM events AS one WHERE job = ? AND kind = 'Closed'
                ON CONFLICT DO UPDATE SET jobs = jobs + 1, gpu_seconds = gpu_seconds + excluded.gpu_seconds,
                    events = events + excluded.events
                """,
                (job,),
            )
            self.database.execute("DELETE FROM events WHERE job = ?", (job,))

    def crowd(self, number: int) -> tuple[float, float] | None:
        """Return the sums of contention and weight after the last round that was asked before an event."""
        where = f"{_COLUMNS} WHERE kind = 'Decided' AND"
        before = self._rows(f"{where} id < ? ORDER BY id DESC LIMIT 1", (number,))
        after = self._rows(f"{where} id > ? ORDER BY id LIMIT 1", (number,))
        found = None
        for row in (*before, *after):
            event = self._event(row)
            assert isinstance(event, Decided)
            if event.seen < number:
                found = event.contention, event.weight
        return found

    def rounds(self, count: int) -> list[Decided]:
        """Return the last rounds with a decision."""
        rows = self._rows(f"{_COLUMNS} WHERE kind = 'Decided' ORDER BY id DESC")
        events = (event for event in map(self._event, rows) if isinstance(event, Decided) and not event.error)
        return list(islice(events, count))[::-1]

    def ended_runs(self, count: int) -> list[tuple[Launched, Ended]]:
        """Return the begin and the end of the runs that ended last."""
        rows = list(self._rows(f"{_COLUMNS} WHERE kind = 'Ended' ORDER BY id DESC LIMIT ?", (count,)))
        begins = self._rows(
            f"{_COLUMNS} WHERE kind = 'Launched' AND job IN (SELECT value FROM json_each(?))",
            (json.dumps(list({row[3] for row in rows})),),
        )
        launched = {
            (one.job, one.number): one for one in map(self._event, begins) if isinstance(one, Launched)
        }
        ends = [one for one in map(self._event, rows[::-1]) if isinstance(one, Ended)]
        return [(launched[key], one) for one in ends if (key := (one.job, one.number)) in launched]

    def events(
        self, after: int = 0, *, kind: str | None = None, job: str | None = None
    ) -> Iterator[tuple[int, Event]]:
        """Yield events with their numbers, in order."""
        where, values = ["id > ?"], list[object]([after])
        for column, value in (("kind", kind), ("job", job)):
            if value is not None:
                where.append(f"{column} = ?")
                values.append(value)
        for row in self._rows(f"{_COLUMNS} WHERE {' AND '.join(where)} ORDER BY id", values):
            yield row[0], self._event(row)

    def last_of(self, kind: str, job: str) -> Event | None:
        """Return the last event of a kind for a job."""
        rows = self._rows(f"{_COLUMNS} WHERE job = ? AND kind = ? ORDER BY id DESC LIMIT 1", (job, kind))
        return next((self._event(row) for row in rows), None)

    def closed(self, count: int) -> list[Closed]:
        """Return the ends of the jobs that ended last, the latest first."""
        rows = self._rows(f"{_COLUMNS} WHERE kind = 'Closed' ORDER BY id DESC LIMIT ?", (count,))
        return [event for event in map(self._event, rows) if isinstance(event, Closed)]

    def told(self, after: int, count: int) -> list[tuple[int, Event]]:
        """Return events except reports and rounds: the first after a number, or the last if that is 0."""
        order = "ASC" if after else "DESC"
        where = "id > ? AND kind NOT IN ('Reported', 'Decided')"
        rows = self._rows(f"{_COLUMNS} WHERE {where} ORDER BY id {order} LIMIT ?", (after, count))
        return sorted(((row[0], self._event(row)) for row in rows), key=lambda one: one[0])

    def last_time(self) -> float:
        """Return the time of the last event; 0 without events."""
        row = self.database.execute("SELECT time FROM events ORDER BY id DESC LIMIT 1").fetchone()
        return 0.0 if row is None else float(row[0])

    @property
    def bytes(self) -> int:
        """Size of the file with its write-ahead log."""
        paths = (self.path, self.path.with_name(self.path.name + "-wal"))
        return sum(path.stat().st_size for path in paths if path.exists())

    def knows(self, job: str) -> bool:
        """Return whether there is a job of this name, which may have ended."""
        row = self.database.execute(
            "SELECT 1 FROM events WHERE job = ? AND kind = 'Submitted' LIMIT 1", (job,)
        ).fetchone()
        return row is not None

    def ending(self, job: str) -> Ending | None:
        """Return how a job ended; None if it has not."""
        closed = self.last_of("Closed", job)
        return closed.ending if isinstance(closed, Closed) else None

    def check(self) -> None:
        """Raise FileError if an event is missing, or the first event is not the start of a service."""
        first, count = next(self._rows("SELECT min(id), count(*) FROM events"))
        if self.last == 0:
            return
        (dropped,) = next(self._rows("SELECT coalesce(sum(events), 0) FROM dropped"))
        if (first, self.last) != (1, count + dropped):
            if dropped:
                there = f"{count} events are there and {dropped} were dropped, not {self.last} in all"
                raise FileError(self.path, f"is damaged: {there}")
            gap = (
                "SELECT id + 1 FROM events AS one WHERE NOT EXISTS "
                "(SELECT 1 FROM events WHERE id = one.id + 1) ORDER BY id LIMIT 1"
            )
            missing = 1 if first != 1 else next(self._rows(gap))[0]
            raise FileError(self.path, f"is damaged: event {missing} is missing")
        kinds = self._rows(
            """
            WITH RECURSIVE one(kind) AS (
                SELECT min(kind) FROM events UNION ALL
                SELECT (SELECT min(kind) FROM events WHERE kind > one.kind) FROM one
                WHERE one.kind IS NOT NULL
            )
            SELECT kind, (SELECT min(id) FROM events WHERE kind = one.kind) FROM one WHERE kind IS NOT NULL
            """
        )
        for kind, number in kinds:
            if kind not in KINDS:
                raise self._wrong(number, kind, ValueError(_NO_KIND))
        kind = next(self._rows("SELECT kind FROM events WHERE id = 1"))[0]
        if kind != "Opened":
            raise FileError(self.path, f"is damaged: event 1 ({kind}) must be the start of a service")

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
            if isinstance(error, sqlite3.OperationalError):  # the file may be well, and the disk not
                raise
            raise FileError(self.path, f"is damaged: {error}") from error

    def _extracted(self, query: str) -> Iterator[tuple[Any, ...]]:
        """Yield the rows of a query of fields of the ends of jobs and runs."""
        try:
            yield from self._rows(query)
        except sqlite3.OperationalError:  # an event may be no JSON: the loop names it
            for kind in ("Submitted", "Ended", "Closed"):
                for _ in self.events(kind=kind):
                    pass
            raise

    def _event(self, row: tuple[Any, ...]) -> Event:
        """Return the event of a row; check its fields."""
        number, time, kind, job, text = row
        try:
            if kind not in KINDS:
                raise ValueError(_NO_KIND)
            if not isinstance(time, int | float) or not math.isfinite(time):
                raise ValueError(f"time = {time!r}: must be a finite number")
            fields = json.loads(text)
            if not isinstance(fields, dict):
                raise ValueError(f"fields = {text!r}: must be a JSON object")
            return made(kind, time, fields | ({} if job is None else {"job": job}))
        except (ValueError, TypeError, RecursionError) as error:
            raise self._wrong(number, kind, error) from error

    def _wrong(self, number: int, kind: object, error: Exception) -> FileError:
        """Return the error of an event that cannot be read or applied."""
        if isinstance(error, ValidationError):
            said = describe(error.errors())
            if any(one["type"] == "extra_forbidden" for one in error.errors()):
                said += f"; {_OTHER_VERSION}"
        elif isinstance(error, json.JSONDecodeError):
            said = f"must be JSON: {error}"
        elif isinstance(error, ValueError):
            said = str(error)
        else:
            said = f"{type(error).__name__}: {error}"
        return FileError(self.path, f"event {number} ({kind}): {said}")

    def sound(self) -> bool:
        """Return whether SQLite's check finds the file intact."""
        return self.database.execute("PRAGMA quick_check").fetchone() == ("ok",)

    def close(self) -> None:
        """Write the events that wait in memory, and close the file; it is closed also if that fails."""
        try:
            if self._waiting:
                self.flush()
        finally:
            super().close()
