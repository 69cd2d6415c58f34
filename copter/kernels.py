"""How kernels are compiled: cached on disk, without the GIL, floating-point errors as numpy has them."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from typing import Any, TypeVar

from numba import njit
from numba.core import event

from copter.kernel_cache import cache_folder, settings

log = logging.getLogger("copter")

_ALWAYS = {"nogil": True, "error_model": "numpy", "no_cfunc_wrapper": True}
"""Options of all kernels; nobody calls them from C."""

Function = TypeVar("Function", bound=Callable[..., Any])


def kernel(function: Function) -> Function:
    """Compile a function that allocates nothing when it is first called; later processes load it.

    It counts no references to arrays: they are its caller's, who keeps them.  In a loop over a
    :class:`copter.store.view.StoreView`, of 21 arrays, the counting took 20 to 50 times as long as the loop.
    Division by zero gives an infinity or NaN and not an exception: less code, and kernels have none to raise.

    Parameters
    ----------
    function : callable
        At the top of its module.
    """
    return _compiled(function, _nrt=False)


def allocating_kernel(function: Function) -> Function:
    """A ``kernel`` that makes arrays.

    Each use of an array that it was handed may be counted: where many are read in a loop, the loop belongs
    into a ``kernel`` of its own.
    """
    return _compiled(function, _nrt=True)


def loose_kernel(function: Function) -> Function:
    """A ``kernel`` whose sums may ignore NaN and the sign of zero, as vectorized code wants it."""
    return _compiled(function, fastmath={"nnan", "nsz"}, _nrt=False)


def inlined_kernel(function: Function) -> Function:
    """A ``kernel`` for formulas that others use in their innermost loops: it becomes a part of them."""
    return _compiled(function, inline="always", _nrt=False)


def _compiled(function: Function, **options: Any) -> Function:
    folder = cache_folder(function)
    compiled: Any
    users, settings.CACHE_DIR = settings.CACHE_DIR, folder or ""
    try:
        # numba reads the folder here, once and for all, not when it compiles.
        compiled = njit(cache=folder is not None, **_ALWAYS, **options)(function)
    finally:
        settings.CACHE_DIR = users
    return compiled


def compile_seconds() -> float:
    """Seconds that this process has spent on compiling so far (not on loading).

    Returns
    -------
    float
    """
    return _compilations.seconds


class _Compilations(event.Listener):
    """Says once that kernels are being compiled, when one of ours really is (not loaded); counts the time."""

    def __init__(self) -> None:
        self.seconds = 0.0
        self._said = False
        self._begun: list[float] = []  # a kernel compiles those that it calls

    def on_start(self, event: Any) -> None:
        self._begun.append(time.perf_counter())
        ours = str(event.data["dispatcher"].py_func.__module__).startswith("copter.")
        if ours and not self._said:
            self._said = True
            log.warning("compiling kernels: a minute or more in all; later processes load what is kept")

    def on_end(self, event: Any) -> None:
        begun = self._begun.pop() if self._begun else time.perf_counter()
        if not self._begun:
            self.seconds += time.perf_counter() - begun


_compilations = _Compilations()
event.register("numba:compile", _compilations)
