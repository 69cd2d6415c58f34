"""Terms of a program inside kernels: value, slope, curvature, proximal point and point of a given slope.

Terms are numbered as in their batch (:mod:`copter.terms.batch`).  Their functions are called by address, as C
functions of floats; what a class does not have is searched for by its slope and curvature.

Measured on Shockwave's relaxation (2000 jobs, 256 GPUs, one CPU) against kernels in which the logarithm was
written out: see the figures in :mod:`copter.terms.compiled`.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic
from numpy.typing import NDArray

from copter.kernels import kernel
from copter.terms.compiled import FUNCTIONS, MOST_PARAMETERS

VALUE, SLOPE, CURVATURE, LOWEST, PROXIMAL, TOUCHING = range(len(FUNCTIONS))
_STEPS = 200
_CLOSE = 1e-15
_FAR = 1e60
"""A root beyond it is at infinity."""


class Phi(NamedTuple):
    """The functions of k terms.

    Attributes
    ----------
    address : (kinds, functions) addresses of the functions of each class
    count : (kinds,) how many parameters each class has
    kind : (k,) class of each term
    parameters : (k, most) array
    factor : on all terms, for another unit of cost
    """

    address: NDArray[np.int64]
    count: NDArray[np.int64]
    kind: NDArray[np.int64]
    parameters: NDArray[np.float64]
    factor: float


@intrinsic  # type: ignore[untyped-decorator]
def _call(context, address, before, parameters, row, count):  # type: ignore[no-untyped-def]
    """What the function at an address returns for the floats ``before`` and ``count`` entries of a row."""

    def generate(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        where, first, table, line, number = values
        double, zero = ir.DoubleType(), ir.Constant(ir.IntType(64), 0)
        given = cgutils.unpack_tuple(builder, first)
        array = context.make_array(signature.args[2])(context, builder, table)
        begin = cgutils.get_item_pointer(context, builder, signature.args[2], array, [line, zero])
        result = cgutils.alloca_once_value(builder, ir.Constant(double, float("nan")))
        end = builder.append_basic_block("called")
        switch = builder.switch(number, end)
        for n in range(MOST_PARAMETERS + 1):
            block = builder.append_basic_block(f"call{n}")
            switch.add_case(ir.Constant(ir.IntType(64), n), block)
            builder.position_at_end(block)
            rest = [builder.load(builder.gep(begin, [ir.Constant(ir.IntType(64), i)])) for i in range(n)]
            kind = ir.FunctionType(double, [double] * (len(given) + n))
            function = builder.inttoptr(where, kind.as_pointer())
            builder.store(builder.call(function, [*given, *rest]), result)
            builder.branch(end)
        builder.position_at_end(end)
        return builder.load(result)

    return types.float64(types.int64, before, parameters, types.int64, types.int64), generate


@kernel
def _function(phi, method, q, t):  # type: ignore[no-untyped-def]
    kind = phi.kind[q]
    return phi.factor * _call(phi.address[kind, method], (t,), phi.parameters, q, phi.count[kind])


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
    return _function(phi, CURVATURE, q, t)


@kernel
def proximal(phi, q, centre, step):  # type: ignore[no-untyped-def]
    """Minimiser of phi(t) + (t - centre)^2 / (2 step), step > 0."""
    kind = phi.kind[q]
    own, step = phi.address[kind, PROXIMAL], phi.factor * step
    if own == 0:
        return _root(phi, q, step, 1.0, centre, centre)
    return _call(own, (centre, step), phi.parameters, q, phi.count[kind])


@kernel
def touching(phi, q, tangent):  # type: ignore[no-untyped-def]
    """t at which phi has the slope of a tangent, not below 0."""
    kind = phi.kind[q]
    own, tangent = phi.address[kind, TOUCHING], tangent / phi.factor
    if own == 0:
        return max(_root(phi, q, 1.0, 0.0, tangent, 1.0), 0.0)
    return max(_call(own, (tangent,), phi.parameters, q, phi.count[kind]), 0.0)


@kernel
def _root(phi, q, share, tilt, level, start):  # type: ignore[no-untyped-def]
    """Root of share phi'(t) / factor + tilt t - level, increasing, by Newton's method kept inside a bracket.

    The lower end of the domain if the function is positive all over it, inf where it is negative.
    """
    kind = phi.kind[q]
    address, parameters, count = phi.address[kind], phi.parameters, phi.count[kind]
    lowest = -np.inf
    if address[LOWEST] != 0:
        lowest = _call(address[LOWEST], (), parameters, q, count)
    low, high = lowest, np.inf
    t = start if start > low else low + 1.0
    span, f = 1.0 + abs(t), 0.0
    for _ in range(_STEPS):
        f = share * _call(address[SLOPE], (t,), parameters, q, count) + tilt * t - level
        if f < 0.0:
            low = t
        elif f > 0.0:
            high = t
        if f == 0.0 or high - low <= _CLOSE * abs(t) or abs(t) > _FAR:
            break
        new = t - f / (share * _call(address[CURVATURE], (t,), parameters, q, count) + tilt)
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


@kernel
def of_all(phi, method, t):  # type: ignore[no-untyped-def]
    """Value, slope or curvature, by its number, of every term at its own argument."""
    result = np.empty(t.size)
    for q in range(t.size):
        result[q] = _function(phi, method, q, t[q])
    return result
