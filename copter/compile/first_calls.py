"""The first calls of a kernel run in Python, until it is worth compiling.

Compiling a kernel takes many times as long as a first call on a small program.  So a kernel that is not in
the cache is compiled when it is called with long arrays, or when its calls have taken so much time in Python,
a share of what compiling takes, that more of them are to be expected.  In a solve with a deadline another
process compiles it, if there is a core for that.

Both forms compute the same numbers bit by bit, of 64-bit floats and integers: neither takes sums in another
order, and logarithms and exponentials are those of :mod:`math`.  For that kernels say ``a * a`` and not
``a**2`` (a test looks), add no truth values or short integers, take no logarithm of 0, and divide by a zero
only if it comes out of an array.  Functions that are called by address are for machine code alone: their
kernels are compiled at once.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator
from types import CodeType, FunctionType
from typing import Any

import numpy as np
from numba.core import types
from numba.core.dispatcher import OmittedArg
from numba.core.extending import _Intrinsic
from numba.extending import is_jitted

from copter.clock import current
from copter.compile.array_record import ArrayRecord
from copter.compile.beside import ROUNDS, compile_beside
from copter.compile.extremes import IN_PYTHON

_LONG = 4096
"""Elements of an array from which on a kernel that is called with it is compiled at once."""
_SECONDS_A_BYTE = 1e-4
"""Of Python's code, of a kernel and of those that it calls, that its calls may take before it is compiled."""
_LOOK = 0.25
"""Seconds between looks at what another process has compiled."""
BY_ADDRESS: set[type] = set()
"""Types of arguments with functions that are called by their address, which Python cannot do."""
_at_once = False


def compile_at_once() -> None:
    """Have this process compile each kernel when it is first called: many rounds will follow, or others."""
    global _at_once
    _at_once = True


class FirstCalls:
    """What to call while no machine code fits the arguments of a kernel; numba asks for it.

    Parameters
    ----------
    kernel : Dispatcher
        Called from Python.
    """

    def __init__(self, kernel: Any) -> None:
        self._kernel, self._compiled = kernel, kernel._compile_for_args
        self._function: Callable[..., Any] | None = None
        self._seconds = math.nan  # that are left
        self._missing: set[tuple[Any, ...]] = set()
        self._look = 0.0  # when to look next whether another process has compiled it

    def __call__(self, *arguments: Any) -> Any:
        """The kernel in one form or the other."""
        if _at_once or _longest(arguments) >= _LONG:
            return self._compiled(*arguments)
        kinds = tuple(map(self._kind, arguments))
        if kinds not in self._missing:
            if self._seconds <= 0.0 or self._is_kept(kinds):
                return self._compiled(*arguments)
            self._missing.add(kinds)
        if self._function is None:
            self._function, self._seconds = _in_python(self._kernel)
        return self._run if self._seconds > 0.0 or self._waits(kinds) else self._compiled(*arguments)

    def _waits(self, kinds: tuple[Any, ...]) -> bool:
        """Whether another process compiles it, as this one has a deadline to keep."""
        clock = current()
        if clock is None or clock.left() == math.inf or not compile_beside(ROUNDS):
            return False
        now = time.perf_counter()
        if now < self._look:
            return True
        self._look = now + _LOOK
        return not self._is_kept(kinds)

    def _kind(self, argument: Any) -> Any:
        """The type of an argument, as the cache has it."""
        if isinstance(argument, OmittedArg):
            return types.Omitted(argument.value)
        return self._kernel.typeof_pyval(argument)

    def _is_kept(self, kinds: tuple[Any, ...]) -> bool:
        """Whether the cache has machine code for arguments of these types."""
        cache = self._kernel._cache
        if not self._kernel.stats.cache_path:
            return False
        key = cache._index_key(kinds, self._kernel.targetctx.codegen())
        return key in cache._cache_file._load_index()

    def _run(self, *arguments: Any) -> Any:
        begin = time.perf_counter()
        assert self._function is not None
        with np.errstate(all="ignore"):
            result = _plain(self._function(*map(_given, arguments)))
        self._seconds -= time.perf_counter() - begin
        return result


def _given(argument: Any) -> Any:
    """An argument, or the default of one that was omitted."""
    return argument.value if isinstance(argument, OmittedArg) else argument


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


def _in_python(kernel: Any) -> tuple[FunctionType, float]:
    """A kernel as a function that calls no machine code, and the seconds that its calls may take."""
    made: dict[FunctionType, FunctionType] = {}
    function = _function_of(kernel.py_func, made)
    return function, _SECONDS_A_BYTE * sum(len(each.__code__.co_code) for each in made)


def _function_of(function: FunctionType, made: dict[FunctionType, FunctionType]) -> FunctionType:
    """A copy of a function, in which the kernels that it calls are such copies; all are put into ``made``."""
    names = dict(function.__globals__)
    copy = FunctionType(function.__code__, names, function.__name__, function.__defaults__)
    made[function] = copy
    for name in _names(function.__code__):
        value: Any = names.get(name)
        if is_jitted(value):
            called: Any = value.py_func
            names[name] = made[called] if called in made else _function_of(called, made)
        elif isinstance(value, _Intrinsic):
            names[name] = IN_PYTHON.get(value, value)
    return copy


def _names(code: CodeType) -> Iterator[str]:
    """Names that a function and those within it use."""
    yield from code.co_names
    for each in code.co_consts:
        if isinstance(each, CodeType):
            yield from _names(each)
