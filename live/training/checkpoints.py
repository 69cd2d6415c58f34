"""Checkpoints of a job: files of named arrays in its folder, each written whole.

``checkpoint-RUN-STEP.npz`` is numpy's own format, read without pickle; its members carry checksums.  The
latest is that of the latest run, and of its latest step: a run that was thought to be dead and writes on does
not get in the way of the one that took its place.  One that is damaged is passed over for the one before,
which is why two are kept.
"""

from __future__ import annotations

import re
import time
import zipfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from copter.durable.files import TEMPORARY, write_whole
from copter.errors import FileError

_KEPT = 2
_NAME = re.compile(r"checkpoint-(\d+)-(\d+)\.npz")
_DAMAGE = (OSError, EOFError, ValueError, KeyError, zipfile.BadZipFile)
"""Errors of numpy for a file that is not its own, cut short or changed."""


class Checkpoints:
    """The checkpoints of a job in its folder, as one of its runs writes them."""

    def __init__(self, folder: Path, run: int) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._folder, self._run = folder, run

    def write(self, step: int, arrays: Mapping[str, NDArray[Any]]) -> None:
        """Write a checkpoint, and remove those before the last two unless that fails with an OSError."""
        name = f"checkpoint-{self._run}-{step}.npz"
        write_whole(self._folder / name, lambda file: np.savez(file, **arrays))  # type: ignore[arg-type]
        for path in self._paths()[_KEPT:]:
            path.unlink(missing_ok=True)
        for path in self._folder.glob(f".checkpoint-*{TEMPORARY}"):  # of runs that were killed
            match = _NAME.match(path.name[1:])
            if match and int(match[1]) < self._run:
                path.unlink(missing_ok=True)

    def latest(self, say: Callable[[str], None]) -> dict[str, NDArray[Any]] | None:
        """Return the latest intact checkpoint, and `say` which ones are damaged; None if there is none.

        Raises FileError if all are damaged, because only a human can decide to begin again.
        """
        paths = self._paths()
        for path in paths:
            try:
                with np.load(path, allow_pickle=False) as file:
                    return {name: file[name] for name in file.files}
            except _DAMAGE as error:
                say(f"{path} is damaged ({error}): passed over")
        if paths:
            raise FileError(self._folder, f"all {len(paths)} checkpoints are damaged")
        return None

    def _paths(self) -> list[Path]:
        found = [(_NAME.fullmatch(path.name), path) for path in self._folder.iterdir()]
        keyed = [(int(match[1]), int(match[2]), path) for match, path in found if match]
        return [path for _, _, path in sorted(keyed, reverse=True)]


class CheckpointTimer:
    """A timer of the next checkpoint, so that none is older than `seconds`.

    The age of a checkpoint is counted from when its content was true until the next one is on disk.  One is
    written if it would be too old by the end of another step and another writing, each 1.5 times as long as
    the longest of late: the promise holds unless one takes longer than that, and fails by no more than that.
    Before the first was written, a tenth of the age is taken for the writing.
    """

    _MARGIN = 1.5
    _FORGET = 0.98
    """What is left, after a step, of the longest one's length."""

    def __init__(self, seconds: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._seconds, self._clock = seconds, clock
        self._held = self._stepped = clock()
        self._longest, self._writing = 0.0, seconds / 10
        self._first = True

    def step(self) -> bool:
        """Note the end of a step; return whether a checkpoint has to be written now."""
        now = self._clock()
        self._longest = max(now - self._stepped, self._FORGET * self._longest)
        self._stepped = now
        return now - self._held + self._MARGIN * (self._longest + self._writing) >= self._seconds

    def written(self, began: float) -> None:
        """Note that a checkpoint of what was true at a time is on disk."""
        self._held, self._stepped = began, self._clock()
        took = self._stepped - began
        self._writing = took if self._first else max(took, self._FORGET * self._writing)
        self._first = False
