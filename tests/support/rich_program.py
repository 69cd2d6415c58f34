"""A program with everything that one can have, edits of it, and whether two of them answer alike."""

from __future__ import annotations

import numpy as np

from copter import (
    ContinualProgram,
    ConvexTerm,
    LogTerm,
)
from rounds.reading import bits, same


def rich() -> ContinualProgram:
    """A program with everything that one can have, with holes in its tables and pools."""
    program = ContinualProgram()
    for name, upper in (("a", 6.0), ("b", 5.0), (("rack", 1), 4.0), (7, 3.0)):
        program.add_resource(name, upper, lower=0.0)
    shared = program.share_columns({"a": [1.0, 2.0, 0.0], 7: 1.0}, 3, columns=["x", ("y", 1), 2])
    program.add_requests(
        ["t1", "t2", "gone"], -np.arange(1.0, 10.0), [3, 3, 3], shared, totals=[1.0, 1.0, 2.0]
    )
    program.add_request("own", [-3.0, -1.0], {"b": 1.0}, total=2.0, upper=[1.0, 1.5], override={1: -4.0})
    program.add_request("late", [-1.0] * 4, {"a": 0.5, "b": [1.0, 0.0, 1.0, 2.0]}, total=1.0, start={2: 1.0})
    program.add_request(
        "log", [0.0, 0.0], {("rack", 1): 1.0}, term=LogTerm(2.0, 0.1, [1.0, 3.0]), integral=True, upper=1e3
    )
    program.update_requests(["log"], terms={"weight": [2.5]})
    program.add_request("moved", [-1.0, -2.0], {"a": 1.0}, total=1.0, columns=["u", "v"])
    program.add_columns("moved", ["w"], -1.5, {"b": 1.0})
    program.remove_request("gone")
    program.add_resource("spare", 1.0)
    program.remove_resources("spare")
    return program


def edit(program: ContinualProgram) -> None:
    """Edits that use free slots, free slices and new room."""
    template = next(iter(program._templates.values()))
    program.add_request("new", [-9.0, -2.0, -1.0], template, total=1.0)
    program.add_request("wide", [-1.0] * 90, {"b": np.linspace(1, 2, 90)}, total=1.0)
    program.update_request("own", override={0: -7.0}, scale=2.0)
    program.update_request("late", costs=[-2.0], usage={"a": 1.0})
    program.remove_columns("moved", ["u"])
    program.remove_request("t1")
    program.update_resources("a", upper=5.5)
    program.add_resource("more", 2.0)


def same_answers(one, other, rounds=1) -> None:
    """Two (program, solver) pairs answer alike, bit by bit; one that was saved has no proof of an answer."""
    for _ in range(rounds):
        first, second = (solver.solve(program) for program, solver in (one, other))
        same(bits(first), bits(second), "an answer", without=("reason",))


class Square(ConvexTerm):
    """weight t^2: a term that copter does not know."""

    def __init__(self, weight):
        super().__init__(1.0, weight=weight)

    @staticmethod
    def value(t, weight):
        return weight * t * t

    @staticmethod
    def slope(t, weight):
        return 2 * weight * t

    @staticmethod
    def curvature(t, weight):
        return 2 * weight + 0 * t
