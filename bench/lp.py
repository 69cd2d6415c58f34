"""A folder of linear programs, solved by the default combination, by copter's solver alone, and by HiGHS.

HiGHS runs with its defaults, as in scipy, and with twelve times the limit; its results are the reference.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from io import BytesIO
from pathlib import Path
from pickle import Unpickler, UnpicklingError
from time import perf_counter
from typing import Any
from zipfile import BadZipFile, ZipFile

import numpy as np
from numpy.typing import NDArray

from copter.errors import CopterError
from copter.models.general_lp import checked
from copter.models.highs import load, run, status_of
from copter.solution import Status
from copter.solvers.general import Answer, GeneralLP, read_mps, solve_lp

_ENDINGS = (".mps", ".lp", ".mps.gz", ".lp.gz", ".npz")
_WAYS: dict[str, dict[str, Any]] = {
    "default": {},
    "copter": {"solver": "copter"},
    "copter without presolve": {"solver": "copter", "presolve": False},
}
"""Arguments of :func:`copter.solvers.general.solve_lp` by the name of the variant."""
_TRUTH_LIMITS = 12
_AGREES = 1e-6
"""Largest relative difference of objectives that agree; small objectives count as 1."""


def files_in(folder: Path) -> list[Path]:
    """Return the files of linear programs in a folder and below, sorted by name."""
    return sorted(path for path in folder.rglob("*") if path.name.endswith(_ENDINGS))


def read_lp(path: Path) -> GeneralLP:
    """Return the LP of an MPS or LP file, or of scipy's arrays (npz); raise CopterError if there is none."""
    return _read_arrays(path) if path.suffix == ".npz" else read_mps(path)


def _read_arrays(path: Path) -> GeneralLP:
    from scipy.sparse import csc_array, csr_array, vstack

    names = ("c", "A_ub", "b_ub", "A_eq", "b_eq", "bounds")
    try:
        with np.load(path) as stored, ZipFile(path) as content:
            missing = [name for name in names if name not in stored]
            if missing:
                raise CopterError(f"{path}: must contain {', '.join(missing)}")
            c, A_ub, b_ub, A_eq, b_eq = (stored[name] for name in names[:-1])
            bounds = _with_none(content.read("bounds.npy"))
    except (OSError, ValueError, UnpicklingError, BadZipFile) as error:
        raise CopterError(f"{path}: must be an npz file with linprog's arrays: {error}") from None
    n = c.size
    pairs = bounds.reshape(-1, 2) if bounds.size else np.array([[0, None]], object)
    none = np.array([[value is None for value in pair] for pair in pairs])
    box = np.where(none, [-np.inf, np.inf], np.where(none, 0.0, pairs).astype(np.float64))
    lower, upper = np.broadcast_to(box, (n, 2)).T
    b_ub, b_eq = b_ub.ravel().astype(np.float64), b_eq.ravel().astype(np.float64)
    return GeneralLP(
        c.astype(np.float64),
        csc_array(vstack([csr_array(A.reshape(-1, n)) for A in (A_ub, A_eq)])),
        np.concatenate((np.full(b_ub.size, -np.inf), b_eq)),
        np.concatenate((b_ub, b_eq)),
        lower.copy(),
        upper.copy(),
        0.0,
        np.zeros(n, np.bool_),
    )


def _with_none(content: bytes) -> NDArray[Any]:
    """Read an array from an npy file; it may contain None, which numpy pickles, but no other objects."""
    file = BytesIO(content)
    version = np.lib.format.read_magic(file)
    header = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
    shape, _, kind = header(file)
    if kind.hasobject:
        return np.array(_Numbers(file).load(), object).reshape(shape)
    return np.asarray(np.lib.format.read_array(BytesIO(content)))


class _Numbers(Unpickler):
    """Unpickler for arrays of None and numbers; it calls no other function that a file names."""

    def find_class(self, module: str, name: str) -> Any:
        """Return one of the few functions that make an array; raise UnpicklingError for any other."""
        plain = module.replace("numpy.core.", "numpy._core.")
        if (plain, name) not in _MAKERS:
            raise UnpicklingError(f"{module}.{name}: must be a number or None")
        return super().find_class(plain, name)


_MAKERS = {
    ("numpy._core.multiarray", "_reconstruct"),
    ("numpy._core.multiarray", "scalar"),
    ("numpy", "ndarray"),
    ("numpy", "dtype"),
}


