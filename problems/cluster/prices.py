"""What a GPU-hour costs, by type of GPU and hour: spot markets, regions, hours of cheap power.

A region is a type of GPU like any other (``a100-west``): it has its own nodes and its own price.

A file of prices is CSV with a column for each type, and a row for each hour.  A column ``hour`` says which
hour the first row is of: below 0 it lies before the start, and is known of the past; without one it is 0.
What comes after the last row is the first row again, so that 24 rows are a day that repeats, and 168 a week.

Source: thesis section 6.2 (geographic and temporal variation of prices).
"""

from __future__ import annotations

import csv
import math
from collections.abc import Iterable, Mapping
from pathlib import Path

import numpy as np
from numpy.typing import ArrayLike, NDArray

from copter.errors import InputError
from copter.problems.cluster.results import Segment
from copter.problems.reading import read_csv

HOUR = 3600.0


class Prices:
    """Prices of a GPU-hour.

    Parameters
    ----------
    table : mapping of str to (n,) array_like
        Of each type, price in each hour; not negative.  After the last hour comes the first again.
    first : int
        The first one, in hours since the start; not above 0.

    Raises
    ------
    ValueError
        A price is negative or not finite, or types differ in their hours.
    """

    def __init__(self, table: Mapping[str, ArrayLike], first: int = 0) -> None:
        if first > 0:
            raise ValueError(f"prices: first hour = {first}: must not lie after the start")
        self.first = first
        self.table: dict[str, NDArray[np.float64]] = {
            type: np.array(prices, np.float64) for type, prices in table.items()
        }
        hours = {prices.size for prices in self.table.values()}
        if len(hours) != 1 or 0 in hours:
            raise ValueError(f"prices: each type needs one for every hour, not {sorted(hours)} of them")
        for type, prices in self.table.items():
            if prices.ndim != 1 or not (np.isfinite(prices).all() and (prices >= 0).all()):
                raise ValueError(f"prices of {type}: must be finite and not negative")
        self.hours = hours.pop()

    def of_hours(self, type: str, first: int, count: int) -> NDArray[np.float64]:
        """Prices of a type in some hours.

        Parameters
        ----------
        first : int
            Hours since the start, rounded down.

        Returns
        -------
        (count,) array

        Raises
        ------
        KeyError
            There is no such type.
        """
        return self.table[type][np.arange(first - self.first, first - self.first + count) % self.hours]

    def at(self, type: str, time: float) -> float:
        """Price of a GPU-hour of a type at a time, in seconds."""
        return float(self.of_hours(type, int(time // HOUR), 1)[0])

    def cost(self, type: str, gpus: int, begin: float, end: float) -> float:
        """What some GPUs of a type cost from one time to another, in seconds."""
        first, last = int(begin // HOUR), max(math.ceil(end / HOUR), int(begin // HOUR) + 1)
        edges = np.arange(first, last + 1) * HOUR
        inside = np.diff(np.clip(edges, begin, max(begin, end)))
        return float(gpus * inside @ self.of_hours(type, first, last - first) / HOUR)


def read_prices(path: str | Path) -> Prices:
    """Prices of a file.

    Raises
    ------
    InputError
        The file has no rows, or a price that makes no sense; names the file, the line and the field.
    """
    try:
        with open(path, encoding="utf-8-sig", newline="") as file:
            names = [name.strip() for name in next(csv.reader(file), [])]
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise InputError(path, "file", str(error)) from None
    doubled = [name for name in names if names.count(name) > 1]
    if doubled:
        raise InputError(path, "line 1", f"names {doubled[0]!r} more than once")
    table: dict[str, list[float]] = {name: [] for name in names if name and name != "hour"}
    first: int | None = None
    if not table:
        raise InputError(path, "line 1", "names no GPU type")
    for number, row in enumerate(read_csv(path, tuple(table))):
        hour = row.whole("hour") if "hour" in names else number
        first = hour if first is None else first
        if first > 0 or hour != first + number:
            raise row.error("hour", f"{hour} does not follow: rows are of all hours, from 0 or before")
        for type, prices in table.items():
            prices.append(row.amount(type))
    if first is None:
        raise InputError(path, "file", "has no hour in it")
    return Prices(table, first)


def total_cost(segments: Iterable[Segment], prices: Prices) -> float:
    """What all that was held has cost."""
    return sum(prices.cost(one.type, one.gpus, one.begin, one.end) for one in segments)
