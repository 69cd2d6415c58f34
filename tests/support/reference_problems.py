"""Reference programs with known answers, after the problems of qpsolvers: each is difficult in one way.

Values, points and prices are derived in the docstrings or are from the literature, never taken from a solver.
General LPs in scipy's form are in :mod:`lp_problems`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from copter import ContinualProgram, LogTerm

INF = np.inf


@dataclass(frozen=True)
class Reference:
    """A program and its answer.

    Attributes
    ----------
    build : makes it
    value : of the optimum, NaN if there is none
    status : of a solver that can do it
    prices : of resources, where only one dual optimum exists
    x : of requests, where only one optimum exists
    whole : value with whole numbers, for solvers that have them
    terms : whether it has convex terms
    """

    build: Callable[[], ContinualProgram]
    value: float = np.nan
    status: str = "optimal"
    prices: dict = field(default_factory=dict)
    x: dict = field(default_factory=dict)
    whole: float | None = None
    terms: bool = False

    @property
    def name(self) -> str:
        return self.build.__name__


def fractional_choice(unit: float = 1.0, cost: float = 1.0, integral: bool = False) -> ContinualProgram:
    """A share s of the column of 10 and 1 - s of that of 2 use 2 + 8 s <= 8: s = 3/4, 1.8 + 0.7 s = 2.325.

    A GPU more is worth 0.7 / 8.
    """
    program = ContinualProgram()
    program.add_resource("gpu", 8.0 * unit)
    usage = {"gpu": [1.0 * unit, 2.0 * unit, 10.0 * unit]}
    program.add_request("job", [-1.0 * cost, -1.8 * cost, -2.5 * cost], usage, total=1.0, integral=integral)
    return program


def whole_choice() -> ContinualProgram:
    """The same with whole numbers: the column of 10 does not fit, 1.8 is left."""
    return fractional_choice(integral=True)


def large_usage_small_costs() -> ContinualProgram:
    """The same in units of a millionth and a ten-thousandth."""
    return fractional_choice(1e6, 1e-4)


def mixed_scales() -> ContinualProgram:
    """Resources of 1e-3 and of 1e6 that do not meet: each request is cut at what its own one has."""
    program = ContinualProgram()
    program.add_resource("small", 1e-3)
    program.add_resource("large", 1e6)
    program.add_request("a", [-2.0], {"small": [1e-3]}, upper=1e3)
    program.add_request("b", [-3.0], {"large": [1e6]}, upper=1e3)
    return program


def beale() -> ContinualProgram:
    """Beale's (1955), on which simplex with the largest reduced cost cycles: -1/20 at (1/25, 0, 1, 0)."""
    program = ContinualProgram()
    for row, upper in (("first", 0.0), ("second", 0.0), ("third", 1.0)):
        program.add_resource(row, upper)
    usage = {
        "first": [1 / 4, -60.0, -1 / 25, 9.0],
        "second": [1 / 2, -90.0, -1 / 50, 3.0],
        "third": ([2], [1.0]),
    }
    program.add_request("x", [-3 / 4, 150.0, -1 / 50, 6.0], usage, upper=1e3)
    return program


def klee_minty() -> ContinualProgram:
    """Klee and Minty's cube of three dimensions: 10,000, all by the last row."""
    program = ContinualProgram()
    for row, upper in ((0, 1.0), (1, 100.0), (2, 10_000.0)):
        program.add_resource(row, upper)
    program.add_request(
        "x",
        [-100.0, -10.0, -1.0],
        {0: ([0], [1.0]), 1: ([0, 1], [20.0, 1.0]), 2: [200.0, 20.0, 1.0]},
        upper=1e5,
    )
    return program


def assignment(n: int = 12) -> ContinualProgram:
    """n requests for n places at cost i j: the sums are least in opposite order, n (n+1) (n+2) / 6.

    All constraints but the places are sums of requests, and every vertex is degenerate.
    """
    program = ContinualProgram()
    for place in range(1, n + 1):
        program.add_resource(place, 1.0)
    use = program.share_columns({place: ([place - 1], [1.0]) for place in range(1, n + 1)}, n)
    for i in range(1, n + 1):
        costs = [float(i * j) for j in range(1, n + 1)]
        program.add_request(("worker", i), costs, use, total=1.0, relation="==")
    return program


def equalities() -> ContinualProgram:
    """a + b = 3, b + c = 2 at costs 2, 5, 1: 8 + 2 b, so b = 0; a and c say prices -2 and -1."""
    program = ContinualProgram()
    program.add_resource("first", 3.0, lower=3.0)
    program.add_resource("second", 2.0, lower=2.0)
    for id, cost, rows in (("a", 2.0, ["first"]), ("b", 5.0, ["first", "second"]), ("c", 1.0, ["second"])):
        program.add_request(id, [cost], {row: [1.0] for row in rows}, upper=1e3)
    return program


