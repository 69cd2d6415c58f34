"""`copter solve`: one linear program from a file."""

from __future__ import annotations

import math
from pathlib import Path
from time import perf_counter
from typing import Annotated, Any

import typer

from copter.cli.console import print_json, seconds, table
from copter.cli.options import Deadline, JsonFlag, SolverName, Threads, Tolerance, existing_file

EXAMPLES = """\b
Examples:
  copter solve afiro.mps
  copter solve afiro.mps --solver highs-simplex --tolerance 1e-8 --json
  copter solve knapsack.mps.gz --solver highs-milp
"""

_WITHOUT_OPTIMUM = ("infeasible", "unbounded")
_ANSWERS = ("optimal", *_WITHOUT_OPTIMUM)
_MILP = "highs-milp"


def solve(
    path: Annotated[
        Path,
        typer.Argument(
            metavar="FILE",
            callback=existing_file("give an MPS or LP file"),
            help="MPS or LP file, plain or gzipped.",
        ),
    ],
    solver: SolverName = "copter",
    tolerance: Tolerance = 1e-6,
    deadline: Deadline = None,
    threads: Threads = None,
    as_json: JsonFlag = False,
) -> None:
    """Solve a linear program from an MPS or LP file; all solvers but highs-milp relax integral columns.

    Objective and bound are those of the file: of a maximisation, the bound is one from above.  The certified
    bound is the relaxation's, also for highs-milp, which reports a bound of its own as well.  Exits with 1
    if the solver stopped before it could tell whether the program is optimal, infeasible or unbounded.
    """
    from copter.general import read_mps, to_program
    from copter.solvers.base import make_solver

    lp = read_mps(path)
    general = to_program(lp)
    own = {"mip_gap": tolerance} if solver == _MILP else {}
    begin = perf_counter()
    solution = make_solver(solver, tolerance=tolerance, deadline=deadline, threads=threads, **own).solve(
        general.program
    )
    figures: dict[str, Any] = {
        "solver": solver,
        "status": str(solution.status),
        "reason": solution.reason,
        "sense": "maximize" if lp.maximize else "minimize",
        "objective": general.objective(solution),
        "bound": general.bound(solution),
        "gap": solution.gap,
        "primal_residual": solution.primal_residual,
        "dual_residual": solution.dual_residual,
        "iterations": solution.iterations,
        "seconds": perf_counter() - begin,
        "rows": lp.A.shape[0],
        "columns": lp.A.shape[1],
        "nonzeros": lp.A.nnz,
        "integral_columns": int(lp.integral.sum()),
        "relaxed": bool(lp.integral.any()) and solver != _MILP,
    }
    if solver == _MILP:
        figures["milp_bound"] = general.own_sense(solution.details["mip_bound"])
    if solution.ray is not None:
        figures["ray"] = {
            "kind": solution.ray.kind,
            "value": solution.ray.value,
            "residual": solution.ray.residual,
        }
    if figures["status"] in _WITHOUT_OPTIMUM:
        figures |= dict.fromkeys(("objective", "bound", "gap"), math.nan)
        figures.pop("milp_bound", None)
    if as_json:
        print_json(figures)
    else:
        _print(path.name, figures)
    if figures["status"] not in _ANSWERS:
        raise typer.Exit(1)


def _print(name: str, one: dict[str, Any]) -> None:
    rows = [
        ("status", f"{one['status']}: {one['reason']}"),
        ("objective", f"{one['objective']:.10g}"),
        ("certified bound", f"{one['bound']:.10g}"),
        *([("HiGHS' bound, integral", f"{one['milp_bound']:.10g}")] if "milp_bound" in one else []),
        (
            "gap, primal, dual residual",
            f"{one['gap']:.1e}, {one['primal_residual']:.1e}, {one['dual_residual']:.1e}",
        ),
        ("iterations", str(one["iterations"])),
        ("time, compilation included", seconds(one["seconds"])),
        ("rows, columns, nonzeros", f"{one['rows']:,}, {one['columns']:,}, {one['nonzeros']:,}"),
        ("integral columns", f"{one['integral_columns']:,}{' (relaxed)' if one['relaxed'] else ''}"),
    ]
    if "ray" in one:
        ray = one["ray"]
        rows.append(
            (f"proof that it is {ray['kind']}", f"value {ray['value']:.3g}, residual {ray['residual']:.1e}")
        )
    table(name, ("figure", "value"), rows, text_columns=2)
