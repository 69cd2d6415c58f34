"""Reader of MPS files, fixed and free, and writer of free MPS files.

HiGHS has a reader, too, and the tests compare the results of both. But HiGHS' reader ignores most errors in a
file, reports no line numbers, and drops entries below 1e-9 before they can be scaled.

Constructs on which readers disagree are doubtful: a strict reader raises an error, any other reader warns.
After a warning, the first of two definitions counts, and an entry of an unknown name is left out.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from copter.errors import EditError, InputError
from copter.models.linear_program import LinearProgram
from copter.models.text import Source, is_number, linear_program

_MAXIMIZE, _MINIMIZE = ("MAX", "MAXIMIZE", "MAXIMISE"), ("MIN", "MINIMIZE", "MINIMISE")
_BEYOND = {
    **dict.fromkeys(("QSECTION", "QUADOBJ", "QMATRIX", "QCMATRIX"), "a quadratic objective or row"),
    **dict.fromkeys(("SOS", "SOS1", "SOS2", "SETS"), "special ordered sets"),
    "CSECTION": "cones",
    "INDICATORS": "indicator rows",
    "GENCONS": "general constraints",
    "PWLOBJ": "a piecewise linear objective",
}
"""Sections of models that are not linear programs."""
_BOUNDS: dict[str, tuple[float | None, float | None]] = {
    "FR": (-math.inf, math.inf),
    "MI": (-math.inf, None),
    "PL": (None, math.inf),
    "BV": (0.0, 1.0),
}
"""Bounds (lower, upper) that kinds without a number set; None for a bound that is not set."""
_VALUED = {"LO": "l", "LI": "l", "UP": "u", "UI": "u", "FX": "lu"}
"""Bounds that a kind with a number sets: lower (l), upper (u) or both (lu)."""
_INTEGRAL = ("BV", "LI", "UI")
_FIXED = ((1, 3), (4, 12), (14, 22), (24, 36), (39, 47), (49, 61))
"""Positions of the fields in the fixed format, the only format in which names may have spaces."""
_NUMBERS = (_FIXED[3], _FIXED[5])


def read(source: Source) -> LinearProgram:
    """Return the linear program in the lines of an MPS file; raise InputError with line and section."""
    return _Reader(source, _by_place if _has_spaced_names(source) else str.split).read()


def _has_spaced_names(source: Source) -> bool:
    """Return whether all lines keep the positions of the fixed format and a name has a space in it."""
    spaced, section = False, ""
    starts, ends = [start for start, _ in _FIXED], [0, *(end for _, end in _FIXED)]
    for line in source.lines:
        if not line.strip() or line[0] == "*":
            continue
        if line[0] != " ":
            section = line.split()[0].upper()
            if section == "ENDATA":
                break
            continue
        between = "".join(line[end:start] for end, start in zip(ends, starts, strict=False))
        if "\t" in line or between.strip() or line[61:].strip():
            return False
        numbers = [text for start, end in _NUMBERS if (text := line[start:end].strip())]
        if section in ("COLUMNS", "RHS", "RANGES") and "'MARKER'" not in line and not numbers:
            return False
        if section != "ROWS" and not all(map(is_number, numbers)):
            return False
        spaced = spaced or any(" " in text for text in _by_place(line))
    return spaced


def _by_place(line: str) -> list[str]:
    return [text for start, end in _FIXED if (text := line[start:end].strip())]


@dataclass
class _Row:
    """Row of kind N, L, G or E; ``line`` is the line of its right-hand side, or else of the row."""

    kind: str
    line: int
    right: float | None = None
    span: float | None = None


@dataclass
class _Column:
    """Column: entries by name of the row, and given bounds, each with its line."""

    integral: bool
    line: int
    entries: dict[str, float] = field(default_factory=dict)
    bounded: bool = False
    lower: tuple[float, int] | None = None
    upper: tuple[float, int] | None = None


class _Reader:
    """Reader of one file; ``fields`` splits a line."""

    def __init__(self, source: Source, fields: Callable[[str], list[str]]) -> None:
        self.source, self.fields = source, fields
        self.section, self.line = "", 0
        self.maximize = self.marked = False
        self.rows: dict[str, _Row] = {}
        self.columns: dict[str, _Column] = {}
        self.objective = ""
        self.current = ""
        self.sets: dict[str, str] = {}
        self.of_section: dict[str, Callable[[list[str]], None]] = {
            "NAME": self._nothing,
            "OBJSENSE": self._sense,
            "ROWS": self._row,
            "COLUMNS": self._column,
            "RHS": self._right,
            "RANGES": self._range,
            "BOUNDS": self._bound,
        }

    def read(self) -> LinearProgram:
        ended = False
        for number, line in enumerate(self.source.lines, 1):
            self.line = number
            if not line.strip() or line[0] == "*":
                continue
            ended = not line[0].isspace() and self._header(line)
            if ended:
                break
            if line[0].isspace():
                self._data(self.fields(line))
        if not self.rows:
            raise self._error("the file has no rows; it is not an MPS file, or it is truncated")
        if not ended:
            self._doubt("the file ends without ENDATA; it may be truncated", "the lines up to its end count")
        return self._program()

    def _error(self, why: str) -> InputError:
        return self.source.error(self.line, why, self.section)

    def _doubt(self, why: str, otherwise: str) -> None:
        self.source.doubt(self.line, why, otherwise, self.section)

    def _header(self, line: str) -> bool:
        """Begin a section, or read a line that begins in the first column; return whether the file ends."""
        words = line.split()
        section = words[0].upper()
        if section == "ENDATA":
            if len(words) > 1:
                self._doubt(f"{' '.join(words[1:])!r} after ENDATA", "it is left out")
            return True
        if section in _BEYOND:
            raise self._error(f"has {_BEYOND[section]}; copter solves linear programs")
        if section in self.of_section and not (section == "RHS" == self.section and len(words) > 1):
            self.section = section
            if section == "OBJSENSE" and len(words) > 1:
                self._sense(words[1:])
            elif section != "NAME" and len(words) > 1:
                self._doubt(f"{' '.join(words[1:])!r} after the name of a section", "it is left out")
        elif self.section == "OBJSENSE":
            self._sense(words)
        elif not self.section:
            raise self._error(f"{words[0]!r} is not a section of an MPS file")
        else:
            why = f"{words[0]!r} is not a section, and data must begin with a blank"
            self._doubt(why, "it is read as data")
            self._data(words)
        return False

    def _data(self, words: list[str]) -> None:
        if not self.section:
            raise self._error("there are data before the first section")
        for place in range(2, len(words)):
            if words[place].startswith("$") and words[place] not in self.rows | self.columns:
                words = words[:place]  # a comment
                break
        if words:
            self.of_section[self.section](words)

    def _nothing(self, words: list[str]) -> None:
        raise self._error("there are data after NAME, before the next section")

    def _sense(self, words: list[str]) -> None:
        word = words[0].upper()
        if len(words) > 1 or word not in (*_MAXIMIZE, *_MINIMIZE):
            self._doubt(f"{' '.join(words)!r} is not a sense, which is MAX or MIN", "it is read as MIN")
        self.maximize = word in _MAXIMIZE

    def _row(self, words: list[str]) -> None:
        if len(words) != 2 or words[0].upper() not in ("N", "L", "G", "E"):
            raise self._error(f"{' '.join(words)!r} is not N, L, G or E and the name of a row")
        kind, name = words[0].upper(), words[1]
        if name in self.rows:
            self._doubt(f"row {name!r} is defined in line {self.rows[name].line} already", "it is left out")
            return
        if kind == "N" and not self.objective:
            self.objective = name
        self.rows[name] = _Row(kind, self.line)

    def _pairs(self, words: list[str], *, finite: bool = True) -> Iterator[tuple[str, float]]:
        """Yield names of existing rows, and numbers."""
        for name, text in zip(words[::2], words[1::2], strict=True):
            value = self.source.number(self.line, text, self.section, finite=finite)
            if name in self.rows:
                yield name, value
            else:
                self._doubt(f"there is no row {name!r}", "it is left out")

    def _column(self, words: list[str]) -> None:
        if "'MARKER'" in words[1:2]:
            if words[-1] not in ("'INTORG'", "'INTEND'"):
                raise self._error(f"{words[-1]} is not a marker of integral columns")
            self.marked = words[-1] == "'INTORG'"
            return
        if len(words) not in (3, 5):
            why = "must have a column, and one or two rows with numbers"
            raise self._error(f"has {len(words)} fields; {why}")
        name = words[0]
        column = self.columns.setdefault(name, _Column(self.marked, self.line))
        if name != self.current and column.line != self.line:
            why = f"column {name!r}, begun in line {column.line}, continues after other columns"
            self._doubt(why, "it is one column")
        self.current = name
        for row, value in self._pairs(words[1:]):
            if row in column.entries:
                self._doubt(f"column {name!r} has an entry in row {row!r} already", "the first one counts")
            else:
                column.entries[row] = value

    def _set_of(self, words: list[str], *, named: bool) -> None:
        """Store the name of the set of a line of right-hand sides, ranges or bounds."""
        name = words[0] if named else ""
        first = self.sets.setdefault(self.section, name)
        if name != first:
            self._doubt(f"a second set, {name!r}, after {first!r}", "both count")

    def _of_rows(self, words: list[str]) -> Iterator[tuple[str, _Row, float]]:
        """Yield names, rows and numbers of a line of right-hand sides or ranges."""
        if not 2 <= len(words) <= 5:
            raise self._error(f"has {len(words)} fields; must be one or two pairs of a row and a number")
        self._set_of(words, named=len(words) % 2 == 1)
        for name, value in self._pairs(words[len(words) % 2 :], finite=False):
            yield name, self.rows[name], value

    def _right(self, words: list[str]) -> None:
        for name, row, value in self._of_rows(words):
            if name == self.objective and math.isinf(value):
                raise self._error("the constant of the objective is not finite")
            if row.right is not None:
                self._doubt(f"row {name!r} has a right-hand side already", "the first one counts")
            else:
                row.right, row.line = value, self.line

    def _range(self, words: list[str]) -> None:
        for name, row, value in self._of_rows(words):
            if row.kind == "N":
                self._doubt(f"row {name!r} is of kind N, which has no range", "it is left out")
            elif row.span is not None:
                self._doubt(f"row {name!r} has a range already", "the first one counts")
            else:
                row.span = value

    def _bound(self, words: list[str]) -> None:
        kind = words[0].upper()
        if kind in ("SC", "SI"):
            raise self._error("has semi-continuous columns; copter solves linear programs")
        if kind not in _VALUED and kind not in _BOUNDS:
            raise self._error(f"{words[0]!r} is not a kind of bound")
        lower, upper = _BOUNDS.get(kind, (None, None))
        rest = words[1:]
        if kind in _VALUED:
            if len(rest) not in (2, 3):
                raise self._error(f"{kind} needs a column and a number")
            value = self.source.number(self.line, rest.pop(), self.section)
            lower = value if "l" in _VALUED[kind] else None
            upper = value if "u" in _VALUED[kind] else None
        elif len(rest) == 3 or (len(rest) == 2 and rest[1] not in self.columns and rest[0] in self.columns):
            rest.pop()  # a number that the kind does not need
        if len(rest) not in (1, 2):
            raise self._error(f"{kind} needs a column")
        self._set_of(rest, named=len(rest) == 2)
        name = rest[-1]
        if name not in self.columns:
            self._doubt(f"there is no column {name!r}", "it is left out")
            return
        column = self.columns[name]
        column.bounded = True
        column.integral = column.integral or kind in _INTEGRAL
        for side, bound in (("lower", lower), ("upper", upper)):
            before = getattr(column, side)
            if bound is not None and before is not None:
                why = f"column {name!r} has {before[0]:g} for its {side} bound already, from line {before[1]}"
                self._doubt(why, "the first one counts")
            elif bound is not None:
                setattr(column, side, (bound, self.line))

    def _box(self, name: str, column: _Column) -> tuple[float, float]:
        """Return the bounds of a column; the default is 0 and 1 for integral columns."""
        default = 1.0 if column.integral and not column.bounded else math.inf
        lower, at = column.lower or (0.0, 0)
        upper, later = column.upper or (default, 0)
        if not lower <= upper or lower == math.inf or upper == -math.inf:
            self.line, self.section = max(at, later), "BOUNDS"
            if column.lower is None:
                why = f"column {name!r} has the upper bound {upper:g}, and 0 for the lower one by default"
                self._doubt(why, "its lower bound is minus infinity, as in many readers")
                return -math.inf, upper
            self._doubt(f"column {name!r} has the bounds {lower:g} and {upper:g}", "they are kept")
        return lower, upper

    def _sides(self, name: str, row: _Row) -> tuple[float, float]:
        """Return lower and upper bound of a row."""
        right, span = row.right or 0.0, row.span
        lower = -math.inf if row.kind == "L" else right
        upper = math.inf if row.kind == "G" else right
        if span is not None and row.kind == "E":
            lower, upper = min(right, right + span), max(right, right + span)
        elif span is not None:
            lower, upper = (right - abs(span), right) if row.kind == "L" else (right, right + abs(span))
        if lower == math.inf or upper == -math.inf:
            self.line, self.section = row.line, "RHS"
            self._doubt(f"row {name!r} has the bounds {lower:g} and {upper:g}", "they are kept")
        return lower, upper

    def _program(self) -> LinearProgram:
        if not self.objective:
            self._doubt("there is no row of kind N, the objective", "all costs are 0")
        rows = {name: row for name, row in self.rows.items() if row.kind != "N"}
        number = {name: i for i, name in enumerate(rows)}
        entries = [
            (number[row], j, value)
            for j, column in enumerate(self.columns.values())
            for row, value in column.entries.items()
            if row in number
        ]
        return linear_program(
            [column.entries.get(self.objective, 0.0) for column in self.columns.values()],
            -(self.rows[self.objective].right or 0.0) if self.objective else 0.0,
            entries,
            [self._sides(*each) for each in rows.items()],
            [self._box(*each) for each in self.columns.items()],
            [column.integral for column in self.columns.values()],
            (tuple(self.columns), tuple(rows)),
            maximize=self.maximize,
        )


# ---- writing ---------------------------------------------------------------------------------------------

OBJECTIVE = "Obj"
"""Name of the objective row in written files."""
_SETS = ("RHS_V", "RANGE", "BOUND")
RESERVED = (OBJECTIVE, *_SETS, "'MARKER'", "'INTORG'", "'INTEND'", "NAME", "OBJSENSE")
"""Names that no row or column has in a written file, because HiGHS or copter would misread the file."""


def text_of(lp: LinearProgram) -> str:
    """Return a linear program with names in free MPS format; numbers are read back exactly.

    Raise EditError if no range expresses the two bounds of a row exactly.
    """
    sign = -1.0 if lp.maximize else 1.0
    sides = [
        _side(name, *ends)
        for name, *ends in zip(lp.row_names, lp.row_lower.tolist(), lp.row_upper.tolist(), strict=True)
    ]
    lines = ["NAME", *(("OBJSENSE", "    MAX") if lp.maximize else ()), "ROWS", f" N  {OBJECTIVE}"]
    lines += [f" {kind}  {name}" for name, (kind, _, _) in zip(lp.row_names, sides, strict=True)]
    lines += ["COLUMNS", *_columns(lp, sign), "RHS"]
    right = [(OBJECTIVE, -sign * lp.offset), *zip(lp.row_names, (side for _, side, _ in sides), strict=True)]
    lines += [f"    {_SETS[0]} {name} {_number(value)}" for name, value in right if value]
    ranges = [(name, value) for name, (_, _, value) in zip(lp.row_names, sides, strict=True) if value]
    if ranges:
        lines += ["RANGES", *(f"    {_SETS[1]} {name} {_number(value)}" for name, value in ranges)]
    lines += ["BOUNDS"]
    boxes = zip(lp.column_names, lp.lower.tolist(), lp.upper.tolist(), lp.integral.tolist(), strict=True)
    lines += [f" {kind} {_SETS[2]} {name}{value}" for name, *box in boxes for kind, value in _box(*box)]
    return "\n".join([*lines, "ENDATA", ""])


def _columns(lp: LinearProgram, sign: float) -> Iterator[str]:
    """Yield the lines of the columns, with markers around integral columns."""
    whole = False
    for j, name in enumerate(lp.column_names):
        if bool(lp.integral[j]) != whole:
            whole = not whole
            yield f"    MARK{j} 'MARKER' '{'INTORG' if whole else 'INTEND'}'"
        own = slice(int(lp.A.indptr[j]), int(lp.A.indptr[j + 1]))
        entries = zip(lp.A.indices[own].tolist(), lp.A.data[own].tolist(), strict=True)
        values = [(lp.row_names[i], value) for i, value in entries if value]
        cost = sign * float(lp.c[j])
        if cost or not values:
            values.insert(0, (OBJECTIVE, cost))
        yield from (f"    {name} {row} {_number(value)}" for row, value in values)
    if whole:
        yield "    MARKEND 'MARKER' 'INTEND'"


def _side(name: str, lower: float, upper: float) -> tuple[str, float, float]:
    """Return kind, right-hand side and range of a row; a range of 0 means no range."""
    if math.isinf(lower) or math.isinf(upper):
        if math.isinf(lower) and math.isinf(upper):
            return "N", 0.0, 0.0
        return ("L", upper, 0.0) if math.isinf(lower) else ("G", lower, 0.0)
    if lower == upper:
        return "E", lower, 0.0
    width = upper - lower
    for value in (width, math.nextafter(width, 0.0), math.nextafter(width, math.inf)):
        if lower + value == upper:
            return "G", lower, value
        if upper - value == lower:
            return "L", upper, value
    raise EditError(
        f"row {name}", "bounds", (lower, upper), "no range of MPS expresses the difference exactly"
    )


def _box(lower: float, upper: float, whole: bool) -> list[tuple[str, str]]:
    """Return kinds and values of a column's bounds, stated also where the defaults of readers differ."""
    if lower == upper:
        return [("FX", f" {_number(lower)}")]
    if math.isinf(lower) and math.isinf(upper):
        return [("FR", "")]
    bounds = [("MI", "")] if math.isinf(lower) else [("LO", f" {_number(lower)}")] if lower or whole else []
    if math.isinf(upper):
        return [*bounds, ("PL", "")] if whole else bounds
    return [*bounds, ("UP", f" {_number(upper)}")]


def _number(value: float) -> str:
    """Return the shortest text that is read back as the same number."""
    return repr(float(value)).removesuffix(".0")
