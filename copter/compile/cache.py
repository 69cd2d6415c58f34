"""Where compiled kernels are kept: folders named by all that the machine code was made from.

numba's own cache looks at the file of a kernel alone. An edit of another file, from which the kernel takes
a callee or a constant, leaves the old machine code in use. Here the folder's name holds a hash of the
kernel's file, of the files of the kernels that it calls, of the constants that it imports, and of the
versions of numba and Python. Code compiled from anything else is in another folder, so it cannot be run,
and two versions of a source side by side (two branches, two processes around an edit) leave each other be.
"""

from __future__ import annotations

import logging
import os
import shutil
import sys
import tempfile
import time
from collections.abc import Callable
from functools import cache
from hashlib import blake2b
from inspect import unwrap
from pathlib import Path
from types import ModuleType
from typing import Any

import numba
import numpy as np
from numba import config

from copter.compile.extremes import Intrinsic

log = logging.getLogger("copter")

#: Folders of a module that always stay, the newest first, and the age in seconds below which none is removed.
KEPT, _YOUNG = 4, 24 * 3600.0

#: numba's settings by the names of its environment variables, which mypy does not know.
settings: Any = config

_folders: dict[tuple[str, str], str | None] = {}


def cache_folder(function: Callable[..., Any]) -> str | None:
    """The folder in which the machine code of a kernel is kept.

    It lies in ``NUMBA_CACHE_DIR`` where that is set, else in ``__pycache__`` beside the source, else (an
    install that cannot be written) in the user's cache. It exists afterwards. Older folders of the same
    module go, except for the newest ``KEPT`` and those of the last day.

    Parameters
    ----------
    function
        The Python function, when it is decorated: what it calls and imports is in its module's globals.

    Returns
    -------
    str or None
        None if there is no source to take a hash of, or nowhere to write, of which one warning is logged.
    """
    module, file = function.__module__, function.__code__.co_filename
    if (module, file) not in _folders:
        _folders[module, file] = _make_folder(module, file, function.__globals__)
    return _folders[module, file]


def _fingerprint(file: str, names: dict[str, Any]) -> str:
    """A hash of a module's source and of what its kernels can take from elsewhere.

    `file`: the module's source. `names`: the module's globals. Raises OSError: if a source cannot be read.
    """
    digest = blake2b(digest_size=10)
    digest.update(repr((numba.__version__, sys.implementation.cache_tag)).encode())
    sources = {file, *(str(Path(__file__).with_name(name)) for name in ("kernels.py", "array_record.py"))}
    _follow(file, names, sources, digest.update)
    for source in sorted(sources):
        digest.update(Path(source).read_bytes())
    return digest.hexdigest()


def _follow(file: str, names: dict[str, Any], sources: set[str], take: Callable[[bytes], None]) -> None:
    """Add the sources of the kernels that a module imports, and give every constant in it to ``take``.

    A kernel cannot use plain functions and classes, except for named tuples and records of arrays, which are
    known by their fields.
    """
    for name, value in sorted(names.items()):
        if name.startswith("__"):
            continue
        if hasattr(value, "py_func") or isinstance(value, Intrinsic):
            function: Any = unwrap(value)
            home = function.__code__.co_filename
            if home not in sources:
                sources.add(home)
                _follow(home, function.__globals__, sources, take)
        elif isinstance(value, ModuleType):
            home = getattr(value, "__file__", None) or ""
            if value.__name__.partition(".")[0] == __name__.partition(".")[0] and home not in sources:
                sources.add(home)
                _follow(home, vars(value), sources, take)
        elif isinstance(value, np.ndarray):
            take(f"{name} {value.dtype} {value.shape}".encode() + value.tobytes())
        elif _is_constant(value):
            take(f"{name} {value!r}".encode())
        elif isinstance(value, type):
            take(f"{name} {_described(value)}".encode())


def _described(kind: type) -> str:
    """A class with its fields and their types, and those of records within it, which numba's index names."""
    fields = getattr(kind, "_fields", ()) or (*getattr(kind, "__dataclass_fields__", ()),)
    hints, home = getattr(kind, "__annotations__", {}), vars(sys.modules[kind.__module__])
    types = [getattr(hints.get(field), "__forward_arg__", hints.get(field)) for field in fields]
    inner = [home.get(each) if isinstance(each, str) else each for each in types]
    within = [_described(each) for each in inner if isinstance(each, type) and each is not kind]
    return f"{kind} {fields} {types} {within}"


def _is_constant(value: Any) -> bool:
    if isinstance(value, tuple):
        return all(_is_constant(part) for part in value)
    return isinstance(value, bool | int | float | complex | str | bytes | np.generic)


def _make_folder(module: str, file: str, names: dict[str, Any]) -> str | None:
    try:
        name = f"{module}-{_fingerprint(file, names)}"
    except OSError:
        return None
    user = Path(os.path.expanduser(os.environ.get("XDG_CACHE_HOME") or "~/.cache")) / "copter"
    bases = [Path(settings.CACHE_DIR)] if settings.CACHE_DIR else [Path(file).parent / "__pycache__", user]
    for base in bases:
        folder = base / name
        try:
            if not folder.is_dir():
                folder.mkdir(parents=True, exist_ok=True)
                _remove_old(base, module)
            # What numba would try; where it fails, numba would take a folder of its own.
            tempfile.TemporaryFile(dir=folder).close()
        except OSError:
            continue
        return str(folder)
    _warn_once(str(bases[-1]))
    return None


@cache
def _warn_once(base: str) -> None:
    log.warning("compiled kernels cannot be kept in %s: every process compiles; set NUMBA_CACHE_DIR", base)


def _remove_old(base: Path, module: str) -> None:
    """Remove folders of a module's older versions. Others may do the same at this time."""
    aged = []
    for folder in base.glob(f"{module}-*"):
        try:
            aged.append((folder.stat().st_mtime, folder))
        except FileNotFoundError:
            continue
    for made, folder in sorted(aged, reverse=True)[KEPT:]:
        if time.time() - made > _YOUNG:
            shutil.rmtree(folder, ignore_errors=True)
