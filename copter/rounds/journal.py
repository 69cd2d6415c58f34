"""RoundJournal: what rounds go on from after a restart: a state, and the events and answers since then.

An SQLite file (:mod:`copter.durable.database`) with three kinds of rows: one ``state`` (the domain, its
answer, what the solver keeps), then each ``event`` and ``answer`` in order.  The events of a round
are on disk before it is solved, its answer after it has taken effect: a process that is killed goes on with
the first round that has no answer, which has all of its events.  When events and answers take more room than
the state, a new state takes the place of all.

Values are pickles: domains, events and answers are classes of users.
"""

from __future__ import annotations

import errno
import os
import pickle
import sqlite3
import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from os import PathLike
from pathlib import Path
from typing import Any

from copter.durable.database import connect, transaction
from copter.durable.files import lock_file
from copter.errors import CopterError, FileError

_VERSION = 1
_APPLICATION = int.from_bytes(b"copr")
_SCHEMA = """
CREATE TABLE entries (number INTEGER PRIMARY KEY, round INTEGER NOT NULL, kind TEXT NOT NULL,
    content BLOB NOT NULL, crc INTEGER NOT NULL);
"""
_LEAST = 1 << 16
"""Bytes of events and answers from which on a new state may be written."""
_MOST = 1 << 30
"""Bytes of an entry: SQLite has a limit."""


class RoundJournal:
    """The journal of one process at a time.

    Raise FileError if the file is damaged or not such a journal, CopterError if it is open already.
    """

    def __init__(self, path: str | PathLike[str]) -> None:
        self.path = Path(path)
        self._lock = lock_file(self.path.with_name(f"{self.path.name}.lock"), f"{self.path}: is open already")
        try:
            self._database = connect(self.path, _SCHEMA, _VERSION, application=_APPLICATION)
        except BaseException:
            os.close(self._lock)
            raise
        self._size = self._since = 0
        self._behind = False

    def close(self) -> None:
        """Close the file; it can be called again."""
        self._database.close()
        if self._lock >= 0:
            os.close(self._lock)
            self._lock = -1

    def state(self) -> tuple[int, Any] | None:
        """Return the round at which the state was written, and the state; None in a new file."""
        row = self._database.execute(
            "SELECT round, content, crc FROM entries WHERE kind = 'state'"
        ).fetchone()
        if row is None:
            return None
        self._size = len(row[1])
        return row[0], self._read(*row)

    def since(self) -> Iterator[tuple[str, Any]]:
        """Yield kind and content of what came after the state, in order."""
        found = self._database.execute(
            "SELECT kind, round, content, crc FROM entries WHERE kind != 'state' ORDER BY number"
        )
        for kind, *entry in found.fetchall():
            self._since += len(entry[1])
            yield kind, self._read(*entry)

    def begin(self, round: int, state: Any) -> None:
        """Put a state in the place of everything."""
        content = self.pack(state)
        with self._writing():
            self._database.execute("DELETE FROM entries")
            self._put(round, "state", content)
        self._size, self._since = len(content), 0

    def add_events(self, round: int, events: Sequence[bytes]) -> None:
        """Write events, packed, of a round that is not accepted yet."""
        with self._writing():
            for content in events:
                self._put(round, "event", content)

    def add_answer(self, round: int, answer: bytes) -> bool:
        """Write the packed answer of a round, which accepts it; return whether a new state is due."""
        with self._writing():
            self._put(round, "answer", answer)
        return self._since > max(_LEAST, self._size)

    def pack(self, value: Any) -> bytes:
        """Return the bytes of an event, an answer or a state.

        Raise CopterError if it cannot be written, or the journal is closed or could not be written before.
        """
        if self._lock < 0:
            raise CopterError(f"{self.path}: the journal is closed")
        if self._behind:
            raise CopterError(f"{self.path}: the journal could not be written before: open it again")
        try:
            content = pickle.dumps(value, protocol=5)
        except (pickle.PicklingError, TypeError, AttributeError) as why:
            kind = type(value).__name__
            raise CopterError(f"{self.path}: a {kind} that cannot be pickled: {why}") from why
        if len(content) > _MOST:
            raise CopterError(f"{self.path}: a {type(value).__name__} of {len(content):,} bytes is too large")
        return content

    def _put(self, round: int, kind: str, content: bytes) -> None:
        self._database.execute(
            "INSERT INTO entries (round, kind, content, crc) VALUES (?, ?, ?, ?)",
            (round, kind, content, zlib.crc32(content)),
        )
        self._since += len(content)

    @contextmanager
    def _writing(self) -> Iterator[None]:
        """Write all or nothing; after a failure the file is behind, and nothing more is written."""
        self._behind = True
        try:
            with transaction(self._database):
                yield
        except sqlite3.Error as why:
            raise OSError(errno.EIO, f"the journal cannot be written: {why}", str(self.path)) from why
        self._behind = False

    def _read(self, round: int, content: bytes, crc: int) -> Any:
        if zlib.crc32(content) != crc:
            raise FileError(self.path, f"an entry of round {round} is damaged")
        return pickle.loads(content)
