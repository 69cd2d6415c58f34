"""`copter solve`: solves one linear or mixed-integer program from a file."""

from __future__ import annotations

import csv
import math
from dataclasses import replace
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Annotated, Any, TypeAlias

import typer

from copter.cli.console import print_json, save_json, seconds, table
from copter.cli.options import Deadline, JsonFlag, Threads, Tolerance, existing_file, solver_option
from copter.errors import InputError, UnsupportedError

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from copter.solvers.general import GeneralLP

    _Vector: TypeAlias = NDArray[np.float64] | None

EXAMPLES = """\b
Examples:
  copter solve afiro.mps
  copter solve afiro.mps --solver copter --no-presolve --json
  copter solve knapsack.mps.gz --solution knapsack.csv
  copter solve knapsack.mps.gz --relax
"""

_EXIT_CODES = {"optimal": 0, "infeasible": 3, "unbounded": 4}
_FOUND, _NOTHING = 5, 6
"""Exit codes of answers without a proof: with a solution, and without one."""
_AUTO = "auto"
_ENDINGS = (".csv", ".json")
_IN_SOLUTION = ("status", "reason", "sense", "objective", "bound", "gap", "gap_denominator", "gap_is")
"""Figures in the file --solution."""
_NO_GAP = 1e-6
"""Absolute difference of objective and bound at which branch and bound stops, HiGHS' ``mip_abs_gap``."""


def _solution_path(path: Path | None) -> Path | None:
    if path is not None and path.suffix.lower() not in _ENDINGS:
        raise typer.BadParameter(f"{path} must end in .csv or .json")
    if path is not None and not path.parent.is_dir():
        raise typer.BadParameter(f"{path}: the folder {path.parent} does not exist")
    return path


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
    relax: Annotated[
        bool, typer.Option("--relax", help="Solve the LP relaxation, without integrality.")
    ] = False,
    strict: Annotated[
        bool, typer.Option(help="Reject a file that other readers accept but interpret differently.")
    ] = True,
    solution: Annotated[
        Path | None,
        typer.Option(
            callback=_solution_path,
            help="Write the values of columns and rows, by name, to this .csv or .json file.",
        ),
    ] = None,
    presolve: Annotated[bool, typer.Option(help="Presolve by HiGHS first.")] = True,
    polish: Annotated[
        bool, typer.Option("--polish", help="Move the solution of the LP to a vertex, by HiGHS' simplex.")
    ] = False,
    as_json: JsonFlag = False,
) -> None:
    """Solve a linear or mixed-integer program from an MPS or LP file.

    For a linear program, the default solver auto runs copter's first-order method for a limited time, and
    then HiGHS from the result. Any other solver runs alone. A program with integral columns is solved by
    branch and bound, to a relative gap of the tolerance; with --relax, integrality is ignored. Objective and
    bound are in the sense of the file: for a maximisation, the bound is an upper bound. The gap is their
    difference, divided by the number that is printed next to it.

    \b
    Exit codes:
      0  optimal, within the tolerance
      3  infeasible
      4  unbounded
      5  a solution without a proof of optimality: a limit was reached, or the gap exceeds the tolerance
      6  neither a solution nor a proof
      1  the file cannot be read, or a solver failed
      2  a wrong argument

    \f

    Parameters
    ----------
    deadline : float, optional
        Seconds.

    Raises
    ------
    typer.Exit
        The exit code is not 0.
    UnsupportedError
        The file has integral columns, and the solver does not support integrality.
    """  # noqa: D301
    from copter.models.files import read_mps

    try:
        lp = read_mps(path, strict=strict)
    except InputError as error:  # the message names the Python argument
        why = error.why.replace("with strict=False", "with --no-strict")
        raise InputError(error.path, error.where, why) from None
    begin = perf_counter()
    if relax or not lp.integral.any():
        found = _relaxed(lp, solver, tolerance, deadline, threads, presolve, polish)
    elif solver == _AUTO:
        found = _branched(lp, tolerance, deadline, threads, presolve)
    else:
        found = _integral(lp, solver, tolerance, deadline, threads)
    figures, x, y = _of_all(lp, solver, perf_counter() - begin, *found)
    figures["relaxed"] = relax and bool(lp.integral.any())
    if solution is not None:
        _write_solution(solution, lp, figures, x, y)
    if as_json:
        print_json(figures)
    else:
        _print(path.name, figures)
    code = _EXIT_CODES.get(str(figures["status"]), _NOTHING if x is None else _FOUND)
    if code:
        raise typer.Exit(code)


