"""Convex terms: requests with the objective c'x + phi(a'x), with a convex function phi and an image a >= 0.

A term has a function phi of one number, whose parameters may differ between requests, and the coefficients a
of its request's image a'x. A class of terms defines phi by static Python functions of floats. These are
compiled (:mod:`copter.terms.compiled`), and the same kernels call the functions of all classes.

A class must define value, slope and curvature. From these, a safeguarded Newton method computes the proximal
point and the argument at which phi has a given slope, unless the class defines functions for them. The
conjugate phi* is not needed. The tangent of phi at t has the value -phi*(phi'(t)) at 0. Every tangent is a
lower bound on phi, so a certificate is valid even if t is inaccurate.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike

from copter.arrays import Floats


class ConvexTerm:
    """Base class of convex functions phi of the linear image a'x of one request.

    A subclass passes its parameters to this constructor by name. It defines ``value``, ``slope`` and
    ``curvature`` as static methods of floats, which take the argument and then the parameters in the same
    order. numba compiles them, so they may use numbers, ``math`` and other compiled functions. phi must be
    differentiable inside its domain, and the domain must contain all t > 0. Its slope at t = 0 may be minus
    infinity.

    Parameters
    ----------
    image : float or (n,) array_like
        Coefficients a >= 0: one number for all columns of the request, or one each.
    **parameters : float
        Parameters of phi by name.

    Attributes
    ----------
    value : static function (t, *parameters)
        phi(t); +inf outside the domain.
    slope : static function (t, *parameters)
        phi'(t) for t in the domain; minus infinity is allowed at its lower end.
    curvature : static function (t, *parameters)
        phi''(t) >= 0 for t inside the domain; where phi'' jumps, the value on either side.
    lowest : static function (*parameters), optional
        Lower end of the domain, <= 0. The default is minus infinity.
    proximal : static function (centre, step, *parameters), optional
        Minimiser of phi(t) + (t - centre)^2 / (2 step), step > 0. By default Newton's method computes it.
    touching : static function (slope, *parameters), optional
        Argument t at which phi has the given slope; the lower end of the domain if all slopes are larger, inf
        if all are smaller. By default Newton's method computes it.

    Examples
    --------
    >>> import numpy as np
    >>> from copter import ContinualProgram, ConvexTerm, ProximalPoint
    >>> class Quadratic(ConvexTerm):
    ...     def __init__(self, weight, image=1.0):
    ...         super().__init__(image, weight=weight)
    ...     @staticmethod
    ...     def value(t, weight):
    ...         return 0.5 * weight * t * t
    ...     @staticmethod
    ...     def slope(t, weight):
    ...         return weight * t
    ...     @staticmethod
    ...     def curvature(t, weight):
    ...         return weight
    >>> program = ContinualProgram()
    >>> program.add_resource("link", upper=10)
    >>> program.add_request("flow", costs=[-4.0], usage={"link": 1}, upper=9, term=Quadratic(2.0))
    >>> bool(np.isclose(ProximalPoint().solve(program).x["flow"][0], 2.0, atol=1e-3))
    True
    """

    value: ClassVar[Callable[..., float]]
    slope: ClassVar[Callable[..., float]]
    curvature: ClassVar[Callable[..., float]]
    lowest: ClassVar[Callable[..., float] | None] = None
    proximal: ClassVar[Callable[..., float] | None] = None
    touching: ClassVar[Callable[..., float] | None] = None

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
        """Return the first invalid term among many, or None; a subclass may override the method.

        The method is not compiled.

        Parameters
        ----------
        largest : (k,) array
            Largest coefficient of each image; finite, not negative.
        *parameters : (k,) arrays
            Finite parameters of each term.

        Returns
        -------
        (field, which, why) or None
            Name of the invalid parameter or "image", number of the term, and the condition for a message.
        """
        return None


def make_term(kind: type[ConvexTerm], image: Any, parameters: Mapping[str, float]) -> ConvexTerm:
    """Return a term of a class from its image and parameters, without calling the class's constructor."""
    term = kind.__new__(kind)
    ConvexTerm.__init__(term, image, **parameters)
    return term


class LogTerm(ConvexTerm):
    """Convex term phi(t) = -weight log(offset + t), for proportional fairness and Nash welfare.

    Parameters
    ----------
    weight : float
        Weight >= 0. With 0 the term is 0.
    offset : float
        Offset >= 0. With 0 every allocation with a finite objective has a'x > 0.
    image : float or (n,) array_like
        Coefficients a >= 0.

    Examples
    --------
    >>> from copter import ContinualProgram, LogTerm, ProximalPoint
    >>> program = ContinualProgram()
    >>> program.add_resource("link", upper=10)
    >>> for flow, weight in (("a", 1.0), ("b", 4.0)):
    ...     program.add_request(flow, costs=[0.0], usage={"link": 1}, upper=20, term=LogTerm(weight))
    >>> solution = ProximalPoint().solve(program)
    >>> {flow: round(float(solution.x[flow][0]), 2) for flow in ("a", "b")}
    {'a': 2.0, 'b': 8.0}
    """

    def __init__(self, weight: float, offset: float = 0.0, image: ArrayLike = 1.0) -> None:
        super().__init__(image, weight=weight, offset=offset)

    @staticmethod
    def value(t: float, weight: float, offset: float) -> float:
        """Return -w log(beta + t), or 0 if w = 0."""
        if weight == 0.0:
            return 0.0
        if offset + t > 0.0:
            return -weight * math.log(offset + t)
        return math.inf

    @staticmethod
    def slope(t: float, weight: float, offset: float) -> float:
        """Return -w / (beta + t)."""
        # If beta + t is not positive, the slope is very large instead of infinite.
        return -weight / max(offset + t, 1e-300) if weight > 0.0 else 0.0

    @staticmethod
    def curvature(t: float, weight: float, offset: float) -> float:
        """Return w / (beta + t)^2."""
        return weight / max(offset + t, 1e-300) ** 2 if weight > 0.0 else 0.0

    @staticmethod
    def lowest(weight: float, offset: float) -> float:
        """Return -beta, or -inf if w = 0."""
        return -offset if weight > 0.0 else -math.inf

    @staticmethod
    def proximal(centre: float, step: float, weight: float, offset: float) -> float:
        """Return the larger root q of q^2 - (centre + beta) q = step w, minus beta."""
        if weight == 0.0:
            return centre
        shifted = centre + offset
        root = math.sqrt(shifted * shifted + 4.0 * step * weight)
        if shifted < 0.0:  # without cancellation
            return 2.0 * step * weight / max(root - shifted, 1e-300) - offset
        return 0.5 * (root + shifted) - offset

    @staticmethod
    def touching(slope: float, weight: float, offset: float) -> float:
        """Return -w / slope - beta, or inf if the slope is not negative."""
        return -weight / slope - offset if slope < 0.0 else math.inf

    @classmethod
    def check(cls, largest: Floats, *parameters: Floats) -> tuple[str, int, str] | None:
        """Return the first term with a negative weight or offset, or with an argument that is always 0.

        Parameters
        ----------
        largest : (k,) ndarray
            Largest coefficient of each image.
        *parameters : (k,) arrays
            Weights and offsets.

        Returns
        -------
        (field, which, why) or None
            Name of the invalid parameter or "image", number of the term, and the condition for a message.
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
