"""SQLite files of journals: with a version, and with commits that are synced to disk.

The journal of a program (:mod:`copter.durable.journal`), the journal of rounds and the journal of the live
service use this module.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import quote

from copter.errors import FileError


def connect(
    path: Path,
    schema: str,
    version: int,
    *,
    application: int = 0,
    page_size: int = 4096,
    read_only: bool = False,
) -> sqlite3.Connection:
    """Open an SQLite file; create it with its tables unless `read_only`.

    `schema` has the statements that create the tables of a new file, and `version` the version that an
    existing file must have. `application` is SQLite's application id, and `page_size` the number of bytes of
    a page of a new file. Raise FileError if the file is not an SQLite file, or of another application or
    version. Raise OSError if it cannot be opened.
    """
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


@contextmanager
def transaction(database: sqlite3.Connection) -> Iterator[None]:
    """Run the statements of a ``with`` block in a transaction, which is on disk when the block ends."""
    database.execute("BEGIN IMMEDIATE")
    try:
        yield
        database.execute("COMMIT")
    except BaseException:
        if database.in_transaction:
            database.execute("ROLLBACK")
        raise
