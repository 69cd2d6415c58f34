"""Log: an SQLite file with a version, in which every transaction is on disk when it ends.

The file of a program (:mod:`copter.durable.program_file`), the journal of rounds and the journal of the live
service are logs.
"""

from __future__ import annotations

import errno
import os
import sqlite3
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import quote

from copter.durable.files import lock_file
from copter.errors import FileError


class Log:
    """SQLite file, which is created with its tables if it is missing, unless `read_only`.

    Parameters
    ----------
    path : Path
    schema : str
        Statements that create the tables of a new file.
    version : int
        Version that an existing file must have.
    application : int
        SQLite's application id.
    page_size : int
        Bytes of a page of a new file.
    read_only : bool
    lock : Path, optional
        File that is locked while the log is open, so that one process at a time can open it.

    Raises
    ------
    FileError
        If the file is not an SQLite file, or of another application or version.
    CopterError
        If the log is locked already.
    OSError
        If the file cannot be opened.
    """

    def __init__(
        self,
        path: Path,
        schema: str,
        version: int,
        *,
        application: int = 0,
        page_size: int = 4096,
        read_only: bool = False,
        lock: Path | None = None,
    ) -> None:
        self.path = path
        self._lock = -1 if lock is None else lock_file(lock, f"{path}: is open already")
        try:
            self.database = _connect(path, schema, version, application, page_size, read_only)
        except BaseException:
            self._unlock()
            raise

    def close(self) -> None:
        """Close the file; a second call does nothing."""
        self.database.close()
        self._unlock()

    def _unlock(self) -> None:
        if self._lock >= 0:
            os.close(self._lock)
        self._lock = -1

    @contextmanager
    def writing(self) -> Iterator[None]:
        """Run the statements of a ``with`` block in a transaction, which is on disk when the block ends."""
        self.database.execute("BEGIN IMMEDIATE")
        try:
            yield
            self.database.execute("COMMIT")
        except BaseException:
            if self.database.in_transaction:
                self.database.execute("ROLLBACK")
            raise

    @contextmanager
    def _as_os_error(self) -> Iterator[None]:
        """Convert an error of SQLite to OSError, which names the file."""
        try:
            yield
        except sqlite3.Error as wrong:
            raise OSError(errno.EIO, f"cannot be written: {wrong}", str(self.path)) from wrong

    def rows(self, query: str, *values: object) -> list[Any]:
        """Return the rows of a query; raise FileError if the file is damaged."""
        try:
            return self.database.execute(query, values).fetchall()
        except (sqlite3.Error, UnicodeDecodeError, OverflowError) as wrong:
            raise self.wrong(f"is damaged: {wrong}") from wrong

    def wrong(self, why: str) -> FileError:
        """Return an error that names the file."""
        return FileError(self.path, why)


def checksum(content: bytes, *key: object) -> int:
    """Return the CRC-32 of an entry and its key, because SQLite does not check all of its pages."""
    return zlib.crc32(content, zlib.crc32(repr(key).encode()))


def _connect(
    path: Path, schema: str, version: int, application: int, page_size: int, read_only: bool
) -> sqlite3.Connection:
    """Open an SQLite file, or create it with its tables."""
    if read_only:
        path.open("rb").close()  # raises OSError with the reason, which SQLite's error does not have
    else:  # created first, because SQLite gives its other files the mode of this file
        if not path.exists() and path.with_name(f"{path.name}-wal").exists():
            raise FileError(path, "is missing, but its write-ahead log exists")
        os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600))
    where = f"file:{quote(str(path))}" + ("?mode=ro" if read_only else "")
    database = sqlite3.connect(where, uri=True, isolation_level=None, check_same_thread=False)
    try:
        (tables,) = database.execute("SELECT count(*) FROM sqlite_master").fetchone()
        if tables or read_only:
            (made_by,) = database.execute("PRAGMA application_id").fetchone()
            (found,) = database.execute("PRAGMA user_version").fetchone()
            if made_by != application:
                raise FileError(path, "is not a file of copter of this kind")
            if found != version:
                raise FileError(
                    path, f"has version {found} of the format; this copter reads version {version}"
                )
        if not read_only:
            database.execute(f"PRAGMA page_size = {page_size}")
            database.execute("PRAGMA journal_mode = WAL")
            database.execute("PRAGMA synchronous = FULL")
            if not tables:
                database.executescript(
                    f"BEGIN; {schema} PRAGMA application_id = {application}; "
                    f"PRAGMA user_version = {version}; COMMIT"
                )
    except (sqlite3.Error, UnicodeDecodeError) as wrong:
        database.close()
        raise FileError(path, f"cannot be read: {wrong}") from wrong
    except BaseException:
        database.close()
        raise
    return database
