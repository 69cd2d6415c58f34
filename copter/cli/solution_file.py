"""The file that `copter solve --solution` writes: columns and rows by name."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import TYPE_CHECKING, Any

from copter.cli.console import save_json

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from copter.models.general_lp import GeneralLP

_FIGURES = ("status", "reason", "sense", "objective", "bound", "gap", "size", "gap_is")


def write_solution(
    path: Path,
    lp: GeneralLP,
    figures: dict[str, Any],
    x: NDArray[np.float64] | None,
    y: NDArray[np.float64] | None,
) -> None:
    """Write the values of the columns, and activity and price of the rows.

    Parameters
    ----------
    path : Path
        Ends in ``.csv`` (a line each: kind, name, value, price) or ``.json`` (with the figures).
    x : (n,) ndarray, optional
        None if no point is known: then there are only the figures, or the head of the table.
    y : (m,) ndarray, optional
        Prices: positive where the upper bound of a row is paid for.  An integral program has none.
    """
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
        document = {name: figures[name] for name in _FIGURES}
        document["columns"] = [{"name": name, "value": value} for name, value in columns]
        document["rows"] = [{"name": name, "activity": at, "price": price} for name, at, price in rows]
        save_json(document, path)
        return
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(("kind", "name", "value", "price"))
        writer.writerows(("column", name, value, "") for name, value in columns)
        writer.writerows(("row", name, at, "" if price is None else price) for name, at, price in rows)
