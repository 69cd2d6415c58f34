"""RoundJournal: file from which rounds continue after a restart.

The file is a log (:mod:`copter.durable.log`) with three kinds of rows. One row ``state`` has the domain, its
last answer, the number of events and the state of the solver. Rows ``event`` and ``answer`` follow, in order.

The events of a round are on disk before the round is solved. The answer of a round is on disk after it has
taken effect. After a crash, the rounds continue with the first round without an answer. The file has all
events of this round or none. ``Rounds._resume`` (:mod:`copter.rounds.rounds`) reads the file. When events and
answers take more bytes than the state, a new state replaces all rows.

Values are pickled, because domains, events and answers are objects of users' own classes.
"""

from __future__ import annotations

import pickle
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from os import PathLike
from pathlib import Path
from typing import Any

from copter.durable.log import Log, checksum
from copter.errors import CopterError

_VERSION = 1
_APPLICATION = int.from_bytes(b"copr")
_SCHEMA = """
CREATE TABLE entries (number INTEGER PRIMARY KEY, round INTEGER NOT NULL, kind TEXT NOT NULL,
    content BLOB NOT NULL, crc INTEGER NOT NULL);
"""
_LEAST = 1 << 16
"""Least number of bytes of events and answers before a new state is written."""
_MOST = 1 << 30
"""Largest number of bytes of an entry, due to a limit of SQLite."""


class RoundJournal(Log):
    """Journal of rounds, which one process at a time can open.

    Raises
    ------
    FileError
        If the file is damaged or not a journal of rounds.
    CopterError
        If the file is open already.
    """

    def __init__(self, path: str | PathLike[str]) -> None:
        file = Path(path)
        lock = file.with_name(f"{file.name}.lock")
        super().__init__(file, _SCHEMA, _VERSION, application=_APPLICATION, lock=lock)
        self._size = self._since = 0
        self._behind = False

    def state(self) -> tuple[int, Any] | None:
        """Return the round at which the state was written, and the state; None for a new file."""
        rows = self.rows("SELECT round, content, crc FROM entries WHERE kind = 'state'")
        if not rows:
            return None
        self._size = len(rows[0][1])
        return rows[0][0], self._read(*rows[0])

    def since(self) -> Iterator[tuple[str, Any]]:
        """Yield the kind and the content of each entry after the state, in order."""
        query = "SELECT kind, round, content, crc FROM entries WHERE kind != 'state' ORDER BY number"
        for kind, *entry in self.rows(query):
            self._since += len(entry[1])
            yield kind, self._read(*entry)

    def begin(self, round: int, state: Any) -> None:
        """Replace all entries with a state."""
        content = self.pack(state)
        with self.writing():
            self.database.execute("DELETE FROM entries")
            self._put(round, "state", content)
        self._size, self._since = len(content), 0

    def add_events(self, round: int, events: Sequence[bytes]) -> None:
        """Write the packed events of a round that is not accepted yet."""
        with self.writing():
            for content in events:
                self._put(round, "event", content)

    def add_answer(self, round: int, answer: bytes) -> bool:
        """Write the packed answer of a round, and so accept the round; return whether a new state is due."""
        with self.writing():
            self._put(round, "answer", answer)
        return self._since > max(_LEAST, self._size)

    def pack(self, value: Any) -> bytes:
        """Return the bytes of an event, an answer or a state.

        Raise CopterError if the value cannot be pickled, if the journal is closed, or if an earlier write
        failed.
        """
        if self._lock < 0:
            raise CopterError(f"{self.path}: the journal is closed")
        if self._behind:
            raise CopterError(f"{self.path}: an earlier write of the journal failed; open it again")
        try:
            content = pickle.dumps(value, protocol=5)
        except (pickle.PicklingError, TypeError, AttributeError) as why:
            kind = type(value).__name__
            raise CopterError(f"{self.path}: a {kind} cannot be pickled: {why}") from why
        if len(content) > _MOST:
            size = f"has {len(content):,} bytes; it must have at most {_MOST:,}"
            raise CopterError(f"{self.path}: a {type(value).__name__} {size}")
        return content

    def _put(self, round: int, kind: str, content: bytes) -> None:
        self.database.execute(
            "INSERT INTO entries (round, kind, content, crc) VALUES (?, ?, ?, ?)",
            (round, kind, content, checksum(content, round)),
        )
        self._since += len(content)

    @contextmanager
    def writing(self) -> Iterator[None]:
        """Write in a transaction; after a failure the file is out of date and takes no more entries."""
        self._behind = True
        with self._as_os_error(), super().writing():
            yield
        self._behind = False

    def _read(self, round: int, content: bytes, crc: int) -> Any:
        if checksum(content, round) != crc:
            raise self.wrong(f"an entry of round {round} is damaged")
        return pickle.loads(content)
