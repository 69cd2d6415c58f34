"""Minimum and maximum of two numbers in a form in which loops are vectorised.

A compiler can reorder minima only if it can ignore NaN and the sign of zero. With ``fastmath``, numba allows
this for arithmetic and comparisons, but not for the select instruction after a comparison. So a loop with
``min`` is not vectorised and takes seven times as long. The functions of this module set the flags of the
select instruction, too. Their result is arbitrary if a number is NaN.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from numba.extending import intrinsic

_FLAGS = ("nnan", "nsz")


def _choice(sign: str) -> Any:
    def typed(context: Any, a: Any, b: Any) -> Any:  # noqa: ARG001 - numba's signature
        def compiled(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:  # noqa: ARG001
            first = builder.fcmp_ordered(sign, *arguments, flags=_FLAGS)
            return builder.select(first, *arguments, flags=_FLAGS)

        return a(a, a), compiled

    return typed


lesser: Any = intrinsic(_choice("<"))
"""lesser(a, b): minimum of two floats of one type, in kernels."""
greater: Any = intrinsic(_choice(">"))
"""greater(a, b): maximum of two floats of one type, in kernels."""
Intrinsic: Any = type(lesser)
"""Class of the objects that ``numba.extending.intrinsic`` makes."""
IN_PYTHON: dict[Any, Callable[[Any, Any], Any]] = {
    lesser: lambda a, b: a if a < b else b,
    greater: lambda a, b: a if a > b else b,
}
"""Python functions for both, for kernels that are not compiled (:mod:`copter.compile.first_calls`)."""
