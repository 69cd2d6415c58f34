"""Convex terms: requests whose objective is c'x + phi(a'x), phi convex, a >= 0.

A term is a function phi of one number, with parameters that differ from request to request, and the linear
image a of one request.  A class of terms says in plain Python what phi is, by static functions of numbers;
they are compiled (:mod:`copter.terms.compiled`) and run in the same kernels, whoever wrote the class.

What a class must know: value, slope and curvature.  The proximal point and the argument at which phi has
a given slope are found from these by a safeguarded Newton method unless the class has something better.  No
conjugate is asked for: the tangent at t touches phi at the height -phi*(phi'(t)) over 0, and a tangent is a
bound on phi wherever it was put, so that a certificate does not depend on how well t was found.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike

from copter.arrays import Floats


class ConvexTerm:
    """A convex function phi of the linear image a'x of one request.

    A subclass names its parameters when it calls this constructor, and defines ``value``, ``slope`` and
    ``curvature`` as static methods of floats, the parameters in the same order after the argument.  They are
    compiled by numba, so they may use numbers, ``math`` and other compiled functions.  phi is differentiable
    inside its domain, which must hold all t > 0; its slope at t = 0 may be minus infinity.

    Parameters
    ----------
    image : float or (n,) array_like
        a, >= 0: a number for all columns of the request, or one each.

    Attributes
    ----------
    value : static function (t, *parameters)
        phi(t), +inf outside of its domain.
    slope : static function (t, *parameters)
        phi'(t) for t in the domain; minus infinity is allowed at its lower end.
    curvature : static function (t, *parameters)
        phi''(t) >= 0 for t inside the domain; where it jumps either value.
    lowest : static function (*parameters), optional
        Lower end of the domain, <= 0; by default minus infinity.
    proximal : static function (centre, step, *parameters), optional
        Minimiser of phi(t) + (t - centre)^2 / (2 step), step > 0; by default it is searched for.
    touching : static function (slope, *parameters), optional
        Argument t at which phi has this slope: the lowest if all slopes are larger, inf if smaller; by
        default it is searched for.
    recession : float
        Limit of the slope as t goes to infinity: tells whether a program with the term is bounded.
    """

    value: ClassVar[Callable[..., float]]
    slope: ClassVar[Callable[..., float]]
    curvature: ClassVar[Callable[..., float]]
    lowest: ClassVar[Callable[..., float] | None] = None
    proximal: ClassVar[Callable[..., float] | None] = None
    touching: ClassVar[Callable[..., float] | None] = None
    recession: ClassVar[float] = math.inf

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

    @classmethod
    def check(cls, largest: Floats, *parameters: Floats) -> tuple[str, int, str] | None:
        """What is wrong with one of many terms; is not compiled.

        Parameters
        ----------
        largest : (k,) array
            The largest coefficient of each image; finite, not negative.
        *parameters : (k,) arrays
            Finite.

        Returns
        -------
        (field, which, why) or None
            ``field`` is the name of a parameter or "image".
        """
        return None


def make_term(kind: type[ConvexTerm], image: Any, parameters: Mapping[str, float]) -> ConvexTerm:
    """Return a term of a class from its image and parameters, whatever the class's constructor takes."""
    term = kind.__new__(kind)
    ConvexTerm.__init__(term, image, **parameters)
    return term


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
    def value(t: float, weight: float, offset: float) -> float:
        """-w log(beta + t), 0 if w = 0."""
        if weight == 0.0:
            return 0.0
        if offset + t > 0.0:
            return -weight * math.log(offset + t)
        return math.inf

    @staticmethod
    def slope(t: float, weight: float, offset: float) -> float:
        """-w / (beta + t)"""
        # where beta + t is not positive the slope is so steep that it is (about) infinite
        return -weight / max(offset + t, 1e-300) if weight > 0.0 else 0.0

    @staticmethod
    def curvature(t: float, weight: float, offset: float) -> float:
        """w / (beta + t)^2"""
        return weight / max(offset + t, 1e-300) ** 2 if weight > 0.0 else 0.0

    @staticmethod
    def lowest(weight: float, offset: float) -> float:
        """-beta; -inf if w = 0."""
        return -offset if weight > 0.0 else -math.inf

    @staticmethod
    def proximal(centre: float, step: float, weight: float, offset: float) -> float:
        """Larger root of q^2 - (centre + beta) q = step w, less beta."""
        if weight == 0.0:
            return centre
        shifted = centre + offset
        root = math.sqrt(shifted * shifted + 4.0 * step * weight)
        if shifted < 0.0:  # without cancellation
            return 2.0 * step * weight / max(root - shifted, 1e-300) - offset
        return 0.5 * (root + shifted) - offset

    @staticmethod
    def touching(slope: float, weight: float, offset: float) -> float:
        """-w / slope - beta"""
        return -weight / slope - offset if slope < 0.0 else math.inf

    @classmethod
    def check(cls, largest: Floats, *parameters: Floats) -> tuple[str, int, str] | None:
        """Neither weight nor offset is negative, and the logarithm has something to grow by.

        Parameters
        ----------
        largest : (k,) ndarray
        *parameters : (k,) arrays
            Weights and offsets.

        Returns
        -------
        (field, which, why) or None
        """
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
