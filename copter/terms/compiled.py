"""Compilation of the functions of a class of convex terms.

Each function is compiled separately, and kernels call it by its address. So a kernel is compiled once and not
once for each class, a program can have terms of several classes, and for a user's class only its few small
functions are compiled. The compiled functions are cached on disk like kernels.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable
from functools import cache
from types import FunctionType
from typing import Any

from numba import NumbaError, float64

from copter.compile.kernels import kernel
from copter.errors import TermError
from copter.terms.convex import ConvexTerm

#: Functions of a class, and the arguments of each before the parameters. Kernels use their positions.
FUNCTIONS = {
    "value": ("t",),
    "slope": ("t",),
    "curvature": ("t",),
    "lowest": (),
    "proximal": ("centre", "step"),
    "touching": ("slope",),
}

#: Largest number of parameters of a class; a kernel that calls a function has a branch for each number.
MOST_PARAMETERS = 8

_REQUIRED = ("value", "slope", "curvature")

_known: dict[tuple[type[ConvexTerm], tuple[str, ...]], tuple[int, ...]] = {}

_COLOUR = re.compile(r"\x1b\[[0-9;]*m")


def addresses(kind: type[ConvexTerm], names: tuple[str, ...]) -> tuple[int, ...]:
    """Return the addresses of a class's functions, in the order of ``FUNCTIONS``.

    The address of an optional function that the class does not have is 0. The class is compiled at the first
    call. Raise TermError if a required function is missing, if a function takes other arguments than the
    parameters (`names`), or if it cannot be compiled.
    """
    if (kind, names) in _known:
        return _known[kind, names]
    if len(names) > MOST_PARAMETERS:
        raise TermError(kind, "parameters", f"has {len(names)}, and must have at most {MOST_PARAMETERS}")
    found: list[int] = []
    for method, before in FUNCTIONS.items():
        function: Any = getattr(kind, method, None)
        if function is None and method not in _REQUIRED:
            found.append(0)
            continue
        _check_arguments(kind, method, function, (*before, *names))
        try:
            found.append(_address(function, len(before) + len(names)))
        except NumbaError as error:
            raise TermError(kind, method, f"numba cannot compile it: {_reason(error)}") from error
    _known[kind, names] = tuple(found)
    return _known[kind, names]


def _check_arguments(kind: type[ConvexTerm], method: str, function: Any, arguments: tuple[str, ...]) -> None:
    wanted = ", ".join(arguments)
    if not isinstance(function, FunctionType):
        why = "is missing" if function is None else "is not a static method"
        raise TermError(kind, method, f"{why}; define it with @staticmethod and the arguments ({wanted})")
    parameters = inspect.signature(function).parameters.values()
    plain = all(parameter.kind is parameter.POSITIONAL_OR_KEYWORD for parameter in parameters)
    before, given = len(FUNCTIONS[method]), [parameter.name for parameter in parameters]
    if not plain or len(given) != len(arguments) or given[before:] != list(arguments[before:]):
        why = f"must have the arguments ({wanted}), with the names of the parameters in the constructor"
        raise TermError(kind, method, why)


@cache
def _kernel(function: Callable[..., float]) -> Any:
    """Return the compiled function; the cache keeps it alive as long as its address is used."""
    return kernel(allocates=True)(function)


def _address(function: Callable[..., float], arguments: int) -> int:
    """Return the address of the machine code of a function of floats, with numba's calling convention."""
    compiled = _kernel(function)
    found = float64(*[float64] * arguments)
    compiled.compile(found)
    code = compiled.overloads[found.args]
    address: int = code.library.get_pointer_to_function(code.fndesc.llvm_func_name)
    return address


def _reason(error: NumbaError) -> str:
    """Return numba's message without the compilation stage, the source position and the advice."""
    plain = _COLOUR.sub("", str(error))  # numba colours its messages if colorama is installed
    lines = [line.strip() for line in plain.splitlines()]
    said = [line.partition(", defined at ")[0] for line in lines if line and not line.startswith("Failed in")]
    return next((line for line in said if not line.startswith("File ")), type(error).__name__)
