"""Run folders: the results of a run, with the settings to repeat it and a description of every file.

They are the same for all domains. A domain describes its columns and files, and README.txt lists them.
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
    """The run folder cannot be used: it is a file, or contains other files or an earlier run."""


class RowFile:
    """A CSV file with a row per round; each row is written at once, so that an interrupted run keeps it."""

    def __init__(self, path: Path, columns: Sequence[str]) -> None:
        self._file = path.open("w", newline="")
        self._writer = csv.DictWriter(self._file, columns)
        self._writer.writeheader()

    def write(self, row: Mapping[str, Any]) -> None:
        """Append a row and flush the file."""
        self._writer.writerow(row)
        self._file.flush()

    def close(self) -> None:
        """Close the file."""
        self._file.close()


@dataclass
class RunFolder:
    """The folder that a run writes to; `title` is the first line of its README.txt."""

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
        """Create the folder and write config.json and versions.json.

        Parameters
        ----------
        path : Path
            The folder.
        title : str
            First line of README.txt.
        command : sequence of str
            Command line of the run.
        config : mapping
            Settings of the run, for config.json.
        force : bool
            True to replace an earlier run in the folder.

        Raises
        ------
        RunFolderError
            `path` is a file, or a folder with other content, or contains a run and `force` is false.
        """
        if path.exists() and not path.is_dir():
            raise RunFolderError(f"--out {path}: is a file: must be a folder or a new path")
        if path.is_dir() and any(path.iterdir()) and not (path / _CONFIG).is_file():
            raise RunFolderError(
                f"--out {path}: contains other files than a run: must be a new or an empty folder"
            )
        if (path / _CONFIG).is_file() and not force:
            raise RunFolderError(
                f"--out {path}: contains an earlier run: must be a new folder; add --force to replace the run"
            )
        path.mkdir(parents=True, exist_ok=True)
        from copter.bench.machine import versions

        folder = cls(path, title)
        started = datetime.now(UTC).isoformat(timespec="seconds")
        folder.write_json(
            _CONFIG,
            {"command": shlex.join(command), "started": started, **config},
            "command line, seed and settings of this run",
        )
        folder.write_json("versions.json", versions(), "versions of Python and of the numerical packages")
        return folder

    def write_json(self, name: str, document: Mapping[str, Any], meaning: str) -> None:
        """Write one JSON object; `meaning` is its description in README.txt."""
        (self.path / name).write_text(json.dumps(plain(document), indent=2, allow_nan=False) + "\n")
        self._contents[name] = meaning

    def rows(self, name: str, columns: Mapping[str, str], meaning: str) -> RowFile:
        """Open a CSV file, and return it; the folder closes it at the end of the run.

        Parameters
        ----------
        name : str
            Name of the file.
        columns : mapping of str to str
            Description of each column in README.txt, by the column's name.
        meaning : str
            Description of the file in README.txt.
        """
        self._note(name, columns, meaning)
        opened = RowFile(self.path / name, list(columns))
        self._open.append(opened)
        return opened

    def write_rows(
        self, name: str, columns: Mapping[str, str], rows: Iterable[Mapping[str, Any]], meaning: str
    ) -> None:
        """Write a CSV file from rows that map names of columns to values; arguments as in :meth:`rows`."""
        opened = self.rows(name, columns, meaning)
        for row in rows:
            opened.write(row)

    def note(self, name: str, meaning: str) -> None:
        """Add the description of a file that other code has written to README.txt."""
        self._contents[name] = meaning

    def _note(self, name: str, columns: Mapping[str, str], meaning: str) -> None:
        lines = [meaning, *(f"    {column}: {explained}" for column, explained in columns.items())]
        self._contents[name] = "\n".join(lines)

    def save_figure(self, name: str, figure: Figure, meaning: str) -> None:
        """Write a plot as a PNG file; `meaning` is its description in README.txt."""
        figure.savefig(self.path / name, dpi=120)
        self._contents[name] = meaning

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close the files and write README.txt, with a note if the run ended early."""
        for opened in self._open:
            opened.close()
        lines = [self.title, "", f"The command in {_CONFIG} repeats this run.", ""]
        if error is not None:
            lines += [f"INCOMPLETE: the run ended early ({type(error).__name__}).", ""]
        for name, meaning in sorted(self._contents.items()):
            lines += [name, f"  {meaning}", ""]
        (self.path / "README.txt").write_text("\n".join(lines))


def default_path(domain: str) -> Path:
    """Return the default folder of a run: runs/<domain>-<time>."""
    return Path("runs") / f"{domain}-{datetime.now():%Y%m%d-%H%M%S}"
