"""A file of named blocks: arrays as they lie in memory, and a header that says what they are.

    magic, version, length of the header, CRC-32 of the three and the header     24 bytes
    header: JSON; ``facts`` and, of every block, name, length, CRC-32
    the blocks, one after the other, nothing between them and nothing behind

All numbers are little-endian.  Every byte of the file is covered by a checksum or compared, and every length
is held against the size of the file before memory is asked for.
"""

from __future__ import annotations

import json
import os
import struct
import sys
import zlib
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from copter.durable.files import write_whole
from copter.errors import FileError

VERSION = 3
_HEAD = struct.Struct("<8sIQI")
_CHUNK = 1 << 22
_SWAPPED = sys.byteorder == "big"


class Blocks:
    """Named arrays and bytes, and facts: what JSON can say.

    Parameters
    ----------
    path : Path, optional
        Where they came from, for messages.
    """

    def __init__(self, path: Path | None = None) -> None:
        self.path = path
        self.facts: dict[str, Any] = {}
        self._content: dict[str, NDArray[np.uint8]] = {}
        self._prefix = ""

    def section(self, name: str) -> Blocks:
        """Blocks and facts of their own in the same file, whose names can be those of others."""
        facts = self.facts.setdefault(name, {})
        if type(facts) is not dict:
            raise self.wrong(f"has no section {name!r}")
        part = Blocks(self.path)
        part.facts, part._content, part._prefix = facts, self._content, f"{self._prefix}{name}/"
        return part

    def put(self, name: str, array: NDArray[Any] | bytes) -> None:
        """Name an array, which must not change until the file is written, or bytes."""
        if isinstance(array, bytes):
            self._content[self._prefix + name] = np.frombuffer(array, np.uint8)
            return
        flat = np.ascontiguousarray(array)
        if _SWAPPED:
            flat = flat.astype(flat.dtype.newbyteorder("<"))
        self._content[self._prefix + name] = flat.reshape(-1).view(np.uint8)

    def __contains__(self, name: str) -> bool:
        return self._prefix + name in self._content

    def take(self, name: str, dtype: Any) -> NDArray[Any]:
        """The vector of this name, to keep."""
        content = self.raw(name)
        size = np.dtype(dtype).itemsize
        if content.size % size:
            raise self.wrong(f"block {name!r} ends within a number")
        return content.view(np.dtype(dtype).newbyteorder("<")).astype(dtype, copy=False)

    def raw(self, name: str) -> NDArray[np.uint8]:
        """The bytes of this name."""
        if name not in self:
            raise self.wrong(f"has no block {self._prefix + name!r}")
        return self._content[self._prefix + name]

    def fact(self, name: str, kind: type) -> Any:
        """The fact of this name, of a type."""
        value = self.facts.get(name)
        if type(value) is not kind:
            raise self.wrong(f"{name} = {value!r} is not of the type {kind.__name__}")
        return value

    def wrong(self, why: str) -> FileError:
        """The error that names the file."""
        return FileError(self.path, why)

    def write(self, path: Path, magic: bytes) -> None:
        """Write all to a file, whole or not at all.

        Parameters
        ----------
        magic : bytes
            What the file begins with.

        Raises
        ------
        OSError
            It cannot be written.
        """
        listed = [[name, content.size, zlib.crc32(content.data)] for name, content in self._content.items()]
        header = json.dumps({"facts": self.facts, "blocks": listed}, allow_nan=False).encode()
        head = _HEAD.pack(magic, VERSION, len(header), 0)[:-4]
        check = struct.pack("<I", zlib.crc32(header, zlib.crc32(head)))

        def write(file: BinaryIO) -> None:
            file.write(head + check + header)
            for content in self._content.values():
                file.write(content.data)

        write_whole(path, write)

    @classmethod
    def read(cls, path: Path, magic: bytes, what: str) -> Blocks:
        """Read a file that :meth:`write` wrote.

        Parameters
        ----------
        magic : bytes
            What it must begin with.
        what : str
            What the file should be, for messages.

        Raises
        ------
        FileError
            It is something else, damaged, or ends early.
        OSError
            It cannot be opened or read.
        """
        blocks = cls(path)
        with path.open("rb", buffering=0) as file:
            size = os.fstat(file.fileno()).st_size
            listed = blocks._read_header(file, size, magic, what)
            for name, length, check in listed:
                content = np.empty(length, np.uint8)
                if _read_into(file, content) != check:
                    raise blocks.wrong(f"is damaged: the checksum of block {name!r} is wrong")
                blocks._content[name] = content
        return blocks

    def _read_header(self, file: Any, size: int, magic: bytes, what: str) -> list[tuple[str, int, int]]:
        head = _read(file, _HEAD.size)
        if head[: len(magic)] != magic[: len(head)] or not head:
            raise self.wrong(f"is no {what}")
        if len(head) < _HEAD.size:
            raise self.wrong("ends early")
        _, version, length, check = _HEAD.unpack(head)
        if length > size - _HEAD.size:
            raise self.wrong("ends early")
        header = _read(file, length)
        if zlib.crc32(header, zlib.crc32(head[:-4])) != check:
            raise self.wrong("is damaged: the checksum of its header is wrong")
        if version != VERSION:
            raise self.wrong(f"is of version {version} of the format; this copter reads {VERSION}")
        try:
            found = json.loads(header)
            self.facts = dict(found["facts"])
            listed = [(str(name), int(length), int(check)) for name, length, check in found["blocks"]]
        except (ValueError, KeyError, TypeError, RecursionError):
            raise self.wrong("has a header that makes no sense") from None
        left = size - _HEAD.size - length
        if any(length < 0 for _, length, _ in listed) or sum(length for _, length, _ in listed) != left:
            raise self.wrong("is longer or shorter than its header says")
        return listed


def _read(file: Any, length: int) -> bytes:
    """So many bytes, fewer at the end of the file."""
    content = np.empty(length, np.uint8)
    return content[: _fill(file, content)[0]].tobytes()


def _read_into(file: Any, content: NDArray[np.uint8]) -> int:
    """Fill an array from a file; returns the CRC-32 of what was read."""
    return _fill(file, content)[1]


def _fill(file: Any, content: NDArray[np.uint8]) -> tuple[int, int]:
    at, check = 0, 0
    while at < content.size:  # checked while it is in the processor's cache
        got = file.readinto(content[at : at + _CHUNK].data)
        if not got:
            break
        check = zlib.crc32(content[at : at + got].data, check)
        at += got
    return at, check
