"""`copter solve`: one linear program from a file."""

from __future__ import annotations

import math
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Annotated, Any

import typer

from copter.cli.console import print_json, seconds, table
from copter.cli.options import Deadline, JsonFlag, Threads, Tolerance, existing_file, solver_option

if TYPE_CHECKING:
    from copter.solvers.general import GeneralLP

EXAMPLES = """\b
Examples:
  copter solve afiro.mps
  copter solve afiro.mps --solver copter --no-presolve --json
  copter solve knapsack.mps.gz --solver highs-milp
"""

_WITHOUT_OPTIMUM = ("infeasible", "unbounded")
_ANSWERS = ("optimal", *_WITHOUT_OPTIMUM)
_AUTO = "auto"


def solve(
    path: Annotated[
        Path,
        typer.Argument(
            metavar="FILE",
            callback=existing_file("give an MPS or LP file"),
            help="MPS or LP file, plain or gzipped.",
        ),
    ],
    solver: Annotated[str, solver_option((_AUTO,))] = _AUTO,
    tolerance: Tolerance = 1e-6,
    deadline: Deadline = None,
    threads: Threads = None,
    presolve: Annotated[bool, typer.Option(help="Presolve by HiGHS first; highs-milp always does.")] = True,
    polish: Annotated[bool, typer.Option("--polish", help="End at a vertex, by HiGHS' simplex.")] = False,
    as_json: JsonFlag = False,
) -> None:
    """Solve a linear program from an MPS or LP file; all solvers but highs-milp relax integral columns.

    The default, auto, is copter's own solver for a while and then HiGHS, which goes on from there; any other
    solver is alone.  Objective and bound are those of the file: of a maximisation, the bound is one from
    above.  The certified bound is the relaxation's, also for highs-milp, which reports a bound of its own as
    well.  Exits with 1 if it could not be told whether the program is optimal, infeasible or unbounded.

    \f

    Parameters
    ----------
    path : Path
    solver : str
    tolerance : float
    deadline : float, optional
        Seconds.
    threads : int, optional
    presolve, polish, as_json : bool

    Raises
    ------
    typer.Exit
        With 1, as above.
    """  # noqa: D301
    from copter.solvers.general import read_mps

    lp = read_mps(path)
    begin = perf_counter()
    integral = _takes_integers(solver)
    if integral:
        figures = _integral(lp, solver, tolerance, deadline, threads)
    else:
        figures = _relaxed(lp, solver, tolerance, deadline, threads, presolve, polish)
    figures = {"solver": solver, "sense": "maximize" if lp.maximize else "minimize"} | figures
    figures |= {
        "seconds": perf_counter() - begin,
        "rows": lp.A.shape[0],
        "columns": lp.A.shape[1],
        "nonzeros": lp.A.nnz,
        "integral_columns": int(lp.integral.sum()),
        "relaxed": bool(lp.integral.any()) and not integral,
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


def _relaxed(
    lp: GeneralLP,
    solver: str,
    tolerance: float,
    deadline: float | None,
    threads: int | None,
    presolve: bool,
    polish: bool,
) -> dict[str, Any]:
    """Figures of the LP without its integrality."""
    from copter.solvers.general import solve_lp

    answer = solve_lp(
        lp,
        solver=solver,
        tolerance=tolerance,
        deadline=deadline,
        threads=threads,
        presolve=presolve,
        polish=polish,
    )
    proof, ray = answer.proof, answer.ray
    figures: dict[str, Any] = {
        "status": str(answer.status),
        "reason": answer.reason,
        "finished_by": answer.finished_by,
        "seconds_by_part": dict(answer.seconds),
        "vertex": answer.basis is not None,
        "objective": math.nan if proof is None else lp.own_sense(proof.objective),
        "bound": math.nan if proof is None else lp.own_sense(proof.bound),
        "gap": math.nan if proof is None else proof.gap,
        "primal_residual": math.nan if proof is None else proof.primal,
        "dual_residual": math.nan if proof is None else proof.dual,
        "iterations": answer.iterations,
    }
    return figures if ray is None else figures | {"ray": {"kind": ray.kind, "value": ray.value}}


def _takes_integers(solver: str) -> bool:
    from copter.solvers.features import Feature
    from copter.solvers.registry import make_solver

    return solver != _AUTO and Feature.INTEGRALITY in make_solver(solver).features


def _integral(
    lp: GeneralLP, solver: str, tolerance: float, deadline: float | None, threads: int | None
) -> dict[str, Any]:
    """Figures of branch and bound, and of the relaxation that certifies it."""
    from copter.bench.settings import SolverSettings
    from copter.solvers.general import to_program

    general = to_program(lp)
    branching = SolverSettings(solver, tolerance, deadline, threads, mip_gap=tolerance).make()
    solution = branching.solve(general.program)
    figures: dict[str, Any] = {
        "status": str(solution.status),
        "reason": solution.reason,
        "objective": general.objective(solution),
        "bound": general.bound(solution),
        "gap": solution.gap,
        "primal_residual": solution.primal_residual,
        "dual_residual": solution.dual_residual,
        "iterations": solution.iterations,
        "milp_bound": general.own_sense(solution.details.get("mip_bound", math.nan)),
    }
    ray = solution.ray
    return figures if ray is None else figures | {"ray": {"kind": ray.kind, "value": ray.value}}


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
    if "finished_by" in one:
        parts = ", ".join(f"{part} {seconds(time)}" for part, time in one["seconds_by_part"].items())
        rows.insert(1, ("finished by", f"{one['finished_by']} ({parts})"))
    if "ray" in one:
        rows.append((f"proof that it is {one['ray']['kind']}", f"value {one['ray']['value']:.3g}"))
    table(name, ("figure", "value"), rows, text_columns=2)
