"""Run folders: the results of a run, the settings that repeat it, and a description of every file.

All domains have the same kind of folder. A domain describes its columns and files, and README.txt lists them.
"""

from __future__ import annotations

import csv
import shlex
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import IO, Any, NamedTuple

from copter.bench.report.model import Claim
from copter.cli.console import save_json
from copter.errors import CopterError

_CONFIG = "config.json"
_PAGE = "report.html"


class RunFolderError(CopterError):
    """The run folder cannot be used, because it is a file, or contains other files or an earlier run."""


class Rows(NamedTuple):
    """Descriptions of a CSV file and of its columns; `other` describes every column that is not listed."""

    meaning: str
    columns: Mapping[str, str]
    other: str = ""


class RunFolder:
    """The folder to which a run writes; config.json and versions.json are written at once.

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
    files : mapping of str to Rows
        CSV files that the run may write.
    force : bool
        True to replace an earlier run in the folder.

    Raises
    ------
    RunFolderError
        If `path` is a file or a folder with other content, or if it contains a run and `force` is false.
    """

    def __init__(
        self,
        path: Path,
        title: str,
        command: Sequence[str],
        config: Mapping[str, Any],
        files: Mapping[str, Rows],
        *,
        force: bool = False,
    ) -> None:
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

        self.path, self.title = path, title
        self._files = files
        self._contents: dict[str, str] = {}
        self._open: dict[str, tuple[IO[str], csv.DictWriter[str]]] = {}
        started = datetime.now(UTC).isoformat(timespec="seconds")
        self.write_json(
            _CONFIG,
            {"command": shlex.join(command), "started": started, **config},
            "command line, seed and settings of this run",
        )
        self.write_json("versions.json", versions(), "versions of Python and of the numerical packages")

    def write_json(self, name: str, document: Mapping[str, Any], meaning: str) -> None:
        """Write a JSON file; `meaning` is its description in README.txt."""
        save_json(document, self.path / name)
        self._contents[name] = meaning

    def write(self, name: str, row: Mapping[str, Any]) -> None:
        """Append a row to a CSV file at once; fields that the first row does not have are left out."""
        if name not in self._open:
            rows, new = self._files[name], (self.path / name).open("w", newline="")
            explained = (f"    {column}: {rows.columns.get(column, rows.other)}" for column in row)
            self._contents[name] = "\n".join((rows.meaning, *explained))
            self._open[name] = new, csv.DictWriter(new, list(row), extrasaction="ignore")
            self._open[name][1].writeheader()
        file, writer = self._open[name]
        writer.writerow(row)
        file.flush()

    def write_page(self, title: str, sections: Sequence[Claim]) -> None:
        """Write report.html, a page of tables and pictures that refers to no other file."""
        from copter.bench.report.page import write_page

        write_page(self.path / _PAGE, title, sections)
        self._contents[_PAGE] = "tables and pictures of this run in one page, which needs no other file"

    def close(self, error: BaseException | None = None) -> None:
        """Close the files and write README.txt, with a remark if the run ended early."""
        for file, _ in self._open.values():
            file.close()
        lines = [self.title, "", f"The command in {_CONFIG} repeats this run.", ""]
        if error is not None:
            lines += [f"INCOMPLETE: the run ended early ({type(error).__name__}).", ""]
        for name, meaning in sorted(self._contents.items()):
            lines += [name, f"  {meaning}", ""]
        (self.path / "README.txt").write_text("\n".join(lines))