def measure(
    paths: Iterable[Path], limit: float, report: Callable[[str], None], ways: Iterable[str] = tuple(_WAYS)
) -> list[dict[str, Any]]:
    """Return a record for each file with an LP: the reference, and status, objective and time by variant.

    `limit`: seconds of a variant for a program. `report`: called with the name of each program, and with a
    message for each file without one. `ways`: keys of :data:`_WAYS`.
    """
    ways, records = list(ways), []
    for way in ways:  # loads compiled code before the measurements
        solve_lp(_small(), **_WAYS[way])
    for path in paths:
        try:
            lp = checked(read_lp(path))
        except CopterError as error:
            report(str(error))
            continue
        report(path.stem)
        truth = _truth(lp, limit * _TRUTH_LIMITS)
        record: dict[str, Any] = {"name": path.stem, "rows": lp.A.shape[0], "columns": lp.A.shape[1]}
        record["nonzeros"], record["highs"] = lp.A.nnz, truth
        for way in ways:
            record[way] = _one(lp, way, limit, truth)
        records.append(record)
    return records


def _small() -> GeneralLP:
    from scipy.sparse import csc_array

    one = np.ones(2)
    A = csc_array([[1.0, 2.0], [3.0, 1.0]])
    return GeneralLP(-one, A, -np.inf * one, 4 * one, 0 * one, np.inf * one, 0.0, np.zeros(2, np.bool_))


def _truth(lp: GeneralLP, limit: float) -> dict[str, Any]:
    highs = load(lp, None, time_limit=limit)
    seconds = run(highs)
    status = status_of(highs)[0]
    objective = highs.getInfo().objective_function_value if status is Status.OPTIMAL else np.nan
    return {"status": str(status), "objective": objective, "seconds": seconds}


def timed(lp: GeneralLP, way: str, **settings: Any) -> tuple[Answer, float]:
    """Solve a linear program by one of the variants; return the answer and its seconds."""
    begin = perf_counter()
    answer = solve_lp(lp, **_WAYS[way], **settings)
    return answer, perf_counter() - begin


def _one(lp: GeneralLP, way: str, limit: float, truth: dict[str, Any]) -> dict[str, Any]:
    """Return status, objective, time and correctness; "wrong" only if the solver claims a result."""
    answer, seconds = timed(lp, way, deadline=limit)
    objective = answer.proof.objective if answer.status is Status.OPTIMAL and answer.proof else np.nan
    claimed = answer.status in (Status.OPTIMAL, Status.INFEASIBLE, Status.UNBOUNDED)
    right = str(answer.status) == truth["status"]
    if right and answer.status is Status.OPTIMAL:
        size = max(1.0, abs(truth["objective"]))
        right = abs(objective - truth["objective"]) <= _AGREES * size
    known = truth["status"] not in (Status.DEADLINE, Status.UNPROVED, Status.NUMERICAL_ERROR)
    return {
        "status": str(answer.status),
        "objective": objective,
        "seconds": seconds,
        "finished_by": answer.finished_by,
        "worst": answer.proof.worst if answer.proof else np.nan,
        "right": right,
        "wrong": claimed and known and not right,
    }


def summary(records: list[dict[str, Any]]) -> dict[str, dict[str, int]]:
    """Return the numbers of correct results: ``{variant: {"optimal": 3, "of_optimal": 4}}``."""
    found: dict[str, dict[str, int]] = {}
    for way in (way for way in _WAYS if records and way in records[0]):
        found[way] = {"wrong": sum(record[way]["wrong"] for record in records)}
        for status in ("optimal", "infeasible", "unbounded"):
            those = [record for record in records if record["highs"]["status"] == status]
            found[way] |= {
                status: sum(record[way]["right"] for record in those),
                f"of_{status}": len(those),
            }
    return found


def markdown(records: list[dict[str, Any]]) -> str:
    """Return a Markdown table with one row for each record."""
    ways = [way for way in _WAYS if records and way in records[0]]
    lines = [
        f"| LP | rows | columns | HiGHS | {' | '.join(ways)} |",
        f"|---|---:|---:|---|{'---|' * len(ways)}",
    ]
    for record in records:
        truth = record["highs"]
        cells = [f"{truth['status']}, {truth['seconds']:.2f} s"]
        for way in ways:
            one = record[way]
            mark = "" if one["right"] else f"{one['status'].replace('_', ' ')}, "
            cells.append(f"{mark}{one['seconds']:.2f} s")
        name, rows, columns = record["name"], record["rows"], record["columns"]
        lines.append(f"| {name} | {rows:,} | {columns:,} | {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"
