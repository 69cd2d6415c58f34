"""Compiles what nearly every test needs; ``make kernels`` runs this once, before pytest's processes do."""

from copter import ContinualProgram, ProximalPoint


def solve_all() -> None:
    """Small programs, solved in both ways: a bounded one, and after an edit one that is infeasible."""
    program = ContinualProgram()
    for resource, upper in (("a", 3.0), ("b", 0.5)):
        program.add_resource(resource, upper, lower=-1.0)
    for k in range(12):
        usage = {"a": [1.0 + k % 3, 0.0, 2.0], "b": ([2], [0.1 * k])}
        program.add_request(k, [-1.0 - 0.1 * k, 0.0, -1.5], usage, total=1.0, upper=[1.0, 1.0, 0.7])
    for inner in ("newton", "cd"):
        ProximalPoint(inner=inner, tolerance=1e-3, iteration_limit=200).solve(program)
    program.set_capacity("a", upper=-0.5)
    for inner in ("newton", "cd"):
        ProximalPoint(inner=inner, tolerance=1e-3, iteration_limit=200).solve(program)


if __name__ == "__main__":
    solve_all()
