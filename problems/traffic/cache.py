"""Path sets kept on disk, by the content of what they were computed from."""

from __future__ import annotations

import hashlib
import logging
import os
import sys
import zipfile
import zlib
from pathlib import Path
from uuid import uuid4

import numpy as np
from numpy.typing import NDArray

from copter.problems.traffic.paths import PathError, PathSet

log = logging.getLogger("copter")

FORMAT = 1
"""Goes up when the file or the choice of paths changes, so that older files are not found again."""

_ARRAYS = ("source", "target", "first", "pointer", "link")
# What reading a file that was cut short, overwritten or is no archive at all can raise.
_DAMAGE = (OSError, ValueError, KeyError, EOFError, zipfile.BadZipFile, zlib.error, NotImplementedError)


def cache_folder() -> Path:
    """Folder of cached files: ``COPTER_CACHE`` if set, or else ``copter`` in the user's cache folder."""
    if named := os.environ.get("COPTER_CACHE"):
        return Path(named).expanduser()
    if sys.platform == "darwin":
        base = Path.home() / "Library" / "Caches"
    elif sys.platform == "win32":
        base = Path(os.environ.get("LOCALAPPDATA") or Path.home() / "AppData" / "Local")
    else:
        base = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return base / "copter"


def content_hash(words: tuple[str | int, ...], *arrays: NDArray) -> str:
    """Name of what is made of these words and arrays and of nothing else."""
    digest = hashlib.blake2b(repr((FORMAT, *words)).encode(), digest_size=16)
    for array in arrays:
        digest.update(f"{array.dtype.str}{array.shape}".encode())
        digest.update(np.ascontiguousarray(array).data)
    return digest.hexdigest()


def path_file(folder: Path, key: str) -> Path:
    """Where the path set of a key lies."""
    return folder / f"paths-{key}.npz"


def load_paths(
    file: Path, source: NDArray[np.int32], target: NDArray[np.int32], n_links: int
) -> PathSet | None:
    """The path set in a file.

    Parameters
    ----------
    source, target : (pairs,) ndarray of int32
        Pairs that it must be for, in this order.
    n_links : int
        Links of the topology.

    Returns
    -------
    PathSet or None
        None if there is none or it is damaged (the archive has checksums).
    """
    if not file.is_file():
        return None
    try:
        with np.load(file, allow_pickle=False) as archive:
            paths = PathSet(*(archive[name] for name in _ARRAYS))
        if not (np.array_equal(paths.source, source) and np.array_equal(paths.target, target)):
            raise PathError("holds other pairs")
        if paths.link.size and not 0 <= paths.link.min() <= paths.link.max() < n_links:
            raise PathError("holds links that the topology does not have")
    except _DAMAGE as error:
        log.warning("%s cannot be used and is made again: %s", file, error)
        return None
    return paths


def save_paths(file: Path, paths: PathSet) -> None:
    """Write a path set so that a reader finds all of it or nothing; where it cannot, say so and go on."""
    part = file.with_name(f"{file.stem}.{uuid4().hex}.part")
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        try:
            with part.open("xb") as out:
                np.savez(out, **{name: getattr(paths, name) for name in _ARRAYS})
            part.replace(file)
        finally:
            part.unlink(missing_ok=True)
    except OSError as error:
        log.warning("paths are not kept: %s", error)
