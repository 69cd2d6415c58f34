"""SQLite file of a program: the items of a snapshot, and the edits of the rounds that follow it.

======== =========================================================================================
table    rows
======== =========================================================================================
items    named values: the values of the snapshot (:mod:`copter.durable.snapshot`); ``"snapshot"``, with
         its round and size; ``"last"``, with the last completed round and the state of the solver at its
         end
edits    the edits of the rounds after the snapshot
rounds   the completed rounds after the snapshot, with their numbers of edits
======== =========================================================================================

Values are encoded by :mod:`copter.durable.values` and split into pieces of 128 MiB, due to a limit of SQLite.
Each piece has a CRC-32, because SQLite does not check all of its pages.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from copter.durable.log import Log, checksum
from copter.durable.values import ValueFormatError, decode, encode

_VERSION = 4
_APPLICATION = int.from_bytes(b"copt")
PIECE = 1 << 27
"""Largest number of bytes of a value in one row."""
_PAGE = 1 << 14
"""Bytes of a page; long values are written faster than with SQLite's default of 4,096."""
_SCHEMA = """
CREATE TABLE items (name TEXT NOT NULL, piece INTEGER NOT NULL, content BLOB NOT NULL, crc INTEGER NOT NULL,
    PRIMARY KEY (name, piece));
CREATE TABLE edits (round INTEGER NOT NULL, number INTEGER NOT NULL, piece INTEGER NOT NULL,
    content BLOB NOT NULL, crc INTEGER NOT NULL, PRIMARY KEY (round, number, piece));
CREATE TABLE rounds (round INTEGER PRIMARY KEY, edits INTEGER NOT NULL);
"""
_Key = tuple[str] | tuple[int, int]


class ProgramFile(Log):
    """Program in an SQLite file, which is created if it is missing, unless `read_only`.

    Raise FileError if the file was not written by copter or has another version, and OSError if it cannot be
    opened.
    """

    def __init__(self, path: Path, *, read_only: bool = False) -> None:
        super().__init__(
            path, _SCHEMA, _VERSION, application=_APPLICATION, page_size=_PAGE, read_only=read_only
        )

    # ---- writing -------------------------------------------------------------------------------

    def begin_after(self, snapshot: Iterable[tuple[str, Any]], round: int, last: Mapping[str, Any]) -> int:
        """Replace the whole content by a snapshot (names and values) after a round.

        `last` has the kind and the state of the solver at the end of that round. Return the number of bytes
        of the snapshot. On OSError the content does not change.
        """
        with self._as_os_error(), self.writing():
            for table in ("items", "edits", "rounds"):
                self.database.execute(f"DELETE FROM {table}")
            size = sum(self._put("items", (name,), encode(value)) for name, value in snapshot)
            self._put("items", ("snapshot",), encode({"round": round, "size": size}))
            self._put_last(round, last)
        return size

    def add_round(self, round: int, edits: Sequence[bytes], last: Mapping[str, Any]) -> None:
        """Write a round, which is complete and on disk when this method returns.

        `last` has the kind and the state of the solver at the end of the round. On OSError the file does not
        change. A round can be written again, because an interrupt may occur after it was written and before
        the method returns.
        """
        with self._as_os_error(), self.writing():
            self.database.execute("DELETE FROM edits WHERE round = ?", (round,))
            for number, edit in enumerate(edits):
                self._put("edits", (round, number), edit)
            self.database.execute("INSERT OR REPLACE INTO rounds VALUES (?, ?)", (round, len(edits)))
            self._put_last(round, last)

    def _put_last(self, round: int, last: Mapping[str, Any]) -> None:
        self.database.execute("DELETE FROM items WHERE name = 'last'")
        self._put("items", ("last",), encode({"round": round, **last}))

    def _put(self, table: str, key: _Key, content: bytes) -> int:
        """Write a value, and return its number of bytes."""
        for piece, at in enumerate(range(0, max(len(content), 1), PIECE)):
            part = content[at : at + PIECE]
            row = (*key, piece, part, checksum(part, *key, piece))
            self.database.execute(f"INSERT INTO {table} VALUES ({', '.join('?' * len(row))})", row)
        return len(content)

    # ---- reading -------------------------------------------------------------------------------

    @property
    def begun(self) -> bool:
        """True once there is a snapshot."""
        return self.rows("SELECT count(*) FROM items")[0][0] > 0

    def get(self, name: str) -> Any:
        """Return an item's value; raise FileError if it is missing or damaged."""
        rows = self.rows("SELECT piece, content, crc FROM items WHERE name = ? ORDER BY piece", name)
        try:
            return decode(self._joined((name,), rows))
        except ValueFormatError as wrong:
            raise self.wrong(f"{name} cannot be read: {wrong}") from None

    def facts(self, name: str) -> dict[str, Any]:
        """Return the item ``"snapshot"`` or ``"last"``, a dictionary with the number of a round.

        Raise FileError if the item is missing or damaged, or has no number of a round.
        """
        found = self.get(name)
        if not isinstance(found, dict) or type(found.get("round")) is not int:
            raise self.wrong(f"item {name!r} must have the number of a round")
        return found

    def rounds(self, base: int, last: int) -> Iterator[tuple[int, Iterator[bytes]]]:
        """Iterate over number and edits of the rounds after a snapshot; raise FileError if one is damaged."""
        counts = self.rows("SELECT round, edits FROM rounds ORDER BY round")
        if [round for round, _ in counts] != list(range(base + 1, last + 1)):
            raise self.wrong(f"rounds are missing: must have the rounds {base + 1} to {last}")
        total = self.rows("SELECT count(*) FROM edits WHERE piece = 0")[0][0]
        if not all(type(count) is int for _, count in counts) or sum(count for _, count in counts) != total:
            raise self.wrong("the file must contain as many edits as its rounds have together")
        for round, count in counts:
            yield round, (self._edit(round, number) for number in range(count))

    def _edit(self, round: int, number: int) -> bytes:
        query = "SELECT piece, content, crc FROM edits WHERE round = ? AND number = ? ORDER BY piece"
        return self._joined((round, number), self.rows(query, round, number))

    def _joined(self, key: _Key, rows: list[Any]) -> bytes:
        """Return the bytes of a value from its pieces."""
        for piece, (number, content, check) in enumerate(rows):
            if piece != number or not isinstance(content, bytes) or checksum(content, *key, piece) != check:
                raise self.wrong(f"{_said(key)} is damaged: its checksum is wrong")
        if not rows:
            raise self.wrong(f"{_said(key)} is missing")
        return rows[0][1] if len(rows) == 1 else b"".join(content for _, content, _ in rows)


def _said(key: _Key) -> str:
    return f"item {key[0]!r}" if len(key) == 1 else f"edit {key[1]} of round {key[0]}"
