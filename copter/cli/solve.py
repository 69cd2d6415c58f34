"""`copter solve`, which solves a linear or mixed-integer program from a file, and `copter solvers`."""

from __future__ import annotations

import csv
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from copter.cli.console import publish, save_json, seconds, table
from copter.cli.options import Json, Threads, TimeLimit, Tolerance, existing_file, solver_option
from copter.errors import InputError, UnsupportedError
from copter.solvers.registry import SOLVERS

if TYPE_CHECKING:
    from copter.solvers.general.model import Model, ModelSolution

EXAMPLES = """\b
Examples:
  copter solve afiro.mps
  copter solve afiro.mps --solver highs-ipm --json
  copter solve knapsack.mps.gz --solution knapsack.csv
  copter solve knapsack.mps.gz --relax
"""

_EXIT_CODES = {"optimal": 0, "infeasible": 3, "unbounded": 4}
_FOUND, _NOTHING = 5, 6
"""Exit codes of answers without a proof: with a solution, and without a solution."""
_OWN = "copter"
_ENDINGS = (".csv", ".json")
_IN_SOLUTION = ("status", "reason", "sense", "objective", "bound", "gap", "certified")
"""Figures that the file of --solution contains."""


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
    solver: Annotated[str, solver_option()] = _OWN,
    tolerance: Tolerance = 1e-6,
    time_limit: TimeLimit = None,
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
    json_path: Json = None,
) -> None:
    """Solve a linear or mixed-integer program from an MPS or LP file.

    The answer is checked against the numbers of the file. A program with integral columns is solved by
    branch and bound, to a relative gap of the tolerance; with --relax, integrality is ignored. Objective and
    bound are in the sense of the file, so that a maximisation has an upper bound. "certified" states whether
    the bound, or the proof that there is no optimum, holds in exact arithmetic.

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
    time_limit : float, optional
        Largest number of seconds.

    Raises
    ------
    typer.Exit
        If the exit code is not 0.
    UnsupportedError
        If the file has integral columns, and the solver does not support integrality.
    """  # noqa: D301
    import numpy as np

    from copter.models.files import read_model
    from copter.solvers.general.model import Model

    try:
        lp = read_model(path, strict=strict)
    except InputError as error:  # the message names the Python argument
        why = error.why.replace("with strict=False", "with --no-strict")
        raise InputError(error.path, error.where, why) from None
    relaxed = relax and bool(lp.integral.any() or lp.semi is not None)
    if relaxed:
        lp = replace(lp, integral=np.zeros(lp.c.size, np.bool_), semi=None)
    model = Model(lp, threads=threads)
    found = _solved(model, solver, tolerance, time_limit, threads)
    figures = _figures(model, found, solver) | {"relaxed": relaxed}
    if solution is not None:
        _write_solution(solution, model, found, figures)
    publish(figures, json_path, lambda: _print(path.name, figures))
    code = _EXIT_CODES.get(str(found.status), _FOUND if found.found else _NOTHING)
    if code:
        raise typer.Exit(code)


def _solved(
    model: Model, solver: str, tolerance: float, time_limit: float | None, threads: int | None
) -> ModelSolution:
    """Return the model's solution, by copter's own choice of method or by another solver."""
    if solver == _OWN:
        return model.solve(tolerance=tolerance, time_limit=time_limit)
    from copter.bench.settings import SolverSettings
    from copter.solvers.features import Feature

    made = SolverSettings(solver, tolerance, time_limit, threads, mip_gap=tolerance).make()
    whole = int(model.lp.integral.sum())
    if whole and Feature.INTEGRALITY not in made.features:
        why = f"{whole} columns are integral, which {solver} does not support"
        raise UnsupportedError(f"{why}: add --relax, or remove --solver {solver}")
    found: ModelSolution = made.solve(model)  # type: ignore[assignment, arg-type]
    return found


def _figures(model: Model, found: ModelSolution, solver: str) -> dict[str, Any]:
    lp = model.lp
    figures = {
        "solver": solver,
        "sense": "maximize" if lp.maximize else "minimize",
        "status": str(found.status),
        "reason": found.reason,
        "engine": found.details["engine"],
        "objective": found.objective,
        "bound": found.bound,
        "gap": found.gap,
        "certified": found.certified,
        "primal_residual": found.primal_residual,
        "dual_residual": found.dual_residual,
        "iterations": found.iterations,
        "seconds": found.seconds,
        "rows": lp.A.shape[0],
        "columns": lp.A.shape[1],
        "nonzeros": lp.A.nnz,
        "integral_columns": int(lp.integral.sum()),
    }
    if found.ray is not None:
        figures["ray"] = {"kind": found.ray.kind, "value": found.ray.value}
    return figures


def _print(name: str, one: dict[str, Any]) -> None:
    bound = "upper bound" if one["sense"] == "maximize" else "lower bound"
    whole = one["integral_columns"]
    rows = [
        ("status", f"{one['status']}: {one['reason']}"),
        ("objective", f"{one['objective']:.10g}"),
        (bound, f"{one['bound']:.10g}"),
        ("gap", f"{one['gap']:.1e}"),
        ("certified", "yes" if one["certified"] else "no"),
        ("primal residual", f"{one['primal_residual']:.1e}"),
        *([] if whole else [("dual residual", f"{one['dual_residual']:.1e}")]),
        ("nodes" if whole else "iterations", str(one["iterations"])),
        ("time", seconds(one["seconds"])),
        ("rows, columns, nonzeros", f"{one['rows']:,}, {one['columns']:,}, {one['nonzeros']:,}"),
        ("integral columns", "relaxed" if one["relaxed"] else f"{whole:,}"),
    ]
    if "ray" in one:
        rows.append((f"proof that it is {one['ray']['kind']}", f"value {one['ray']['value']:.3g}"))
    table(name, ("figure", "value"), rows, text_columns=2)


def _write_solution(path: Path, model: Model, found: ModelSolution, figures: dict[str, Any]) -> None:
    """Write columns and rows by name to a ``.csv`` file, or to a ``.json`` file together with the figures."""
    lp = model.lp
    m, n = lp.A.shape
    columns: list[tuple[str, float]] = []
    rows: list[tuple[str, float, float | None]] = []
    if found.found:
        names = lp.column_names or tuple(f"x{j}" for j in range(n))
        columns = list(zip(names, found.x.tolist(), strict=True))
        prices = [None] * m if found.certificate is None else found.y.tolist()
        names = lp.row_names or tuple(f"r{i}" for i in range(m))
        rows = list(zip(names, (lp.A @ found.x).tolist(), prices, strict=True))
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


def list_solvers(json_path: Json = None) -> None:
    """List the solvers, with their names for --solver and --solvers."""
    lines = {name: entry.summary for name, entry in SOLVERS.items()}
    rows = list(lines.items())
    publish(lines, json_path, lambda: table("Solvers", ("name", "description"), rows, text_columns=2))
