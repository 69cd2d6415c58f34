"""The first calls of a kernel run in Python, until it is worth compiling.

Compiling a kernel takes many times as long as a first call on a small program.  So a kernel that is not in
the cache is compiled when it is called with long arrays, or when its calls have taken so much time in Python,
a share of what compiling takes, that more of them are to be expected.  In a solve with a deadline another
process compiles it, if there is a core for that.  Once a kernel has machine code, it is compiled at its first
call with arguments of other types.

Both forms compute the same numbers bit by bit, of 64-bit floats and integers: neither takes sums in another
order, and logarithms and exponentials are those of :mod:`math`.  For that kernels say ``a * a`` and not
``a**2`` (a test looks), add no truth values or short integers, take no logarithm of 0, and divide by a zero
only if it comes out of an array.  Functions that are called by address are for machine code alone: their
kernels are compiled at once.
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
"""Elements of an array from which on a kernel that is called with it is compiled at once."""
_SECONDS_A_BYTE = 1e-4
"""Time that calls may take in Python before a kernel is compiled, per byte of its and its callees' code."""
_LOOK = 0.25
"""Seconds between two searches of the cache, which another process may have filled."""
BY_ADDRESS: set[type] = set()
"""Types of arguments with functions that are called by their address, which Python cannot do."""
_at_once = False


def compile_at_once() -> None:
    """Have this process compile each kernel when it is first called: many rounds will follow, or others."""
    global _at_once
    _at_once = True


class _NotKeptError(Exception):
    """A kernel would have to be compiled."""


class _OnlyLoading(event.Listener, threading.local):
    """While this thread has entered it, numba loads machine code that is kept and compiles none.

    numba says that it begins to compile once it has found nothing to load: then ``_NotKeptError`` is raised.
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
    """A function that runs in Python until it is worth compiling, and as machine code from then on.

    It has the attributes of its dispatcher, by which numba compiles it into the kernels that call it.
    """

    # A call of an instance takes what this slot holds, without a method in between: 12 ns, not 100.
    __slots__ = ("__call__", "__dict__")

    def __init__(self, dispatcher: Any) -> None:
        update_wrapper(self, dispatcher.py_func)
        self.dispatcher = dispatcher
        self._function: Callable[..., Any] | None = None
        self._seconds = math.inf  # that are left
        self._look = 0.0  # when to look next for what is kept
        self.__call__ = self._first

    def __getattr__(self, name: str) -> Any:
        return getattr(self.dispatcher, name)

    def __reduce__(self) -> str:
        return self.__qualname__

    def _first(self, *arguments: Any, **named: Any) -> Any:
        """Call the kernel in one form or the other; the slot holds this until there is machine code."""
        if _at_once or _longest((*arguments, *named.values())) >= _LONG:
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
    """Whether anything is kept there: numba's own search begins with a fifth of a second of preparations."""
    return folder is not None and any(Path(folder).glob("*"))


def _another_compiles() -> bool:
    """Whether another process compiles, as this one has a deadline to keep."""
    clock = current()
    return clock is not None and clock.left() < math.inf and compile_beside(ROUNDS)


def _plain(result: Any) -> Any:
    """Numbers of numpy as Python's, which machine code returns."""
    if isinstance(result, tuple):
        return tuple(map(_plain, result)) if type(result) is tuple else type(result)(*map(_plain, result))
    return result.item() if isinstance(result, np.generic) else result


def _longest(arguments: tuple[Any, ...]) -> float:
    """Elements of the longest array; infinity where a function is called by address."""
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
    """A function that calls no machine code, and the seconds that its calls may take."""
    made: dict[FunctionType, FunctionType] = {}
    function = _function_of(kernel, made)
    return function, _SECONDS_A_BYTE * sum(len(each.__code__.co_code) for each in made)


def _function_of(function: FunctionType, made: dict[FunctionType, FunctionType]) -> FunctionType:
    """A copy of a function, in which the kernels that it calls are such copies; all are put into ``made``."""
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
    """Names that a function and those within it use."""
    yield from code.co_names
    for each in code.co_consts:
        if isinstance(each, CodeType):
            yield from _names(each)
