"""SQLite files as journals use them: of a known version, and what is committed is on disk.

Used by the journal of a program (:mod:`copter.durable.journal`) and by that of the live service.
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
    """Open an SQLite file, or make it with its tables, unless it is to be read only.

    `schema`: statements that make missing tables. `version`: of the schema, which the file must have.
    `application`: SQLite's number for the application. `page_size`: of a new file, in bytes. Raise FileError
    if it is no SQLite file or of another application or version, OSError if it cannot be opened.
    """
    if read_only:
        path.open("rb").close()  # SQLite's error would not say why
    else:  # SQLite's other files get its mode
        if not path.exists() and path.with_name(f"{path.name}-wal").exists():
            raise FileError(path, "is missing, though its write-ahead log is there")
        os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600))
    where = f"file:{quote(str(path))}" + ("?mode=ro" if read_only else "")
    database = sqlite3.connect(where, uri=True, isolation_level=None, check_same_thread=False)
    try:
        (tables,) = database.execute("SELECT count(*) FROM sqlite_master").fetchone()
        if tables or read_only:
            (made_by,) = database.execute("PRAGMA application_id").fetchone()
            (found,) = database.execute("PRAGMA user_version").fetchone()
            if made_by != application:
                raise FileError(path, "is none of copter's files of this kind")
            if found != version:
                raise FileError(path, f"is of version {found} of the format; this copter reads {version}")
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
    """Make the statements within all or not at all; on disk when the block ends without an error."""
    database.execute("BEGIN IMMEDIATE")
    try:
        yield
        database.execute("COMMIT")
    except BaseException:
        if database.in_transaction:
            database.execute("ROLLBACK")
        raise
