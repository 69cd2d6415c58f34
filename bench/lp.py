"""A folder of linear programs, solved by the default combination, by copter's solver alone, and by HiGHS.

HiGHS runs with its defaults, as in scipy, and with twelve times the limit; its results are the reference.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from io import BytesIO
from pathlib import Path
from pickle import Unpickler, UnpicklingError
from time import perf_counter
from typing import Any
from zipfile import BadZipFile, ZipFile

import numpy as np
from numpy.typing import NDArray

from copter.errors import CopterError
from copter.models.files import read_model
from copter.models.general_lp import GeneralLP, checked
from copter.models.highs import load, run, status_of
from copter.solvers.general.model import Model, ModelSolution
from copter.status import Status

_ENDINGS = (".mps", ".lp", ".mps.gz", ".lp.gz", ".npz")
_TRUTH_LIMITS = 12
_AGREES = 1e-6
"""Largest relative difference of objectives that agree; small objectives count as 1."""


def files_in(folder: Path) -> list[Path]:
    """Return the files of linear programs in a folder and below, sorted by name."""
    return sorted(path for path in folder.rglob("*") if path.name.endswith(_ENDINGS))


def read_lp(path: Path) -> GeneralLP:
    """Return the LP of an MPS or LP file, or of scipy's arrays (npz); raise CopterError if there is none."""
    return _read_arrays(path) if path.suffix == ".npz" else read_model(path)


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


def measure(paths: Iterable[Path], limit: float, report: Callable[[str], None]) -> list[dict[str, Any]]:
    """Return a record for each file with an LP: status, objective and time of HiGHS and of copter.

    `limit`: seconds of copter for a program. `report`: called with the name of each program, and with a
    message for each file without one.
    """
    records = []
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
        record["copter"] = _one(lp, limit, truth)
        records.append(record)
    return records


def _truth(lp: GeneralLP, limit: float) -> dict[str, Any]:
    highs = load(lp, None, time_limit=limit)
    seconds = run(highs)
    status = status_of(highs)[0]
    objective = highs.getInfo().objective_function_value if status is Status.OPTIMAL else np.nan
    return {"status": str(status), "objective": objective, "seconds": seconds}


def timed(lp: GeneralLP, **settings: Any) -> tuple[ModelSolution, float]:
    """Solve a linear program cold; return the solution and its seconds."""
    begin = perf_counter()
    found = Model(lp).solve(**settings)
    return found, perf_counter() - begin


def _one(lp: GeneralLP, limit: float, truth: dict[str, Any]) -> dict[str, Any]:
    """Return status, objective, time and correctness; "wrong" only if copter claims a result."""
    answer, seconds = timed(replace(lp, integral=np.zeros(lp.c.size, np.bool_)), time_limit=limit)
    proof = answer.certificate
    objective = proof.objective if answer.status is Status.OPTIMAL and proof else np.nan
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
        "certified": answer.certified,
        "worst": proof.worst() if proof else np.nan,
        "right": right,
        "wrong": claimed and known and not right,
    }


def summary(records: list[dict[str, Any]]) -> dict[str, int]:
    """Return copter's numbers of wrong and of correct results: ``{"optimal": 3, "of_optimal": 4}``."""
    found = {"wrong": sum(record["copter"]["wrong"] for record in records)}
    for status in ("optimal", "infeasible", "unbounded"):
        those = [record for record in records if record["highs"]["status"] == status]
        found |= {status: sum(each["copter"]["right"] for each in those), f"of_{status}": len(those)}
    return found


def markdown(records: list[dict[str, Any]]) -> str:
    """Return a Markdown table with one row for each record."""
    lines = ["| LP | rows | columns | HiGHS | copter | certified |", "|---|---:|---:|---|---|---|"]
    for record in records:
        truth, one = record["highs"], record["copter"]
        mark = "" if one["right"] else f"{one['status'].replace('_', ' ')}, "
        cells = [record["name"], f"{record['rows']:,}", f"{record['columns']:,}"]
        cells += [f"{truth['status']}, {truth['seconds']:.3f} s", f"{mark}{one['seconds']:.3f} s"]
        lines.append(f"| {' | '.join(cells)} | {'yes' if one['certified'] else 'no'} |")
    return "\n".join(lines) + "\n"
