"""The folder of a run: everything needed to read it later, and to run it again.

General to all domains: a domain says what its columns and its fields mean, the folder writes them down.
"""

from __future__ import annotations

import csv
import json
import shlex
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from copter.cli.console import plain
from copter.errors import CopterError

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_CONFIG = "config.json"


class RunFolderError(CopterError):
    """The run folder cannot be used."""


class RowFile:
    """A CSV file that grows by a row per round, so that an interrupted run keeps what it has."""

    def __init__(self, path: Path, columns: Sequence[str]) -> None:
        self._file = path.open("w", newline="")
        self._writer = csv.DictWriter(self._file, columns)
        self._writer.writeheader()

    def write(self, row: Mapping[str, Any]) -> None:
        """Append a row and hand it to the operating system."""
        self._writer.writerow(row)
        self._file.flush()

    def close(self) -> None:
        """Close the file."""
        self._file.close()


@dataclass
class RunFolder:
    """A folder that a run writes into; `title` is the first line of its README.txt."""

    path: Path
    title: str
    _contents: dict[str, str] = field(default_factory=dict)
    _open: list[RowFile] = field(default_factory=list)

    @classmethod
    def create(
        cls,
        path: Path,
        title: str,
        command: Sequence[str],
        config: Mapping[str, Any],
        *,
        force: bool = False,
    ) -> Self:
        """Make the folder and write config.json and versions.json.

        A folder of an earlier run is used again only by ``force``; one that holds anything else never is.

        Raises
        ------
        RunFolderError
            `path` is a file, or a folder with other content, or with a run and not ``force``.
        """
        if path.exists() and not path.is_dir():
            raise RunFolderError(f"{path} is a file: give --out a folder that does not exist yet")
        if path.is_dir() and any(path.iterdir()) and not (path / _CONFIG).is_file():
            raise RunFolderError(
                f"{path} holds other things than a run: give --out a new folder, or empty this one"
            )
        if (path / _CONFIG).is_file() and not force:
            raise RunFolderError(
                f"{path} holds an earlier run: give --out a new folder, or --force to replace it"
            )
        path.mkdir(parents=True, exist_ok=True)
        from copter.bench.machine import versions

        folder = cls(path, title)
        started = datetime.now(UTC).isoformat(timespec="seconds")
        folder.write_json(
            _CONFIG,
            {"command": shlex.join(command), "started": started, **config},
            "the command line, the seed and every setting of this run",
        )
        folder.write_json("versions.json", versions(), "versions of Python and of the packages that compute")
        return folder

    def write_json(self, name: str, document: Mapping[str, Any], meaning: str) -> None:
        """Write one JSON object; `meaning` is what README.txt says of the file."""
        (self.path / name).write_text(json.dumps(plain(document), indent=2, allow_nan=False) + "\n")
        self._contents[name] = meaning

    def rows(self, name: str, columns: Mapping[str, str], meaning: str) -> RowFile:
        """Open a CSV file of rows, closed with the folder.

        Parameters
        ----------
        columns : mapping of str to str
            Name of each column, and what README.txt says of it.
        """
        self._note(name, columns, meaning)
        opened = RowFile(self.path / name, list(columns))
        self._open.append(opened)
        return opened

    def write_rows(
        self, name: str, columns: Mapping[str, str], rows: Iterable[Mapping[str, Any]], meaning: str
    ) -> None:
        """Write a whole CSV file of rows, values by the names of the columns; see :meth:`rows`."""
        opened = self.rows(name, columns, meaning)
        for row in rows:
            opened.write(row)

    def note(self, name: str, meaning: str) -> None:
        """Say what a file is that was written by somebody else."""
        self._contents[name] = meaning

    def _note(self, name: str, columns: Mapping[str, str], meaning: str) -> None:
        lines = [meaning, *(f"    {column}: {explained}" for column, explained in columns.items())]
        self._contents[name] = "\n".join(lines)

    def save_figure(self, name: str, figure: Figure, meaning: str) -> None:
        """Write a figure as PNG."""
        figure.savefig(self.path / name, dpi=120)
        self._contents[name] = meaning

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close the files and write README.txt, which says so if the run did not come to its end."""
        for opened in self._open:
            opened.close()
        lines = [self.title, "", f"Run it again with the command in {_CONFIG}.", ""]
        if error is not None:
            lines += [f"INCOMPLETE: the run ended early ({type(error).__name__}).", ""]
        for name, meaning in sorted(self._contents.items()):
            lines += [name, f"  {meaning}", ""]
        (self.path / "README.txt").write_text("\n".join(lines))


def default_path(domain: str) -> Path:
    """Return the folder of a run that was not given one: runs/<domain>-<time>."""
    return Path("runs") / f"{domain}-{datetime.now():%Y%m%d-%H%M%S}"
