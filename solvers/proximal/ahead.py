"""Compiles what a first solve will need, and its shim: in a process of its own, beside the solve.

A solve begins with the kernels that price and certify; Newton's method and the shim are needed when these
are there.  So this process begins with those, and the solve finds them compiled
(:func:`copter.kernels.compile_beside`).
"""

from __future__ import annotations

import os

import numpy as np

from copter.program.program import ContinualProgram
from copter.shims.choose_one import ChooseOneShim
from copter.solvers.inner.compiled_newton import CompiledNewton
from copter.solvers.inner.working_set import WorkingSet
from copter.solvers.registry import make_solver


def compile_newton() -> None:
    """Solve a set of two columns."""
    none, one, two = np.zeros(2), np.ones(1), np.ones(2)
    working = WorkingSet(
        slot=np.array([0]),
        relation=np.array([1], np.int8),
        total=one,
        first=np.array([0, 2]),
        block=np.array([0, 0]),
        column=np.array([0, 1]),
        cost=-two,
        upper=two,
        pointer=np.array([0, 1, 2]),
        row=np.zeros(2, np.uint32),
        value=two,
        lower_row=np.full(1, -np.inf),
        upper_row=0.5 * one,
        row_scale=one,
        column_scale=two,
        cost_scale=1.0,
        dust=0.0,
    )
    CompiledNewton(working, lambda: False).solve(np.zeros(1), none, 1.0, 1e-3, 5)


def compile_shim() -> None:
    """Round two requests that want the same."""
    program = ContinualProgram()
    program.add_resource("a", upper=3.0)
    for request in range(3):
        program.add_request(request, [-1.0, -3.0], {"a": [1.0, 2.0]}, total=1.0)
    ChooseOneShim().round(program, make_solver("highs-simplex").solve(program))


def main() -> None:
    """Do both, unless who asked for it is gone."""
    parent = os.getppid()
    for part in (compile_newton, compile_shim):
        if os.getppid() == parent:
            part()


if __name__ == "__main__":
    main()
