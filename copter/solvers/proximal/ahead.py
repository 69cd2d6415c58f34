"""Compilation of kernels in advance, part by part.

A round begins with the kernels of the store and of working sets, and needs simplex or Newton's method, the
certificate and the shim later.  A separate process compiles those in the meantime
(:func:`copter.compile.beside.compile_last`), so that the round finds them compiled.  ``copter compile``
compiles all parts, for example for a container image.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable

from copter.compile.beside import ASIDE, NEWTON, PROOF, SHIM
from copter.compile.first_calls import compile_at_once
from copter.compile.kernels import compile_seconds
from copter.program.program import ContinualProgram
from copter.shims.choose_one import ChooseOneShim
from copter.shims.flow import FlowShim
from copter.solvers.proximal.solver import INNER, ProximalPoint, warm_up_few_changes
from copter.solvers.registry import make_solver
from copter.terms.convex import LogTerm


def _competing() -> ContinualProgram:
    """Return three requests that compete for the same columns."""
    program = ContinualProgram()
    program.add_resource("a", upper=3.0)
    for request in range(3):
        program.add_request(request, [-1.0, -3.0], {"a": [1.0, 2.0]}, total=1.0)
    return program


def _compile_newton() -> None:
    """Solve a small program by Newton's method."""
    ProximalPoint().solve(_competing())


def _compile_shim() -> None:
    """Solve a small program by simplex, and round the solution."""
    program = _competing()
    ChooseOneShim().round(program, make_solver("copter").solve(program))


def _compile_rounds() -> None:
    """Solve small programs of all kinds, with each inner solver."""
    ProximalPoint().warm_up()


def _compile_terms() -> None:
    """Solve a program with convex terms, with each inner solver."""
    program = ContinualProgram()
    program.add_resource("a", upper=3.0)
    for request in range(4):
        term = LogTerm(1.0 + request, 0.5, image=[1.0, 2.0])
        program.add_request(request, [0.0, 0.1], {"a": [1.0, 1.5]}, upper=2.0, term=term)
    for inner in INNER:
        ProximalPoint(inner=inner, tolerance=1e-3, iteration_limit=200).solve(program)


def _compile_flows() -> None:
    """Round a flow over two links."""
    program = ContinualProgram()
    program.add_resources(["a", "b"], upper=[1.0, 2.0])
    program.add_request("flow", [-1.0, -1.0], {"a": [1.0, 0.0], "b": [0.0, 1.0]}, total=2.5)
    FlowShim().round(program, ProximalPoint().solve(program))


def _compile_few_changes() -> None:
    """Solve rounds in which few of many requests change."""
    warm_up_few_changes()


PARTS: dict[str, Callable[[], None]] = {
    "rounds": _compile_rounds,
    SHIM: _compile_shim,
    "convex terms": _compile_terms,
    "flows": _compile_flows,
    "few changes": _compile_few_changes,
}
"""Parts of ``copter compile``. They leave out integer proofs, domains, and kernels of large programs only."""


BESIDE: dict[str, tuple[Callable[[], None], *tuple[str, ...]]] = {
    SHIM: (_compile_shim, "copter.solvers.inner.small_simplex", "copter.shims"),
    NEWTON: (_compile_newton, "copter.solvers.inner.compiled_newton"),
    PROOF: (_compile_shim, "copter.proof"),
}
"""Calls for the process next to a first round, and the modules whose kernels it compiles.

The process of the round compiles the other kernels of these calls at the same time.
"""


def compile_part(name: str) -> float:
    """Compile one part in this process; return the seconds that this took."""
    os.environ[ASIDE] = "1"
    compile_at_once()
    PARTS[name]()
    return compile_seconds()


def main() -> None:
    """Compile the parts named on the command line, until the parent process ends."""
    parent = os.getppid()
    for name in sys.argv[1:]:
        if os.getppid() == parent:
            compiled, *modules = BESIDE.get(name) or (PARTS[name],)
            compile_at_once(*modules)
            compiled()


if __name__ == "__main__":
    main()
