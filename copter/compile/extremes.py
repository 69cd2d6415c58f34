"""The lesser and the greater of two numbers, in the form in which loops over them are vectorized.

Whether minima may be taken in another order hangs on what a NaN and the sign of zero would do. ``fastmath``
has numba say that neither matters to arithmetic and comparisons, but not to the choice that follows one, so
that a loop with ``min`` goes number by number and takes seven times as long.  In a loop that meets a NaN the
result is arbitrary.
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
"""lesser(a, b): the lesser of two floats of one type, in kernels."""
greater: Any = intrinsic(_choice(">"))
"""greater(a, b): the greater of two floats of one type, in kernels."""
Intrinsic: Any = type(lesser)
"""The class of all that ``numba.extending.intrinsic`` makes."""
IN_PYTHON: dict[Any, Callable[[Any, Any], Any]] = {
    lesser: lambda a, b: a if a < b else b,
    greater: lambda a, b: a if a > b else b,
}
"""Both as functions, for kernels that are not compiled (:mod:`copter.compile.first_calls`)."""
