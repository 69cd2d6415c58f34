"""A file of rounds: records that are appended, durable one by one, and found again after any crash.

    head      magic, version, key of the journal, round before the first, CRC-32; 64 bytes
    record    magic, round, length, CRC-32 of the content, CRC-32 of these; the mark; 64 bytes
              content, filled up to a multiple of 64 with zeros

A record is written and synced without its mark, then the mark is, and synced: a mark says that the content
was on disk before.  So what a crash leaves is a record without a mark, or part of one, at the end of the
file; it was no completed round and is cut off.  (If power was lost its head may be zeros though its content
is there.)  A marked record whose content is wrong is damage, as is a record without a mark that others
follow, and is refused.  A head of 64 bytes never straddles a sector.
"""

from __future__ import annotations

import os
import struct
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from copter.durable.files import write_whole
from copter.errors import FileError

VERSION = 1
_MAGIC, _RECORD, _MARK = b"\x89COPJRN\n", b"ROUND\r\n\0", b"\x89WRITTEN"
_HEAD, _ENTRY = struct.Struct("<8sIQQ"), struct.Struct("<8sQQI")
_CHECK = struct.Struct("<I")
UNIT = 64
_MARK_AT = UNIT - len(_MARK)
_NOTHING = bytes(UNIT)
_sync = getattr(os, "fdatasync", os.fsync)


class Record(NamedTuple):
    """A completed round: its number and content."""

    round: int
    content: bytes


def _sealed(fields: bytes) -> bytes:
    """64 bytes: the fields, their checksum, zeros."""
    return (fields + _CHECK.pack(zlib.crc32(fields))).ljust(UNIT, b"\0")


def create_records(path: Path, key: int, base: int) -> None:
    """Write a file without records.

    Parameters
    ----------
    key : int
        Drawn at random, of the journal that the file belongs to.
    base : int
        The round before the first record.
    """
    write_whole(path, lambda file: file.write(_sealed(_HEAD.pack(_MAGIC, VERSION, key, base))))


class RecordFile:
    """A file of rounds, opened to be read once and then to be appended to.

    Parameters
    ----------
    key, base : int
        What the file's head must say.

    Raises
    ------
    FileError
        The head is damaged, or another journal's.
    """

    def __init__(self, path: Path, key: int, base: int) -> None:
        self.path, self.round = path, base
        self._file = path.open("r+b", buffering=0)
        self.end = UNIT
        head = self._file.read(UNIT)
        try:
            self._check_head(head, key, base)
        except FileError:
            self.close()
            raise

    def _check_head(self, head: bytes, key: int, base: int) -> None:
        if head[: len(_MAGIC)] != _MAGIC:
            raise self._wrong("is no journal")
        magic, version, its, first = _HEAD.unpack(head[: _HEAD.size].ljust(_HEAD.size, b"\0"))
        if head != _sealed(_HEAD.pack(magic, version, its, first)):
            raise self._wrong("is damaged: the checksum of its head is wrong")
        if version != VERSION:
            raise self._wrong(f"is of version {version} of the format; this copter reads {VERSION}")
        if (its, first) != (key, base):
            raise self._wrong("belongs to another journal than the snapshot beside it")

    def records(self) -> Iterator[Record]:
        """Every completed round; what a crash left behind the last one is cut off.

        Raises
        ------
        FileError
            A completed round is damaged.
        """
        size = os.fstat(self._file.fileno()).st_size
        while (record := self._next(size)) is not None:
            self.round += 1
            yield record
        if size > self.end:
            os.ftruncate(self._file.fileno(), self.end)
            os.fsync(self._file.fileno())

    def _next(self, size: int) -> Record | None:
        """The record at the end so far; None if there is none, or one that was not completed."""
        left, expected = size - self.end, self.round + 1
        if left < UNIT:
            return None
        head = self._read(self.end, UNIT)
        if head == _NOTHING:
            if self._completed_follows(left):
                raise self._damaged(expected, "is missing, and something follows")
            return None  # its content may be there: a disk need not write in order
        fields, mark = head[: _ENTRY.size], head[_MARK_AT:]
        if head != _sealed(fields)[:_MARK_AT] + mark or mark not in (_MARK, _NOTHING[: len(_MARK)]):
            raise self._damaged(expected, "is damaged: the checksum of its head is wrong")
        magic, round, length, check = _ENTRY.unpack(fields)
        if magic != _RECORD or round != expected:
            raise self._damaged(expected, f"is missing: there is round {round}")
        room = UNIT + length + -length % UNIT
        if left < room:
            return None
        if mark != _MARK:
            if left > room:
                raise self._damaged(expected, "was not completed, but something follows")
            return None
        content = self._read(self.end + UNIT, room - UNIT)
        if zlib.crc32(content[:length]) != check or any(content[length:]):
            raise self._damaged(expected, "is damaged: its checksum is wrong")
        self.end += room
        return Record(round, content[:length])

    def _completed_follows(self, left: int) -> bool:
        """Whether the head of a completed record is anywhere in what is left of the file."""
        content = self._read(self.end, left)
        at = content.find(_RECORD)
        while at >= 0:
            head = content[at : at + UNIT]
            if at % UNIT == 0 and head == _sealed(head[: _ENTRY.size])[:_MARK_AT] + _MARK:
                return True
            at = content.find(_RECORD, at + 1)
        return False

    def append(self, content: bytes) -> None:
        """Write the next round; it is complete, and on disk, when this returns.

        Raises
        ------
        OSError
            It could not be written; the file holds the rounds that it held before.
        """
        handle, at, filling = self._file.fileno(), self.end, -len(content) % UNIT
        end, number = at + UNIT + len(content) + filling, self.round + 1
        fields = _ENTRY.pack(_RECORD, number, len(content), zlib.crc32(content))
        if os.fstat(handle).st_size > at:  # of a record that was interrupted, and so was its removal
            os.ftruncate(handle, at)
        try:
            self._write(at, b"".join((_sealed(fields), content, bytes(filling))))
            _sync(handle)
            self._write(at + _MARK_AT, _MARK)
            _sync(handle)
        except BaseException:  # Ctrl-C too: what is left behind the end would outlive a shorter record
            os.ftruncate(handle, at)
            raise
        self.end, self.round = end, number  # no call comes between: Ctrl-C cannot

    def close(self) -> None:
        """Close the file; it can be called again."""
        self._file.close()

    def _write(self, at: int, content: bytes) -> None:
        left = memoryview(content)
        while left:
            written = os.pwrite(self._file.fileno(), left, at)
            left, at = left[written:], at + written

    def _read(self, at: int, length: int) -> bytes:
        content = bytearray(length)
        view, got = memoryview(content), 0
        self._file.seek(at)
        while got < length and (count := self._file.readinto(view[got:])):
            got += count
        return bytes(content)

    def _damaged(self, round: int, why: str) -> FileError:
        return self._wrong(f"round {round} {why}")

    def _wrong(self, why: str) -> FileError:
        return FileError(self.path, why)
