"""First calls of a kernel in Python, until compiling it pays off.

Compiling a kernel takes much longer than a call on a small program. So a kernel that is not in the cache is
compiled only in two cases: it is called with long arrays, or its calls in Python have used up a time budget,
a fraction of the compile time. In a solve with a deadline another process compiles it, if this process may
use at least two processors. A kernel that has machine code is compiled at its first call with arguments of
other types.

The Python form and the machine code compute the same numbers in all bits, for 64-bit floats and integers:
neither changes the order of sums, and logarithms and exponentials are those of :mod:`math`. For this, kernels
write ``a * a`` and not ``a**2`` (a test checks this), add no truth values or short integers, take no
logarithm of 0, and divide by zero only if the zero is an entry of an array. Kernels with functions that are
called by address have no Python form and are compiled at once.
"""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import update_wrapper
from pathlib import Path
from types import CodeType, FunctionType
from typing import Any

import numpy as np
from numba import types
from numba.core import event
from numba.extending import typeof_impl

from copter.clock import current
from copter.compile.array_record import ArrayRecord
from copter.compile.beside import ROUNDS, compile_beside
from copter.compile.extremes import IN_PYTHON, Intrinsic

_LONG = 4096
"""Number of elements of an array from which on a kernel is compiled at once."""
_SECONDS_A_BYTE = 1e-4
"""Time budget of calls in Python, in seconds per byte of bytecode of a kernel and its callees."""
_LOOK = 0.25
"""Seconds between two searches of the cache, which another process may have filled."""
BY_ADDRESS: set[type] = set()
"""Types of arguments with functions that are called by address, which Python cannot call."""
_at_once: tuple[str, ...] = ()


def compile_at_once(*modules: str) -> None:
    """Compile each kernel of this process at its first call; use it if many calls will follow.

    `modules`: only kernels of modules whose names begin with one of these texts; by default all kernels.
    """
    global _at_once
    _at_once = modules or ("",)


class _NotKeptError(Exception):
    """A kernel is not in the cache and would have to be compiled."""


class _OnlyLoading(event.Listener, threading.local):
    """Context in which numba loads cached machine code in this thread, but does not compile.

    numba starts the event "compile" if there is nothing to load; the listener then raises ``_NotKeptError``.
    """

    _entered = False

    def __enter__(self) -> None:
        self._entered = True

    def __exit__(self, *_: object) -> None:
        self._entered = False

    def on_start(self, event: Any) -> None:  # noqa: ARG002 - numba's signature
        if self._entered:
            raise _NotKeptError

    def on_end(self, event: Any) -> None:
        pass


_only_loading = _OnlyLoading()
event.register("numba:compile", _only_loading)


class Kernel:
    """Function that runs in Python until compiling it pays off, and as machine code afterwards.

    It has the attributes of its dispatcher, so that numba can compile it into kernels that call it.
    """

    # A call of an instance calls the content of this slot directly, which takes 12 ns instead of 100 ns.
    __slots__ = ("__call__", "__dict__")

    def __init__(self, dispatcher: Any) -> None:
        update_wrapper(self, dispatcher.py_func)
        self.dispatcher = dispatcher
        self._function: Callable[..., Any] | None = None
        self._seconds = math.inf  # time budget that is left
        self._look = 0.0  # time of the next search of the cache
        self.__call__ = self._first

    def __getattr__(self, name: str) -> Any:
        return getattr(self.dispatcher, name)

    def __reduce__(self) -> str:
        return self.__qualname__

    def _first(self, *arguments: Any, **named: Any) -> Any:
        """Call the kernel in Python or as machine code; used until there is machine code."""
        if self.__module__.startswith(_at_once) or _longest((*arguments, *named.values())) >= _LONG:
            return self._as_machine_code(*arguments, **named)
        if time.perf_counter() >= self._look:
            if _has_files(self.dispatcher.stats.cache_path):
                with suppress(_NotKeptError), _only_loading:
                    return self._as_machine_code(*arguments, **named)
            self._look = time.perf_counter() + _LOOK
        if self._seconds <= 0.0 and not _another_compiles():
            return self._as_machine_code(*arguments, **named)
        return self._in_python(*arguments, **named)

    def _as_machine_code(self, *arguments: Any, **named: Any) -> Any:
        result = self.dispatcher(*arguments, **named)
        self.__call__ = self.dispatcher
        return result

    def _in_python(self, *arguments: Any, **named: Any) -> Any:
        if self._function is None:
            self._function, self._seconds = _python_form(self.py_func)
        begin = time.perf_counter()
        with np.errstate(all="ignore"):
            result = _plain(self._function(*arguments, **named))
        self._seconds -= time.perf_counter() - begin
        return result


@typeof_impl.register(Kernel)
def _type_of(kernel: Kernel, _: Any) -> types.Dispatcher:
    return types.Dispatcher(kernel.dispatcher)


def _has_files(folder: str | None) -> bool:
    """Return whether a cache folder has files; numba's own search takes 0.2 s at its first call."""
    return folder is not None and any(Path(folder).glob("*"))


def _another_compiles() -> bool:
    """Return whether another process compiles, because this process is in a solve with a deadline."""
    clock = current()
    return clock is not None and clock.left() < math.inf and compile_beside(ROUNDS)


def _plain(result: Any) -> Any:
    """Convert numpy numbers to Python numbers, which machine code returns."""
    if isinstance(result, tuple):
        return tuple(map(_plain, result)) if type(result) is tuple else type(result)(*map(_plain, result))
    return result.item() if isinstance(result, np.generic) else result


def _longest(arguments: tuple[Any, ...]) -> float:
    """Return the number of elements of the longest array; inf if an argument has functions by address."""
    if type(arguments) in BY_ADDRESS:
        return math.inf
    longest = 0.0
    for each in arguments:
        if isinstance(each, np.ndarray):
            longest = max(longest, each.size)
        elif isinstance(each, ArrayRecord):
            longest = max(longest, each.longest)
        elif isinstance(each, tuple):
            longest = max(longest, _longest(each))
    return longest


def _python_form(kernel: FunctionType) -> tuple[FunctionType, float]:
    """Return a function that calls no machine code, and its time budget in seconds."""
    made: dict[FunctionType, FunctionType] = {}
    function = _function_of(kernel, made)
    return function, _SECONDS_A_BYTE * sum(len(each.__code__.co_code) for each in made)


def _function_of(function: FunctionType, made: dict[FunctionType, FunctionType]) -> FunctionType:
    """Return a copy of a function that calls such copies of kernels; add all copies to ``made``."""
    names = dict(function.__globals__)
    copy = FunctionType(function.__code__, names, function.__name__, function.__defaults__)
    made[function] = copy
    for name in _names(function.__code__):
        value: Any = names.get(name)
        if hasattr(value, "py_func"):
            called: Any = value.py_func
            names[name] = made[called] if called in made else _function_of(called, made)
        elif isinstance(value, Intrinsic):
            names[name] = IN_PYTHON.get(value, value)
    return copy


def _names(code: CodeType) -> Iterator[str]:
    """Yield the names that a function and its inner functions use."""
    yield from code.co_names
    for each in code.co_consts:
        if isinstance(each, CodeType):
            yield from _names(each)