def _of_all(
    lp: GeneralLP, solver: str, seconds: float, figures: dict[str, Any], x: _Vector, y: _Vector
) -> tuple[dict[str, Any], _Vector, _Vector]:
    """Return an answer with the figures of all answers; without point and gap if there is no optimum."""
    figures = {"solver": solver, "sense": "maximize" if lp.maximize else "minimize"} | figures
    figures |= {
        "seconds": seconds,
        "rows": lp.A.shape[0],
        "columns": lp.A.shape[1],
        "nonzeros": lp.A.nnz,
        "integral_columns": int(lp.integral.sum()),
    }
    if figures["status"] in ("infeasible", "unbounded"):
        return figures | dict.fromkeys(("objective", "bound", "gap", "gap_denominator"), math.nan), None, None
    return figures, x, y


def _relaxed(
    lp: GeneralLP,
    solver: str,
    tolerance: float,
    deadline: float | None,
    threads: int | None,
    presolve: bool,
    polish: bool,
) -> tuple[dict[str, Any], _Vector, _Vector]:
    """Solve the LP relaxation; return its figures, its point and its prices."""
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
    objective, bound, gap = (math.nan,) * 3 if proof is None else (proof.objective, proof.bound, proof.gap)
    figures: dict[str, Any] = {
        "status": str(answer.status),
        "reason": answer.reason,
        "finished_by": answer.finished_by,
        "seconds_by_part": dict(answer.seconds),
        "vertex": answer.basis is not None,
        "objective": lp.own_sense(objective),
        "bound": lp.own_sense(bound),
        "gap": gap,
        "gap_denominator": getattr(
            proof, "gap_denominator", abs(objective - bound) / gap if gap > 0 else math.nan
        ),
        "gap_is": "certified by prices",
        "primal_residual": math.nan if proof is None else proof.primal,
        "dual_residual": math.nan if proof is None else proof.dual,
        "iterations": answer.iterations,
    }
    if ray is not None:
        figures["ray"] = {"kind": ray.kind, "value": ray.value}
    return figures, answer.x, answer.y


def _branched(
    lp: GeneralLP, tolerance: float, deadline: float | None, threads: int | None, presolve: bool
) -> tuple[dict[str, Any], _Vector, _Vector]:
    """Solve by branch and bound, as ``copter.milp`` does; return the figures and the point."""
    from copter.solvers.general.integer import branch_and_bound

    given = {"mip_rel_gap": tolerance, "time_limit": deadline, "threads": threads}
    settings = {name: value for name, value in given.items() if value is not None}
    if not presolve:
        settings["presolve"] = False
    answer = branch_and_bound(replace(lp, offset=0.0), settings)
    objective = math.nan if answer.objective is None else answer.objective
    bound = math.nan if answer.bound is None else answer.bound
    figures = {
        "status": str(answer.status),
        "reason": answer.reason,
        "iterations": 0 if answer.nodes is None else answer.nodes,
    }
    own = lp.own_sense(objective + lp.offset), lp.own_sense(bound + lp.offset)
    return _with_gap(figures, *own, tolerance), answer.x, None


