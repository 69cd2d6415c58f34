"""Checkpoints of a job: files of named arrays in its folder, each written atomically.

``checkpoint-RUN-STEP.npz`` has numpy's format, is read without pickle, and has checksums of its members.  The
latest checkpoint is that of the latest run and, within this run, of the latest step.  So a run that counts as
dead but still writes does not disturb its successor.  The last two checkpoints are kept, because the previous
one is read if the last one is damaged.
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
"""Errors that numpy raises for a file that is truncated, changed or not in its format."""


class Checkpoints:
    """The checkpoints in a job's folder, for one of its runs."""

    def __init__(self, folder: Path, run: int) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._folder, self._run = folder, run

    def write(self, step: int, arrays: Mapping[str, NDArray[Any]]) -> None:
        """Write a checkpoint, then remove all but the last two; if writing raises OSError, remove none."""
        name = f"checkpoint-{self._run}-{step}.npz"
        write_whole(self._folder / name, lambda file: np.savez(file, **arrays))  # type: ignore[arg-type]
        for path in self._paths()[_KEPT:]:
            path.unlink(missing_ok=True)
        for path in self._folder.glob(f".checkpoint-*{TEMPORARY}"):  # left by runs that were killed
            match = _NAME.match(path.name[1:])
            if match and int(match[1]) < self._run:
                path.unlink(missing_ok=True)

    def latest(self, say: Callable[[str], None]) -> dict[str, NDArray[Any]] | None:
        """Return the latest intact checkpoint; None if there is no checkpoint; `say` reports damaged ones.

        Raises FileError if all checkpoints are damaged, because only the user can decide to begin again.
        """
        paths = self._paths()
        for path in paths:
            try:
                with np.load(path, allow_pickle=False) as file:
                    return {name: file[name] for name in file.files}
            except _DAMAGE as error:
                say(f"{path} is damaged ({error}): reading the one before")
        if paths:
            raise FileError(self._folder, f"all {len(paths)} checkpoints are damaged")
        return None

    def _paths(self) -> list[Path]:
        found = [(_NAME.fullmatch(path.name), path) for path in self._folder.iterdir()]
        keyed = [(int(match[1]), int(match[2]), path) for match, path in found if match]
        return [path for _, _, path in sorted(keyed, reverse=True)]


class CheckpointTimer:
    """A timer that schedules checkpoints so that none is older than `seconds`.

    The age of a checkpoint is the time from the state that it saves until the next checkpoint is on disk.  A
    checkpoint is due if the last one would be too old after one more step and one more write, each 1.5 times
    as long as before.  So the limit is exceeded only if a step or a write takes longer than this, and only by
    the excess.  Before the first write, a write is assumed to take a tenth of `seconds`.
    """

    _MARGIN = 1.5

    def __init__(self, seconds: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._seconds, self._clock = seconds, clock
        self._held = self._stepped = clock()
        self._writing = seconds / 10

    def step(self) -> bool:
        """Record the end of a step; return whether a checkpoint must be written now."""
        now = self._clock()
        took, self._stepped = now - self._stepped, now
        return now - self._held + self._MARGIN * (took + self._writing) >= self._seconds

    def written(self, began: float) -> None:
        """Record that a checkpoint of the state at time `began` is on disk."""
        self._held, self._stepped = began, self._clock()
        self._writing = self._stepped - began
