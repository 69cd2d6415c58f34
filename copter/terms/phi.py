"""Terms of a program inside kernels: value, slope, curvature, proximal point and point of a given slope.

Terms are numbered as in their batch (:mod:`copter.terms.batch`).  Their functions are called by address, as C
functions of floats; what a class does not have is searched for by its slope and curvature.

Measured against kernels in which the logarithm was written out (one CPU of a shared machine, CPU time): the
answer of a request with one column takes 50 ns, not 38; it was 114 with the parameters and addresses in numpy
arrays, whose owners numba counts at each call, and 64 with C callbacks.  Warm windows of Shockwave's
relaxation (2000 jobs, 256 GPUs) take 14.8 ms, not 14.2.  A class of a user's own takes 0.2 s to compile and
0.02 s to load in later processes, and no kernel is compiled for it.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic
from numpy.typing import NDArray

from copter.compile.first_calls import BY_ADDRESS
from copter.compile.kernels import kernel
from copter.terms.compiled import FUNCTIONS, MOST_PARAMETERS

VALUE, SLOPE, _CURVATURE, _LOWEST, _PROXIMAL, _TOUCHING = range(len(FUNCTIONS))
_WHOLE = ir.IntType(64)
_STEPS = 200
_CLOSE = 1e-15
_FAR = 1e60
"""A root beyond it is at infinity."""


class Phi(NamedTuple):
    """The functions of terms, as a kernel takes them: few numbers, and no array whose references are counted.

    They are in a table with a row for each term: its number of parameters, the addresses of its functions,
    and its parameters. The owner of a Phi must keep the table. `begin`: its address. `width`: bytes of a row.
    `factor`: on all terms, for another unit of cost.
    """

    begin: int
    width: int
    factor: float

    @classmethod
    def of(cls, table: NDArray[np.int64]) -> Phi:
        """The functions of a table, shape (k, HEAD + most parameters); floats stand there bit by bit."""
        return cls(table.ctypes.data, table.strides[0], 1.0)


BY_ADDRESS.add(Phi)
HEAD = 1 + len(FUNCTIONS)
"""Place where the parameters begin in a row of the table."""


def _has_function(typing, row, method):  # type: ignore[no-untyped-def]
    """Whether the class of a term has a function, for the address of the term's row."""

    def generate(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        begin = builder.inttoptr(values[0], _WHOLE.as_pointer())
        where = builder.load(builder.gep(begin, [builder.add(values[1], _WHOLE(1))]))
        return builder.icmp_unsigned("!=", where, _WHOLE(0))

    return types.boolean(types.int64, types.int64), generate


def _call_function(typing, row, method, before):  # type: ignore[no-untyped-def]
    """Call a function of a term with the floats ``before`` and the term's parameters."""

    def generate(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        given, double = cgutils.unpack_tuple(builder, values[2]), ir.DoubleType()
        begin = builder.inttoptr(values[0], _WHOLE.as_pointer())
        where = builder.load(builder.gep(begin, [builder.add(values[1], _WHOLE(1))]))
        parameters = builder.bitcast(builder.gep(begin, [_WHOLE(HEAD)]), double.as_pointer())
        result = cgutils.alloca_once_value(builder, ir.Constant(double, float("nan")))
        end = builder.append_basic_block("called")
        switch = builder.switch(builder.load(begin), end)
        for n in range(MOST_PARAMETERS + 1):
            block = builder.append_basic_block(f"call{n}")
            switch.add_case(_WHOLE(n), block)
            builder.position_at_end(block)
            rest = [builder.load(builder.gep(parameters, [_WHOLE(i)])) for i in range(n)]
            floats = (types.float64,) * (len(given) + n)
            kind = context.call_conv.get_function_type(types.float64, floats)
            function = builder.inttoptr(where, kind.as_pointer())
            status, value = context.call_conv.call_function(
                builder, function, types.float64, floats, [*given, *rest]
            )
            with cgutils.if_unlikely(builder, status.is_error):
                context.call_conv.return_status_propagate(builder, status)
            builder.store(value, result)
            builder.branch(end)
        builder.position_at_end(end)
        return builder.load(result)

    return types.float64(types.int64, types.int64, before), generate


# Kernels call these without the first argument.
_has: Any = intrinsic(_has_function)
_call: Any = intrinsic(_call_function)


@kernel(inner=True)
def _function(phi, method, q, t):  # type: ignore[no-untyped-def]
    return phi.factor * _call(phi.begin + q * phi.width, method, (t,))


@kernel
def value(phi, q, t):  # type: ignore[no-untyped-def]
    """phi(t) of term q"""
    return _function(phi, VALUE, q, t)


@kernel
def slope(phi, q, t):  # type: ignore[no-untyped-def]
    """phi'(t)"""
    return _function(phi, SLOPE, q, t)


@kernel
def curvature(phi, q, t):  # type: ignore[no-untyped-def]
    """phi''(t)"""
    return _function(phi, _CURVATURE, q, t)


@kernel
def proximal(phi, q, centre, step):  # type: ignore[no-untyped-def]
    """Minimiser of phi(t) + (t - centre)^2 / (2 step), step > 0."""
    step = phi.factor * step
    if not _has(phi.begin + q * phi.width, _PROXIMAL):
        return _root(phi.begin + q * phi.width, step, 1.0, centre, centre)
    return _call(phi.begin + q * phi.width, _PROXIMAL, (centre, step))


@kernel
def touching(phi, q, tangent):  # type: ignore[no-untyped-def]
    """t at which phi has the slope of a tangent, not below 0."""
    tangent = tangent / phi.factor
    if not _has(phi.begin + q * phi.width, _TOUCHING):
        return max(_root(phi.begin + q * phi.width, 1.0, 0.0, tangent, 1.0), 0.0)
    return max(_call(phi.begin + q * phi.width, _TOUCHING, (tangent,)), 0.0)


@kernel(inner=True)
def _root(row, share, tilt, level, start):  # type: ignore[no-untyped-def]
    """Root of share phi'(t) / factor + tilt t - level, increasing, by Newton's method kept inside a bracket.

    The lower end of the domain if the function is positive all over it, inf where it is negative.
    """
    lowest = -np.inf
    if _has(row, _LOWEST):
        lowest = _call(row, _LOWEST, ())
    low, high = lowest, np.inf
    t = start if start > low else low + 1.0
    span, f = 1.0 + abs(t), 0.0
    for _ in range(_STEPS):
        f = share * _call(row, SLOPE, (t,)) + tilt * t - level
        if f < 0.0:
            low = t
        elif f > 0.0:
            high = t
        if f == 0.0 or high - low <= _CLOSE * abs(t) or abs(t) > _FAR:
            break
        new = t - f / (share * _call(row, _CURVATURE, (t,)) + tilt)
        if low == -np.inf or high == np.inf:
            span *= 16.0
        if not (new > low and new < high and abs(new - t) <= span):
            if low > -np.inf:
                new = low + span if high == np.inf else 0.5 * (low + high)
            else:
                new = t if high == np.inf else high - span
        if abs(new - t) <= _CLOSE * abs(t):
            break
        t = new
    if f > 0.0 and (t < -_FAR if lowest == -np.inf else t - lowest <= _CLOSE * abs(lowest)):
        return lowest
    return np.inf if t > _FAR else t


@kernel(allocates=True)
def of_all(phi, method, t):  # type: ignore[no-untyped-def]
    """Value, slope or curvature, by its number, of every term at its own argument."""
    result = np.empty(t.size)
    for q in range(t.size):
        result[q] = _function(phi, method, q, t[q])
    return result