def _integral(
    lp: GeneralLP, solver: str, tolerance: float, deadline: float | None, threads: int | None
) -> tuple[dict[str, Any], _Vector, _Vector]:
    """Solve by a solver that supports integral columns; return the figures and the point."""
    from copter.bench.settings import SolverSettings
    from copter.models.model import Model
    from copter.solvers.features import Feature

    branching = SolverSettings(solver, tolerance, deadline, threads, mip_gap=tolerance).make()
    if Feature.INTEGRALITY not in branching.features:
        why = f"{int(lp.integral.sum())} columns are integral, which {solver} does not support"
        raise UnsupportedError(f"{why}: add --relax, or remove --solver {solver}")
    model = Model(lp, share=None)
    answer = branching.solve(model.program)
    found, proof = model.solution(answer), answer.integer
    bound = found.bound if proof is None else model.objective(proof.bound)
    figures: dict[str, Any] = {
        "status": str(answer.status),
        "reason": answer.reason,
        "primal_residual": answer.primal_residual,
        "relaxation_bound": found.bound,
        "iterations": answer.iterations,
    }
    if answer.ray is not None:
        figures["ray"] = {"kind": answer.ray.kind, "value": answer.ray.value}
    return _with_gap(figures, found.objective, bound, tolerance), found.x if answer.found else None, None


def _with_gap(figures: dict[str, Any], objective: float, bound: float, tolerance: float) -> dict[str, Any]:
    """Return the figures with the gap of branch and bound; not optimal if it exceeds the tolerance."""
    apart, size = abs(objective - bound), max(abs(objective), abs(bound))
    gap = 0.0 if apart == 0 else apart / size
    if figures["status"] == "optimal" and not (gap <= tolerance or apart <= _NO_GAP):
        figures["status"] = "unproved"
        figures["reason"] += f", but objective and bound differ by {apart:.3g}"
    return figures | {
        "objective": objective,
        "bound": bound,
        "gap": gap,
        "gap_denominator": size,
        "gap_is": "proved by branch and bound",
    }


def _print(name: str, one: dict[str, Any]) -> None:
    bound = "upper bound" if one["sense"] == "maximize" else "lower bound"
    rows = [
        ("status", f"{one['status']}: {one['reason']}"),
        ("objective", f"{one['objective']:.10g}"),
        (f"{bound}, {one['gap_is']}", f"{one['bound']:.10g}"),
        ("gap, relative to", f"{one['gap']:.1e}, {one['gap_denominator']:.6g}"),
        *(
            (name.replace("_", " "), f"{one[name]:.10g}")
            for name in ("relaxation_bound", "primal_residual", "dual_residual")
            if name in one
        ),
        ("iterations" if "dual_residual" in one else "nodes", str(one["iterations"])),
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


def _write_solution(
    path: Path,
    lp: GeneralLP,
    figures: dict[str, Any],
    x: NDArray[np.float64] | None,
    y: NDArray[np.float64] | None,
) -> None:
    """Write columns and rows by name to a ``.csv`` file, or with the figures to a ``.json`` file."""
    m, n = lp.A.shape
    columns: list[tuple[str, float]] = []
    rows: list[tuple[str, float, float | None]] = []
    if x is not None:
        names = lp.column_names or tuple(f"x{j}" for j in range(n))
        columns = list(zip(names, x.tolist(), strict=True))
        prices = [None] * m if y is None else y.tolist()
        names = lp.row_names or tuple(f"r{i}" for i in range(m))
        rows = list(zip(names, (lp.A @ x).tolist(), prices, strict=True))
    if path.suffix.lower() == ".json":
        document = {name: figures[name] for name in _IN_SOLUTION}
        document["columns"] = [{"name": name, "value": value} for name, value in columns]
        document["rows"] = [{"name": name, "activity": at, "price": price} for name, at, price in rows]
        save_json(document, path)
        return
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(("kind", "name", "value", "price"))
        writer.writerows(("column", name, value, "") for name, value in columns)
        writer.writerows(("row", name, at, "" if price is None else price) for name, at, price in rows)
