"""Classes of terms as machine code: what cannot be one is named, and a second process compiles nothing."""

import os
import subprocess
import sys

import numpy as np
import pytest

from copter import ContinualProgram, ConvexTerm, LogTerm, make_solver
from copter.errors import EditError, TermError
from copter.terms.compiled import MOST_PARAMETERS, addresses


class Square(ConvexTerm):
    """k t^2 / 2"""

    def __init__(self, k, **more):
        super().__init__(1.0, k=k, **more)

    @staticmethod
    def value(t, k):
        return 0.5 * k * t * t

    @staticmethod
    def slope(t, k):
        return k * t

    @staticmethod
    def curvature(t, k):
        return k


def in_python(t):
    return t


class CallsPython(Square):
    @staticmethod
    def slope(t, k):
        return k * in_python(t)


class Pair(Square):
    @staticmethod
    def slope(t, k):
        return t, k


class Starred(Square):
    @staticmethod
    def slope(t, *parameters):
        return parameters[0] * t


class Swapped(Square):
    def __init__(self, k):
        super().__init__(k, more=1.0)

    @staticmethod
    def value(t, more, k):
        return 0.5 * k * t * t


class ClassMethod(Square):
    @classmethod
    def slope(cls, t, k):
        return k * t


class Without(Square):
    slope = None


@pytest.mark.parametrize(
    ("kind", "why"),
    [
        (CallsPython, "numba cannot compile it: Untyped global name 'in_python'"),
        (Pair, "numba cannot compile it: No conversion"),
        (Starred, r"must have the arguments \(t, k\)"),
        (Swapped, r"must have the arguments \(t, k, more\), with the names of the parameters"),
        (ClassMethod, "is not a static method"),
        (Without, "is missing"),
    ],
)
def test_a_class_that_cannot_be_compiled_is_named_with_its_method(kind, why):
    program = ContinualProgram()
    with pytest.raises(EditError, match=rf"{kind.__name__}\.(slope|value): {why}") as caught:
        program.add_request("a", [1.0], {}, term=kind(1.0))
    assert (caught.value.subject, caught.value.field) == ("a", "term")
    assert not len(program)


def test_a_class_may_have_only_so_many_parameters():
    names = tuple("abcdefghij"[: MOST_PARAMETERS + 1])
    with pytest.raises(TermError, match=r"Square\.parameters: has 9, and must have at most 8"):
        addresses(Square, names)


class Polynomial(ConvexTerm):
    """a t^8 + ... + h t with as many parameters as there may be."""

    def __init__(self, *coefficients):
        super().__init__(1.0, **dict(zip("abcdefgh", coefficients, strict=True)))

    @staticmethod
    def value(t, a, b, c, d, e, f, g, h):
        return t * (h + t * (g + t * (f + t * (e + t * (d + t * (c + t * (b + t * a)))))))

    @staticmethod
    def slope(t, a, b, c, d, e, f, g, h):
        return h + t * (
            2 * g + t * (3 * f + t * (4 * e + t * (5 * d + t * (6 * c + t * (7 * b + t * 8 * a)))))
        )

    @staticmethod
    def curvature(t, a, b, c, d, e, f, g, h):
        return 2 * g + t * (6 * f + t * (12 * e + t * (20 * d + t * (30 * c + t * (42 * b + t * 56 * a)))))


class Barrier(ConvexTerm):
    """1 / (1 + t), without a parameter."""

    def __init__(self):
        super().__init__(1.0)

    @staticmethod
    def value(t):
        return 1.0 / (1.0 + t) if t > -1.0 else np.inf

    @staticmethod
    def slope(t):
        return -1.0 / (1.0 + t) ** 2

    @staticmethod
    def curvature(t):
        return 2.0 / (1.0 + t) ** 3

    @staticmethod
    def lowest():
        return -1.0


@pytest.mark.parametrize("name", ["copter-newton", "copter-cd"])
def test_classes_with_any_number_of_parameters_share_a_row(name):
    """Slopes of all terms are equal where a common resource is shared best."""
    program = ContinualProgram()
    program.add_resource("r", 3.0)
    coefficients = (0.1, 0.0, 0.0, 0.3, 0.0, 0.2, 0.5, -9.0)
    terms = Polynomial(*coefficients), Barrier(), LogTerm(2.0, 0.5), Square(0.5)
    for k, term in enumerate(terms):
        program.add_request(k, [-4.0 if k == 3 else 0.0], {"r": 1.0}, term=term, upper=4.0)
    solution = make_solver(name, tolerance=1e-10).solve(program)
    x, price = [float(solution.x[k][0]) for k in range(4)], solution.price["r"]
    assert sum(x) == pytest.approx(3.0)
    slopes = [
        Polynomial.slope(x[0], *coefficients),
        Barrier.slope(x[1]),
        LogTerm.slope(x[2], 2.0, 0.5),
        0.5 * x[3] - 4.0,
    ]
    for own, slope in zip(x, slopes, strict=True):
        assert slope == pytest.approx(-price, rel=1e-4) if own > 1e-6 else slope >= -price - 1e-4


def test_a_term_says_what_it_is():
    assert repr(LogTerm(2.0, image=3.0)) == "LogTerm(weight=2.0, offset=0.0, image=3.0)"


SCRIPT = """
from copter.terms.compiled import _kernel, addresses
from own_term import Own

addresses(Own, ("k",))
print(all(_kernel(f).stats.cache_hits for f in (Own.value, Own.slope, Own.curvature)))
"""


def test_a_second_process_does_not_compile_a_users_term_again(tmp_path):
    head = "from copter import ConvexTerm\nfrom copter.compile.kernels import kernel\n\n"
    head += "@kernel\ndef twice(t):\n    return t + t\n\nclass Own(ConvexTerm):\n"
    head += "    def __init__(self, k):\n        super().__init__(1.0, k=k)\n"
    for name, body in (("value", "k * t * t"), ("slope", "k * twice(t)"), ("curvature", "2 * k")):
        head += f"    @staticmethod\n    def {name}(t, k):\n        return {body}\n"
    (tmp_path / "own_term.py").write_text(head)
    environment = os.environ | {"PYTHONPATH": str(tmp_path), "NUMBA_CACHE_DIR": str(tmp_path / "cache")}
    said = []
    for _ in range(2):
        run = subprocess.run(
            [sys.executable, "-c", SCRIPT], env=environment, capture_output=True, text=True, check=True
        )
        said.append(run.stdout.strip())
    assert said == ["False", "True"]
