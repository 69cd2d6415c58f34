"""How kernels are compiled: cached on disk, without the GIL, floating-point errors as numpy has them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from numba import njit

Function = TypeVar("Function", bound=Callable[..., Any])


def kernel(function: Function) -> Function:
    """Compile a function when it is first called; later processes load it from the cache.

    Division by zero gives an infinity or NaN and not an exception: less code, and kernels have none to raise.
    """
    compiled: Any = njit(cache=True, nogil=True, error_model="numpy")(function)
    return compiled
