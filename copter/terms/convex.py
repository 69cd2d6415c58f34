"""Convex terms: requests whose objective is c'x + phi(a'x), phi convex, a >= 0.

A term is a function phi of one number, with parameters that differ from request to request, and the linear
image a of one request.  The functions are static and work on arrays, one entry a request, so that a solver
evaluates the terms of all requests of a class at once; the image and the parameters are the object's own.

What a term must know: its value, slope and curvature.  The proximal point and the argument at which phi has
a given slope are found from these by a safeguarded Newton method unless the class has something better.  No
conjugate is asked for: the tangent at t touches phi at the height -phi*(phi'(t)) over 0, and a tangent is a
bound on phi wherever it was put, so that a certificate does not depend on how well t was found.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

Floats = NDArray[np.float64]

_STEPS = 200
_FAR = 1e60
"""A root beyond it is at infinity."""


class ConvexTerm(ABC):
    """A convex function phi of the linear image a'x of one request.

    A subclass names its parameters when it calls this constructor, and defines :meth:`value`, :meth:`slope`
    and :meth:`curvature` with the parameters in the same order.  phi is differentiable inside its domain,
    which must hold all t > 0; its slope at t = 0 may be minus infinity.

    Parameters
    ----------
    image : float or (n,) array_like
        a, >= 0: a number for all columns of the request, or one each.
    **parameters : float
    """

    recession: ClassVar[float] = math.inf
    """Limit of the slope as t goes to infinity: tells whether a program with the term is bounded."""

    def __init__(self, image: ArrayLike, **parameters: float) -> None:
        self.image: Any = image if np.ndim(image) == 0 else np.array(image)
        self.parameters = dict(parameters)

    def __repr__(self) -> str:
        said = [f"{name}={value!r}" for name, value in self.parameters.items()]
        image = (
            self.image
            if np.ndim(self.image) == 0
            else np.array2string(self.image, threshold=6, separator=", ")
        )
        return f"{type(self).__name__}({', '.join([*said, f'image={image}'])})"

    @staticmethod
    @abstractmethod
    def value(t: Floats, *parameters: Floats) -> Floats:
        """phi(t), +inf outside of its domain; arguments and result of shape (k,)."""

    @staticmethod
    @abstractmethod
    def slope(t: Floats, *parameters: Floats) -> Floats:
        """phi'(t) for t in the domain; minus infinity is allowed at its lower end."""

    @staticmethod
    @abstractmethod
    def curvature(t: Floats, *parameters: Floats) -> Floats:
        """phi''(t) >= 0 for t inside the domain; where it jumps either value."""

    @staticmethod
    def lowest(*parameters: Floats) -> Floats:
        """Lower end of the domain, <= 0."""
        return np.full(parameters[0].shape if parameters else (), -np.inf)

    @classmethod
    def proximal(cls, centre: Floats, step: Floats, *parameters: Floats) -> Floats:
        """Minimiser of phi(t) + (t - centre)^2 / (2 step), step > 0."""

        def above(t: Floats) -> tuple[Floats, Floats]:
            return (
                step * cls.slope(t, *parameters) + t - centre,
                step * cls.curvature(t, *parameters) + 1.0,
            )

        return increasing_root(above, centre, _broadcast(cls.lowest(*parameters), centre))

    @classmethod
    def touching(cls, slope: Floats, *parameters: Floats) -> Floats:
        """Argument t at which phi has this slope: the lowest if all slopes are larger, inf if smaller."""

        def above(t: Floats) -> tuple[Floats, Floats]:
            return cls.slope(t, *parameters) - slope, cls.curvature(t, *parameters)

        start = np.ones_like(slope)
        return increasing_root(above, start, _broadcast(cls.lowest(*parameters), slope))

    @classmethod
    def check(cls, largest: Floats, *parameters: Floats) -> tuple[str, int, str] | None:
        """What is wrong with one of many terms: (field, which, why), field a parameter or "image".

        ``largest`` has the largest coefficient of each image.  It and the parameters are known to be
        finite, images not to be negative.
        """
        return None


