"""How kernels are compiled: cached on disk, without the GIL, floating-point errors as numpy has them."""

from __future__ import annotations

import gc
import logging
import time
from collections.abc import Callable
from functools import partial
from typing import Any, TypeVar, overload

from numba import njit
from numba.core import event

from copter.compile.beside import compile_beside
from copter.compile.cache import cache_folder, settings
from copter.compile.first_calls import Kernel

log = logging.getLogger("copter")

Function = TypeVar("Function", bound=Callable[..., Any])
_ALWAYS = {"nogil": True, "error_model": "numpy", "no_cfunc_wrapper": True}
"""Options of all kernels; nobody calls them from C."""
_COUNTS_REFERENCES = "_nrt"
"""An option of numba's own, without a public one in its place: where references are counted, loops over short
arrays take up to fifty times as long.  A test looks whether it still has an effect."""


@overload
def kernel(function: Function) -> Function: ...


@overload
def kernel(
    *, allocates: bool = False, inner: bool = False, inlined: bool = False, loose: bool = False
) -> Callable[[Function], Function]: ...


def kernel(
    function: Any = None,
    *,
    allocates: bool = False,
    inner: bool = False,
    inlined: bool = False,
    loose: bool = False,
) -> Any:
    """Compile a function when it is first called; later processes load it from the cache.

    Division by zero gives an infinity or NaN and not an exception: less code, and kernels have none to raise.
    A number that is handed to another kernel begins as ``np.int64(0)`` where it is a literal at first: of a
    literal numba would compile the other kernel twice.

    Parameters
    ----------
    function : callable
        At the top of its module.
    allocates : bool
        Whether it makes arrays.  One that does not counts no references: its arrays are its caller's, who
        keeps them.  Counting takes longer than a loop over many short arrays that are handed over singly, so
        such a loop belongs into a kernel of its own; the arrays of a record
        (:mod:`copter.compile.array_record`) are not counted.
    inner : bool
        Only kernels call it: there is nothing to compile for calls from Python.
    inlined : bool
        A formula that others use in their innermost loops: it becomes a part of them.
    loose : bool
        Sums may ignore NaN and the sign of zero, as vectorized code wants it.
    """
    if function is None:
        return partial(kernel, allocates=allocates, inner=inner, inlined=inlined, loose=loose)
    jit: Any = njit  # whose types know nothing of some options
    options: dict[str, Any] = {_COUNTS_REFERENCES: allocates, "no_cpython_wrapper": inner}
    if inlined:
        options["inline"] = "always"
    if loose:
        options["fastmath"] = {"nnan", "nsz"}
    folder = cache_folder(function)
    users, settings.CACHE_DIR = settings.CACHE_DIR, folder or ""
    try:
        # numba reads the folder here, once and for all, not when it compiles.
        compiled = jit(cache=folder is not None, **_ALWAYS, **options)(function)
    finally:
        settings.CACHE_DIR = users
    return Kernel(compiled)


def compile_seconds() -> float:
    """Seconds that this process has spent on compiling so far (not on loading)."""
    return _compilations.seconds


class _Compilations(event.Listener):
    """Says once that kernels are being compiled, when one of ours really is (not loaded); counts the time."""

    def __init__(self) -> None:
        self.seconds = 0.0
        self._said = self._collects = False
        self._begun: list[float] = []  # a kernel compiles those that it calls

    def on_start(self, event: Any) -> None:
        if not self._begun and gc.isenabled():  # a tenth of the time, for nothing that is free yet
            gc.disable()
            self._collects = True
        self._begun.append(time.perf_counter())
        ours = str(event.data["dispatcher"].py_func.__module__).startswith("copter.")
        if ours and not self._said:
            self._said = True
            log.warning("compiling kernels; later processes load what is kept")
            compile_beside()

    def on_end(self, event: Any) -> None:
        begun = self._begun.pop() if self._begun else time.perf_counter()
        if not self._begun:
            self.seconds += time.perf_counter() - begun
            if self._collects:
                gc.enable()
                self._collects = False


_compilations = _Compilations()
event.register("numba:compile", _compilations)