def covering() -> ContinualProgram:
    """At least 4 of a and b, at most 3 of the cheaper b: 3 * 2 + 1 * 3; a lower bound has a price < 0."""
    program = ContinualProgram()
    program.add_resource("demand", INF, lower=4.0)
    program.add_request("a", [3.0], {"demand": [1.0]}, upper=1e3)
    program.add_request("b", [2.0], {"demand": [1.0]}, upper=3.0)
    return program


def free_variable() -> ContinualProgram:
    """A free number as the difference of two columns, kept above -3 by a row, at a price of -1."""
    program = ContinualProgram()
    program.add_resource("floor", INF, lower=-3.0)
    program.add_request("x", [1.0, -1.0], {"floor": [1.0, -1.0]}, upper=1e3)
    return program


def redundant() -> ContinualProgram:
    """The same row three times, and one that is never tight; only the sum of the three prices is known."""
    program = ContinualProgram()
    for row in range(3):
        program.add_resource(row, 5.0)
    program.add_resource("loose", 100.0)
    program.add_request("x", [-1.0, -1.0], dict.fromkeys([0, 1, 2, "loose"], [1.0, 1.0]), upper=1e3)
    return program


def nothing() -> ContinualProgram:
    """No requests: 0, whatever there is."""
    program = ContinualProgram()
    program.add_resource("gpu", 8.0)
    return program


def nothing_allowed() -> ContinualProgram:
    """A total of 0: 0, and a GPU more is worth nothing."""
    program = ContinualProgram()
    program.add_resource("gpu", 8.0)
    program.add_request("job", [-1.0, -2.0], {"gpu": [1.0, 2.0]}, total=0.0)
    return program


def no_rows() -> ContinualProgram:
    """No resources: each column goes to its upper bound, or stays where it costs."""
    program = ContinualProgram()
    program.add_request("x", [-1.0, 2.0, -3.0], {}, upper=[1.0, 1.0, 4.0])
    return program


def infeasible_rows() -> ContinualProgram:
    """2 wanted in all, at 1 GPU each, of 1 GPU."""
    program = ContinualProgram()
    program.add_resource("gpu", 1.0)
    program.add_request("job", [1.0, 2.0], {"gpu": [1.0, 1.0]}, total=2.0, relation="==")
    return program


def infeasible_bounds() -> ContinualProgram:
    """A sum of 2 of two columns of at most 1/2."""
    program = ContinualProgram()
    program.add_request("job", [1.0, 2.0], {}, total=2.0, relation="==", upper=0.5)
    return program


def proportional() -> ContinualProgram:
    """min -log a - 2 log b, a + b <= 3: a = 1 / p, b = 2 / p with the price p = 1."""
    program = ContinualProgram()
    program.add_resource("gpu", 3.0)
    program.add_request("a", [0.0], {"gpu": [1.0]}, term=LogTerm(1.0), upper=1e3)
    program.add_request("b", [0.0], {"gpu": [1.0]}, term=LogTerm(2.0), upper=1e3)
    return program


REFERENCES = [
    Reference(fractional_choice, -2.325, prices={"gpu": 0.0875}, x={"job": [0.0, 0.25, 0.75]}),
    Reference(whole_choice, -2.325, whole=-1.8),
    Reference(large_usage_small_costs, -2.325e-4, prices={"gpu": 0.0875e-10}, x={"job": [0.0, 0.25, 0.75]}),
    Reference(mixed_scales, -5.0, prices={"small": 2e3, "large": 3e-6}, x={"a": [1.0], "b": [1.0]}),
    Reference(beale, -1 / 20, x={"x": [1 / 25, 0.0, 1.0, 0.0]}),
    Reference(klee_minty, -10_000.0, prices={0: 0.0, 1: 0.0, 2: 1.0}, x={"x": [0.0, 0.0, 10_000.0]}),
    Reference(assignment, 364.0),
    Reference(equalities, 8.0, prices={"first": -2.0, "second": -1.0}, x={"a": [3.0], "b": [0.0]}),
    Reference(covering, 9.0, prices={"demand": -3.0}, x={"a": [1.0], "b": [3.0]}),
    Reference(free_variable, -3.0, prices={"floor": -1.0}),
    Reference(redundant, -5.0),
    Reference(nothing, 0.0, prices={"gpu": 0.0}),
    Reference(nothing_allowed, 0.0, prices={"gpu": 0.0}, x={"job": [0.0, 0.0]}),
    Reference(no_rows, -13.0, x={"x": [1.0, 0.0, 4.0]}),
    Reference(infeasible_rows, status="infeasible"),
    Reference(infeasible_bounds, status="infeasible"),
    Reference(proportional, -2.0 * np.log(2.0), prices={"gpu": 1.0}, x={"a": [1.0], "b": [2.0]}, terms=True),
]