class LogTerm(ConvexTerm):
    """phi(t) = -weight log(offset + t): proportional fairness and Nash welfare, to be minimised.

    Parameters
    ----------
    weight : float
        >= 0; with 0 the term is 0.
    offset : float
        >= 0; with 0 every feasible allocation has a'x > 0.
    image : float or (n,) array_like
    """

    recession = 0.0

    def __init__(self, weight: float, offset: float = 0.0, image: ArrayLike = 1.0) -> None:
        super().__init__(image, weight=weight, offset=offset)

    @staticmethod
    def value(t: Floats, *parameters: Floats) -> Floats:
        """-w log(beta + t), 0 if w = 0."""
        weight, offset = parameters
        with np.errstate(divide="ignore", invalid="ignore"):
            values = -weight * np.log(offset + t)
        values = np.where(offset + t < 0, np.inf, values)
        return np.where(weight > 0, values, 0.0)

    @staticmethod
    def slope(t: Floats, *parameters: Floats) -> Floats:
        """-w / (beta + t)"""
        weight, offset = parameters
        return np.where(weight > 0, -weight / _positive(offset + t), 0.0)

    @staticmethod
    def curvature(t: Floats, *parameters: Floats) -> Floats:
        """w / (beta + t)^2"""
        weight, offset = parameters
        return np.where(weight > 0, weight / _positive(offset + t) ** 2, 0.0)

    @staticmethod
    def lowest(*parameters: Floats) -> Floats:
        """-beta; -inf if w = 0."""
        weight, offset = parameters
        return np.where(weight > 0, -offset, -np.inf)

    @classmethod
    def proximal(cls, centre: Floats, step: Floats, *parameters: Floats) -> Floats:
        """Larger root of q^2 - (centre + beta) q = step w, less beta."""
        weight, offset = parameters
        shifted = centre + offset
        root = np.sqrt(shifted * shifted + 4.0 * step * weight)
        small = 2.0 * step * weight / _positive(root - shifted)  # no cancellation where centre < -beta
        return np.where(weight > 0, np.where(shifted < 0, small, 0.5 * (root + shifted)) - offset, centre)

    @classmethod
    def touching(cls, slope: Floats, *parameters: Floats) -> Floats:
        """-w / slope - beta"""
        weight, offset = parameters
        with np.errstate(divide="ignore", invalid="ignore"):
            t = np.where(slope < 0, -weight / slope, np.inf) - offset
        return t

    @classmethod
    def check(cls, largest: Floats, *parameters: Floats) -> tuple[str, int, str] | None:
        """Neither weight nor offset is negative, and the logarithm has something to grow by."""
        weight, offset = parameters
        empty = (weight > 0) & (offset == 0) & (largest == 0)
        for field, wrong, why in (
            ("weight", weight < 0, "must not be negative"),
            ("offset", offset < 0, "must not be negative"),
            ("image", empty, "must not be 0 everywhere if the offset is 0"),
        ):
            if wrong.any():
                return field, int(wrong.argmax()), why
        return None


def _positive(values: Floats) -> Floats:
    """Values, with what is not positive so small that dividing by it gives (about) infinity."""
    return np.maximum(values, 1e-300)


def _broadcast(values: Any, like: Floats) -> Floats:
    return np.broadcast_to(np.asarray(values, np.float64), like.shape)


def increasing_root(
    function: Callable[[Floats], tuple[Floats, Floats]], start: Floats, lowest: Floats
) -> Floats:
    """Root of increasing functions, one an entry, by Newton's method kept inside a bracket.

    Parameters
    ----------
    function : callable
        (values, derivatives) at arguments above ``lowest``.
    start, lowest : (k,) arrays
        A guess, and the lower end of the domain.

    Returns
    -------
    (k,) array : ``lowest`` where the function is positive all over its domain, inf where it is negative.
    """
    low, high = lowest.copy(), np.full(start.shape, np.inf)
    t = np.where(start > low, start, low + 1.0)
    span, done = 1.0 + abs(t), np.zeros(start.shape, np.bool_)
    with np.errstate(all="ignore"):
        for _ in range(_STEPS):
            f, slope = function(t)
            low, high = np.where(f < 0, t, low), np.where(f > 0, t, high)
            newton = t - f / slope
            span = np.where(np.isinf(low) | np.isinf(high), 16.0 * span, span)
            middle = np.where(
                np.isinf(high),
                np.where(np.isinf(low), t, low + span),
                np.where(np.isinf(low), high - span, 0.5 * (low + high)),
            )
            inside = (newton > low) & (newton < high) & (abs(newton - t) <= span)
            new = np.where(f == 0, t, np.where(inside, newton, middle))
            done |= (
                (abs(t) > _FAR) | (abs(new - t) <= 1e-15 * abs(t)) | (high - low <= 1e-15 * abs(t)) | (f == 0)
            )
            t = np.where(done, t, new)
            if done.all():
                break
    t = np.where((t > _FAR) | (~done & (f < 0) & np.isinf(high)), np.inf, t)
    at_end = np.where(np.isinf(lowest), t < -_FAR, t - lowest <= 1e-15 * abs(lowest))
    return np.where((f > 0) & at_end, lowest, t)
