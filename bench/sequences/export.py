"""Writer of families: a folder with the program of round 0, the edits of later rounds, and certified optima.

HiGHS computes the optimum of each round at a tolerance of 1e-9. Its objective and bound are those of the
certificate (:mod:`copter.proof.general_lp`). If this is not tight enough, the export ends with an error.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import replace
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from copter.bench.sequences.family import Family, Optimum
from copter.bench.sequences.program import Bounds, Column, Edits, Row, SequenceProgram
from copter.clock import Clock
from copter.errors import CopterError, SolverError
from copter.models.general_lp import GeneralLP, checked
from copter.models.highs_lp import HighsLP
from copter.models.mps import text_of

FORMAT = 1
"""Version of the format, which docs/reference/lp-sequences.md specifies."""
HEADER, PROGRAM, ROUNDS = "family.json", "round0.mps", "rounds.jsonl"
LARGEST_GAP, LARGEST_VIOLATION = 1e-8, 1e-8
_TOLERANCE = 1e-9
_FREE = 1e30
"""Right-hand side in MPS of a row without sides; it is not of kind N, because readers drop these rows."""


def write_family(
    family: Family, folder: Path, rounds: int, seed: int, follow: Callable[[int], None] | None = None
) -> dict[str, Any]:
    """Write a family to a new folder, and return its header.

    Parameters
    ----------
    family : Family
        Family to write.
    folder : Path
        Folder to create. The header is written last: a folder without a header is incomplete.
    rounds : int
        Number of rounds, at least 1. Round 0 is the program of the MPS file.
    seed : int
        Seed of the family.
    follow : callable, optional
        Function that is called with the number of finished rounds.

    Returns
    -------
    dict
        Content of the header.

    Raises
    ------
    SolverError
        The optimum of a round cannot be certified; the message names the round.
    CopterError
        The family has fewer rounds.
    """
    folder.mkdir(parents=True)
    play = family.make(seed)
    first: dict[str, float] = {}
    counts = Edits().counts()
    sizes = []
    optimum: Optimum | None = None
    with (folder / ROUNDS).open("w", encoding="ascii", newline="\n") as lines:
        for number in range(rounds):
            try:
                program = next(play) if optimum is None else play.send(optimum)
            except StopIteration:
                raise CopterError(f"{family.name}: has {number} rounds, not {rounds}") from None
            if not number:
                _make_expressible(program)
            lp, edits = program.lp(), program.take()
            try:
                optimum = certified_optimum(lp)
            except SolverError as error:
                raise SolverError(f"{family.name}, round {number}: {error}") from None
            sizes.append({"columns": lp.A.shape[1], "rows": lp.A.shape[0], "nonzeros": lp.A.nnz})
            if number:
                lines.write(_line(number, edits, optimum))
                counts = {name: counts[name] + more for name, more in edits.counts().items()}
            else:
                (folder / PROGRAM).write_text(_mps(lp), encoding="ascii", newline="\n")
                first = _figures(optimum)
            if follow is not None:
                follow(number + 1)
    play.close()
    header = {
        "format": FORMAT,
        "name": family.name,
        "description": family.description,
        "kinds": list(family.kinds),
        "source": f"copter {version('copter-opt')}, copter bench export --family {family.name}",
        "licence": "Apache-2.0",
        "seed": seed,
        "sense": "min",
        "rounds": rounds,
        "first": sizes[0],
        "largest": {name: max(size[name] for size in sizes) for name in sizes[0]},
        "edits": counts,
        "optimum": first,
    }
    (folder / HEADER).write_text(json.dumps(header, indent=2) + "\n", encoding="ascii", newline="\n")
    return header


def certified_optimum(lp: GeneralLP) -> Optimum:
    """Return the certified optimum of a program with names.

    Raises
    ------
    SolverError
        HiGHS finds no optimum, or its certificate is not tight enough.
    """
    lp = checked(lp)
    answer = HighsLP(lp).solve(_TOLERANCE, Clock())
    proof = answer.certificate
    if proof is None:
        raise SolverError(f"the optimum cannot be certified: {answer.status}: {answer.reason}")
    violated = _violation(lp, proof.x)
    gap = abs(proof.objective - proof.bound) / max(1.0, abs(proof.objective))
    if gap > LARGEST_GAP or violated > LARGEST_VIOLATION:
        raise SolverError(f"the optimum cannot be certified: gap {gap:.1e}, violation {violated:.1e}")
    values = dict(zip(lp.column_names, proof.x.tolist(), strict=True))
    prices = dict(zip(lp.row_names, proof.y.tolist(), strict=True))
    return Optimum(proof.objective, proof.bound, gap, violated, values, prices)


def _violation(lp: GeneralLP, x: NDArray[np.float64]) -> float:
    """Return the largest violation of a row by a point, relative to the larger of 1 and the violated side."""
    activity = lp.A @ x
    side = np.where(activity > lp.row_upper, lp.row_upper, lp.row_lower)
    over = np.maximum(activity - lp.row_upper, lp.row_lower - activity)
    size = np.maximum(1.0, np.where(np.isfinite(side), abs(side), 0.0))
    return float(np.max(over / size, initial=0.0))


def _make_expressible(program: SequenceProgram) -> None:
    """Move the upper side of a row by rounding errors if MPS expresses the two sides only so."""
    for name, (lower, upper) in list(program.rows.items()):
        if np.isfinite(lower) and np.isfinite(upper) and lower + (upper - lower) != upper:
            program.set_sides(name, lower, lower + (upper - lower))


# ---- texts -----------------------------------------------------------------------------------------------


def _mps(lp: GeneralLP) -> str:
    """Return a program in free MPS format; all of its rows have a kind that readers keep."""
    free = np.isinf(lp.row_lower) & np.isinf(lp.row_upper)
    return text_of(replace(lp, row_upper=np.where(free, _FREE, lp.row_upper)))


def _line(number: int, edits: Edits, optimum: Optimum) -> str:
    """Return the line of a round."""
    content = {
        "round": number,
        "remove_columns": edits.remove_columns,
        "remove_rows": edits.remove_rows,
        "costs": edits.costs,
        "bounds": {name: _finite(bounds) for name, bounds in edits.bounds.items()},
        "sides": {name: _finite(sides) for name, sides in edits.sides.items()},
        "add_rows": {name: _row(row) for name, row in edits.add_rows.items()},
        "add_columns": {name: _column(column) for name, column in edits.add_columns.items()},
        "optimum": _figures(optimum),
    }
    return json.dumps(content, separators=(",", ":"), allow_nan=False) + "\n"


def _row(row: Row) -> Mapping[str, Any]:
    return {"sides": _finite(row.sides), "entries": row.entries}


def _column(column: Column) -> Mapping[str, Any]:
    return {"cost": column.cost, "bounds": _finite(column.bounds), "entries": column.entries}


def _finite(bounds: Bounds) -> list[float | None]:
    """Return two bounds with None for an infinite one."""
    return [bound if np.isfinite(bound) else None for bound in bounds]


def _figures(optimum: Optimum) -> dict[str, float]:
    return {name: getattr(optimum, name) for name in ("objective", "bound", "gap", "violation")}
