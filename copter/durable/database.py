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
    path: Path, schema: str, version: int, *, application: int = 0, read_only: bool = False
) -> sqlite3.Connection:
    """Open a file, or make it with its tables, unless it is to be read only.

    Parameters
    ----------
    schema : str
        Statements that make the tables where they are not there.
    version : int
        Version of the schema, which the file must have.
    application : int
        SQLite's number for the application whose files these are.

    Raises
    ------
    FileError
        It is no SQLite file, or one of another application or version.
    OSError
        It cannot be opened.
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
            found = tuple(
                database.execute(f"PRAGMA {name}").fetchone()[0]
                for name in ("application_id", "user_version")
            )
            if found[0] != application:
                raise FileError(path, "is none of copter's files of this kind")
            if found[1] != version:
                raise FileError(path, f"is of version {found[1]} of the format; this copter reads {version}")
        if not read_only:
            database.execute("PRAGMA page_size = 16384")  # of a new file: long values are written faster
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
