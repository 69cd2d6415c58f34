"""Decorator of kernels: compiled with numba, cached on disk, without the GIL, with numpy's error model."""

from __future__ import annotations

import gc
import logging
import time
from collections.abc import Callable
from functools import partial
from typing import Any, TypeVar, overload

from numba import njit
from numba.core import event
from numba.core.compiler import Flags

from copter.compile.beside import compile_last
from copter.compile.cache import cache_folder, settings
from copter.compile.first_calls import Kernel

log = logging.getLogger("copter")

Function = TypeVar("Function", bound=Callable[..., Any])
_ALWAYS = {"nogil": True, "error_model": "numpy", "no_cfunc_wrapper": True}
"""Options of all kernels; they are not called from C."""
_COUNTS_REFERENCES = "_nrt"
"""Private option of numba, which counts references to arrays; there is no public option. With it, loops over
short arrays take up to fifty times as long. A test checks that the option still has an effect.
"""


class _Options(Flags):
    """Options of a compilation, compared by the values that are set.

    numba looks up its functions by these options, and its own comparison, which also looks up all defaults,
    takes much of the compile time.
    """

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Flags) and self._values == other._values

    def __hash__(self) -> int:
        return hash(frozenset(self._values))


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
    """Make a kernel: a function that numba compiles when it pays off; later processes load it from the cache.

    Division by zero returns an infinity or NaN and raises no exception. A variable that is passed to another
    kernel and begins as a literal must begin as ``np.int64(0)``, because numba would compile the other kernel
    twice: for the literal and for its type.

    Parameters
    ----------
    function : callable
        Module-level function.
    allocates : bool
        True if the kernel makes arrays. A kernel that makes none is compiled without reference counts,
        because its caller keeps its arrays alive. Counting can take longer than the work of a loop that
        passes many short arrays to another kernel, so such a loop should be a kernel of its own. The arrays
        of a record (:mod:`copter.compile.array_record`) are not counted.
    inner : bool
        True if only kernels call it, so that no code for calls from Python is compiled.
    inlined : bool
        True for a formula in the innermost loops of other kernels, which is inlined.
    loose : bool
        True if the machine code may ignore NaN and the sign of zero, so that loops are vectorised.
    """
    if function is None:
        return partial(kernel, allocates=allocates, inner=inner, inlined=inlined, loose=loose)
    jit: Any = njit  # Any, because numba's types lack some of its options
    options: dict[str, Any] = {_COUNTS_REFERENCES: allocates, "no_cpython_wrapper": inner}
    if inlined:
        options["inline"] = "always"
    if loose:
        options["fastmath"] = {"nnan", "nsz"}
    folder = cache_folder(function)
    users, settings.CACHE_DIR = settings.CACHE_DIR, folder or ""
    try:
        # numba reads the cache folder in this call, and not when it compiles.
        compiled = jit(cache=folder is not None, **_ALWAYS, **options)(function)
        compiled._compiler._customize_flags = _Options
    finally:
        settings.CACHE_DIR = users
    return Kernel(compiled)


def compile_seconds() -> float:
    """Return the seconds that this process has spent on compiling so far, without loading from the cache."""
    return _compilations.seconds


class _Compilations(event.Listener):
    """Listener that logs once that copter compiles kernels, and sums the compile time (without loading)."""

    def __init__(self) -> None:
        self.seconds = 0.0
        self._said = self._collects = False
        self._begun: list[float] = []  # compiling a kernel also compiles the kernels that it calls

    def on_start(self, event: Any) -> None:
        if not self._begun and gc.isenabled():  # garbage collection would take a tenth of the compile time
            gc.disable()
            self._collects = True
        self._begun.append(time.perf_counter())
        of_copter = str(event.data["dispatcher"].py_func.__module__).startswith("copter.")
        if of_copter and not self._said:
            self._said = True
            log.warning("compiling kernels; later processes load them from the cache")
            compile_last()

    def on_end(self, event: Any) -> None:
        begun = self._begun.pop() if self._begun else time.perf_counter()
        if not self._begun:
            self.seconds += time.perf_counter() - begun
            if self._collects:
                gc.enable()
                self._collects = False


_compilations = _Compilations()
event.register("numba:compile", _compilations)
