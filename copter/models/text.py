"""Lines of a model file, errors and warnings about them, and the linear program that they describe."""

from __future__ import annotations

import gzip
import math
import re
import warnings
import zlib
from pathlib import Path

import numpy as np

from copter.arrays import INFINITE, as_bounds
from copter.errors import FileError, InputError
from copter.models.linear_program import LinearProgram

_NUMBER = re.compile(r"[+-]?(?:\d+\.?\d*|\.\d+)(?:[eEdD][+-]?\d+)?", re.ASCII)
_INFINITE = re.compile(r"[+-]?inf(?:inity)?", re.IGNORECASE)
_ODD = re.compile(r"[\x00-\x08\x0b\x0e-\x19\x1b-\x1f\x85\xa0]")
"""Characters that are rejected; some are blanks for Python, but part of a name for other readers."""
_NAN = re.compile(r"[+-]?nan(?:\(\w*\))?", re.IGNORECASE)


class Source:
    """Lines of a file, plain or gzipped; messages count the first line as line 1.

    If `strict`, doubtful content is an error instead of a warning. Raise FileError if the file is missing, or
    cannot be read or unpacked.
    """

    def __init__(self, path: Path, strict: bool) -> None:
        self.path, self.strict = path, strict
        if not path.is_file():
            raise FileError(path, "no such file")
        try:
            content = path.read_bytes()
            if path.suffix.lower() == ".gz":
                content = gzip.decompress(content)
        except (OSError, EOFError, zlib.error) as error:
            raise FileError(path, f"cannot be read or unpacked: {error}") from None
        try:
            text = content.decode("utf-8-sig")
        except UnicodeDecodeError:
            text = content.decode("latin-1")
        self.lines = text.replace("\r\n", "\n").replace("\r", "\n").removesuffix("\n").split("\n")
        for number, line in enumerate(self.lines, 1):
            if not line.isprintable() and (odd := _ODD.search(line)):
                raise self.error(number, f"the character {odd[0]!r} is not allowed in a model file")

    def error(self, line: int, why: str, section: str = "") -> InputError:
        """Return an error that names a line and a section; the caller raises it."""
        return InputError(self.path, f"line {line}" + (f", {section}" if section else ""), why)

    def doubt(self, line: int, why: str, otherwise: str, section: str = "") -> None:
        """Raise InputError if the reader is strict, else warn.

        The warning states how the line is read: `otherwise`, for example "it is left out".
        """
        if self.strict:
            raise self.error(line, f"{why} (with strict=False {otherwise})", section)
        warnings.warn(f"{self.error(line, why, section)}: {otherwise}", UserWarning, stacklevel=2)

    def number(self, line: int, text: str, section: str = "", *, finite: bool = False) -> float:
        """Return the number of a text; raise InputError if the text is not a number or NaN.

        Unless `finite` is given, the number is a bound: absolute values of at least 1e20 become infinite.
        With `finite`, the number is not a bound: it is not changed, and infinity is an error.
        """
        if _NUMBER.fullmatch(text):
            value = float(text.replace("d", "e").replace("D", "e"))
        elif _INFINITE.fullmatch(text):
            value = float(text)
        elif _NAN.fullmatch(text):
            raise self.error(line, "NaN is not allowed in a linear program", section)
        else:
            raise self.error(line, f"{text!r} is not a number", section)
        if finite and math.isinf(value):
            raise self.error(line, f"{text!r} is not finite", section)
        return value if finite or abs(value) < INFINITE else math.copysign(math.inf, value)


def is_number(text: str) -> bool:
    """Return whether a text is a number in the syntax of model files, including NaN."""
    return any(kind.fullmatch(text) for kind in (_NUMBER, _INFINITE, _NAN))


def linear_program(
    costs: list[float],
    constant: float,
    entries: list[tuple[int, int, float]],
    sides: list[tuple[float, float]],
    boxes: list[tuple[float, float]],
    integral: list[bool],
    names: tuple[tuple[str, ...], tuple[str, ...]],
    *,
    maximize: bool,
) -> LinearProgram:
    """Return the linear program of a file.

    `entries` has (row, column, value) without duplicates. `sides` and `boxes` have the lower and the upper
    bound of each row and column. `names` has the names of the columns and of the rows. The entries of a
    column stay in their order.
    """
    from scipy.sparse import csc_array

    sign = -1.0 if maximize else 1.0
    table = np.array([each for each in entries if each[2]], np.float64).reshape(-1, 3)
    row, column = table[:, :2].astype(np.int32).T
    order = np.argsort(column, kind="stable")
    indptr = np.append(0, np.bincount(column, minlength=len(boxes)).cumsum()).astype(np.int32)
    bounds = (as_bounds(np.array(each, np.float64).reshape(-1, 2)) for each in (sides, boxes))
    (row_lower, row_upper), (lower, upper) = (each.T.copy() for each in bounds)
    return LinearProgram(
        sign * np.array(costs),
        csc_array((table[order, 2], row[order], indptr), shape=(len(sides), len(boxes))),
        row_lower,
        row_upper,
        lower,
        upper,
        sign * constant,
        np.array(integral, np.bool_),
        maximize,
        *names,
    )
