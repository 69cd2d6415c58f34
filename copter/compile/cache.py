"""Cache folders of compiled kernels, named by a hash of everything that the machine code depends on.

numba's own cache checks only the file of a kernel. After an edit of another file, from which the kernel uses
a function or a constant, it would run the old machine code. Here the name of the folder has a hash of the
kernel's file, of the files of the kernels that it calls, of the constants that it imports, and of the
versions of numba and Python. Machine code from other sources is in another folder and is never run. So two
versions of a source, for example two branches, do not interfere.
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

#: Number of newest folders of a module that are kept, and the age in seconds below which all are kept.
KEPT, _YOUNG = 4, 24 * 3600.0

#: numba's settings, with the type Any, because mypy does not know their names.
settings: Any = config

_folders: dict[tuple[str, str], str | None] = {}


def cache_folder(function: Callable[..., Any]) -> str | None:
    """Return the folder for the machine code of a kernel, and create it.

    The folder is in ``NUMBA_CACHE_DIR`` if this variable is set, else in ``__pycache__`` next to the source,
    else, if that cannot be written, in the user's cache. Older folders of the same module are removed, except
    the newest ``KEPT`` and those of the last day.

    Parameters
    ----------
    function : callable
        Python function at the time of its decoration; its module's globals have the functions that it calls.

    Returns
    -------
    str or None
        None if there is no source, or no folder can be written; in the latter case a warning is logged once.
    """
    module, file = function.__module__, function.__code__.co_filename
    if (module, file) not in _folders:
        _folders[module, file] = _make_folder(module, file, function.__globals__)
    return _folders[module, file]


def _fingerprint(file: str, names: dict[str, Any]) -> str:
    """Return a hash of a module's source and of everything that its kernels use from other modules.

    `file` is the module's source, and `names` are its globals. Raise OSError if a source cannot be read.
    """
    digest = blake2b(digest_size=10)
    digest.update(repr((numba.__version__, sys.implementation.cache_tag)).encode())
    sources = {file, *(str(Path(__file__).with_name(name)) for name in ("kernels.py", "array_record.py"))}
    _follow(file, names, sources, digest.update)
    for source in sorted(sources):
        digest.update(Path(source).read_bytes())
    return digest.hexdigest()


def _follow(file: str, names: dict[str, Any], sources: set[str], take: Callable[[bytes], None]) -> None:
    """Add the sources of the kernels that a module imports, and pass every constant in it to ``take``.

    A kernel cannot use plain functions and classes, except named tuples and records of arrays, which are
    described by their fields.
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
    """Return a text with a class, its fields and their types, including records among its fields."""
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
            # numba makes the same test, and would use another folder if it failed.
            tempfile.TemporaryFile(dir=folder).close()
        except OSError:
            continue
        return str(folder)
    _warn_once(str(bases[-1]))
    return None


@cache
def _warn_once(base: str) -> None:
    log.warning("%s cannot be written: every process compiles its kernels; set NUMBA_CACHE_DIR", base)


def _remove_old(base: Path, module: str) -> None:
    """Remove folders of a module's older versions; other processes may do the same at the same time."""
    aged = []
    for folder in base.glob(f"{module}-*"):
        try:
            aged.append((folder.stat().st_mtime, folder))
        except FileNotFoundError:
            continue
    for made, folder in sorted(aged, reverse=True)[KEPT:]:
        if time.time() - made > _YOUNG:
            shutil.rmtree(folder, ignore_errors=True)
