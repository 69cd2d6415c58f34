"""Sequences of LPs as files that need no copter: an MPS file, and edits and a certified optimum a round.

The page docs/reference/lp-sequences.md specifies the files.  The rounds are those of a recording, of a
domain, or of a line of the suite.  :class:`_Names` gives each column and row a name, and turns the changes of
the program (:class:`copter.store.changes.FlatModel`) into the edits of a round.
"""

from __future__ import annotations

import inspect
import itertools
import json
import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from importlib.metadata import version
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from copter.bench.case import PROFILES, Inputs, all_cases
from copter.bench.course import Course
from copter.bench.domain import DomainCourse
from copter.bench.recording import read_rounds
from copter.bench.settings import SolverSettings
from copter.errors import CopterError, SolverError, UnsupportedError, choices
from copter.models.linear_program import LinearProgram
from copter.models.mps import text_of
from copter.program.program import ContinualProgram
from copter.rounds.named import domain_named
from copter.solution import Solution
from copter.solvers.general.model import Model
from copter.solvers.registry import repeatable_solver
from copter.solvers.wrapper import Wrapper
from copter.store.changes import FlatModel
from copter.store.compiled import compile_program

HEADER, PROGRAM, ROUNDS = "family.json", "round0.mps", "rounds.jsonl"
_FORMAT = 1
"""Version of the format."""
_TOLERANCE, _LARGEST = 1e-9, 1e-8
"""Tolerance of a solve, and largest gap and violation of an optimum."""
_FREE = 1e30
"""Right-hand side in MPS of a row without sides; it is not of kind N, because readers drop these rows."""
_DOMAIN_ROUNDS = 50
"""Number of rounds of a domain, unless another one is asked for."""
_KINDS = ("remove_columns", "remove_rows", "costs", "bounds", "sides", "add_rows", "add_columns")
"""Kinds of edits, in the order in which a reader applies them."""
_Edits: TypeAlias = dict[str, Any]


class _Round(NamedTuple):
    """Program of a round, and the edits that lead to it; none in round 0."""

    lp: LinearProgram
    edits: _Edits


class Sequence(NamedTuple):
    """Sequence of LPs: name of its folder, a sentence, and the rounds, at most as many as asked for."""

    name: str
    description: str
    rounds: Iterator[_Round]


def sequence_named(name: str, rounds: int | None = None, seed: int = 0) -> Sequence:
    """Return the sequence of a recording, of a domain as ``module:Name``, or of a line of the suite.

    Raises
    ------
    UnsupportedError
        There is no such line; the message has the most similar name.
    DomainNameError
        There is no such domain.
    """
    if Path(name).is_file():
        return Sequence(
            _plain(Path(name).stem),
            f"Recording {Path(name).name}.",
            itertools.islice(_replayed(Path(name)), rounds),
        )
    if ":" in name:
        summary = (inspect.getdoc(domain_named(name)) or name).splitlines()[0]
        course = DomainCourse(name, rounds or _DOMAIN_ROUNDS, seed)
        return Sequence(_plain(name.rpartition(":")[2]), summary, _played(course, "copter", 1e-6))
    cases = {case.name: case for profile in PROFILES for case in all_cases(profile, Inputs(seed))}
    if name not in cases:
        raise UnsupportedError(f"no line is called {name!r}: {choices(name, cases)}")
    case = cases[name]

    def made() -> Iterator[_Round]:
        with TemporaryDirectory(prefix="copter-export-") as scratch:
            yield from _played(case.make(Path(scratch)), case.solvers[0], case.tolerance)

    return Sequence(name, f"{case.title}.", itertools.islice(made(), rounds))


def _plain(name: str) -> str:
    """Return a name for a folder: lower-case letters, digits and hyphens."""
    return re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-") or "sequence"


def _replayed(path: Path) -> Iterator[_Round]:
    """Yield the rounds of a file of :class:`copter.bench.recording.Recorder`."""
    program, names = ContinualProgram(), _Names()
    for edits in read_rounds(path, program):
        for edit in edits:
            edit()
        yield names.take(program)


def _played(course: Course, solver: str, tolerance: float) -> Iterator[_Round]:
    """Yield a round for each program that a course gives its solver."""
    follower = _Follower(repeatable_solver(solver, tolerance=tolerance))
    for _ in course.play(SolverSettings(solver, tolerance, wrap=lambda _: follower)).records:
        yield from follower.rounds
        follower.rounds.clear()


class _Follower(Wrapper):
    """A solver that keeps the rounds that it solves."""

    def __init__(self, inner: Any) -> None:
        super().__init__(inner)
        self.rounds: list[_Round] = []
        self._names = _Names()

    def solve(
        self, program: ContinualProgram, *, time_limit: float | None = None, raise_error: bool = False
    ) -> Solution:
        self.rounds.append(self._names.take(program))
        return super().solve(program, time_limit=time_limit, raise_error=raise_error)


class _Names:
    """Names of the columns and rows of one program, and what was last written about them."""

    def __init__(self) -> None:
        self._program: ContinualProgram | None = None
        self._columns: list[str] = []
        self._rows: list[str] = []
        self._numbers = {"c": itertools.count(), "r": itertools.count()}
        self._known: dict[str, dict[str, Any]] = {"costs": {}, "bounds": {}, "sides": {}}

    def take(self, program: ContinualProgram) -> _Round:
        """Return the program in its present state, with the edits since the last call."""
        if not isinstance(program, ContinualProgram) or self._program not in (None, program):
            raise UnsupportedError(
                "an export needs one program of requests that is edited from round to round"
            )
        lp, edits = _lp(program), {}
        if self._program is None:
            self._flat = FlatModel(program)
            lp = self._named(lp)
        else:
            edits = self._edits(self._flat)
        self._program = program
        return _Round(lp, edits)

    def _named(self, lp: LinearProgram) -> LinearProgram:
        """Return the first program with names, and with row sides that MPS expresses exactly."""
        both, upper = np.isfinite(lp.row_lower) & np.isfinite(lp.row_upper), lp.row_upper.copy()
        upper[both] = lp.row_lower[both] + (upper[both] - lp.row_lower[both])
        lp = replace(lp, row_upper=upper)
        columns, rows = (
            self._new("c", lp.c.size, self._columns),
            self._new("r", lp.row_lower.size, self._rows),
        )
        self._changed("costs", columns, lp.c)
        self._changed("bounds", columns, _pairs(lp.lower, lp.upper))
        self._changed("sides", rows, _pairs(lp.row_lower, lp.row_upper))
        return replace(lp, column_names=tuple(columns), row_names=tuple(rows))

    def _edits(self, flat: FlatModel) -> _Edits:
        """Return the changes since the last call, by kind."""
        it, columns, rows = flat.changes(), self._columns, self._rows
        edits: _Edits = {
            "remove_columns": _pop(columns, it.deleted_columns),
            "remove_rows": _pop(rows, it.deleted_rows),
            "costs": self._changed("costs", _at(columns, it.cost_columns), it.costs),
            "bounds": self._changed(
                "bounds", _at(columns, it.bound_columns), _pairs(np.zeros(it.upper.size), it.upper)
            ),
            "sides": self._changed("sides", _at(rows, it.side_rows), _pairs(it.row_lower, it.row_upper)),
        }
        new = it.new_rows
        entries = _entries(columns, new.starts, new.columns, new.values)
        names = self._new("r", new.lower.size, rows)
        sides = self._changed("sides", names, _pairs(new.lower, new.upper))
        edits["add_rows"] = {
            name: {"sides": sides[name], "entries": own} for name, own in zip(names, entries, strict=True)
        }
        added = it.new_columns
        names = self._new("c", added.costs.size, columns)
        costs = self._changed("costs", names, added.costs)
        bounds = self._changed("bounds", names, _pairs(np.zeros(added.upper.size), added.upper))
        entries = _entries(rows, added.starts, added.rows, added.values)
        edits["add_columns"] = {
            name: {"cost": costs[name], "bounds": bounds[name], "entries": own}
            for name, own in zip(names, entries, strict=True)
        }
        return edits

    def _new(self, kind: str, count: int, names: list[str]) -> list[str]:
        """Append new names; a number is never used again."""
        new = [f"{kind}{number}" for number in itertools.islice(self._numbers[kind], count)]
        names += new
        return new

    def _changed(self, what: str, names: list[str], values: Iterable[Any]) -> dict[str, Any]:
        """Return the values that differ from the known ones, by name, and remember them."""
        known = self._known[what]
        listed = values.tolist() if isinstance(values, np.ndarray) else values
        changed = {name: value for name, value in zip(names, listed, strict=True) if known.get(name) != value}
        known |= changed
        return changed


def _lp(program: ContinualProgram) -> LinearProgram:
    it = compile_program(program)
    continuous = np.zeros(it.c.size, np.bool_)
    return LinearProgram(it.c, it.A, it.row_lower, it.row_upper, it.lower, it.upper, 0.0, continuous)


def _pop(names: list[str], positions: NDArray[np.int32]) -> list[str]:
    """Remove the names in some positions from a list, and return them."""
    gone = _at(names, positions)
    for at in reversed(positions.tolist()):
        del names[at]
    return gone


def _at(names: list[str], positions: NDArray[np.int32]) -> list[str]:
    return [names[at] for at in positions.tolist()]


def _pairs(lower: NDArray[np.float64], upper: NDArray[np.float64]) -> list[list[float | None]]:
    """Return pairs of bounds with None for an infinite one."""
    both = np.column_stack((lower, upper)).tolist()
    return [[bound if np.isfinite(bound) else None for bound in pair] for pair in both]


def _entries(
    names: list[str], starts: NDArray[np.int32], at: NDArray[np.int32], values: NDArray[np.float64]
) -> list[dict[str, float]]:
    """Return the nonzeros of each row or column by name."""
    pairs = list(zip(_at(names, at), values.tolist(), strict=True))
    ends = [*starts.tolist(), len(pairs)]
    return [{name: value for name, value in pairs[a:b] if value} for a, b in itertools.pairwise(ends)]


# ---- files -------------------------------------------------------------------------------------------------


def write_sequence(
    sequence: Sequence, folder: Path, seed: int, follow: Callable[[int], None] = lambda number: None
) -> dict[str, Any]:
    """Write a sequence to a new folder, and return its header.

    Parameters
    ----------
    folder : Path
        Folder to create. The header is written last: a folder without a header is incomplete.
    seed : int
        Seed of the sequence, for the header.
    follow : callable
        Function that is called with the number of finished rounds.

    Raises
    ------
    SolverError
        The optimum of a round cannot be certified; the message names the round.
    CopterError
        The sequence has no rounds.
    """
    folder.mkdir(parents=True)
    optima, sizes, counts = [], [], dict.fromkeys(_KINDS, 0)
    with (folder / ROUNDS).open("w", encoding="ascii", newline="\n") as lines:
        for number, (lp, edits) in enumerate(sequence.rounds):
            try:
                optima.append(certified_optimum(lp))
            except SolverError as error:
                raise SolverError(f"{sequence.name}, round {number}: {error}") from None
            sizes.append({"columns": lp.c.size, "rows": lp.row_lower.size, "nonzeros": lp.A.nnz})
            if number:
                line = {"round": number} | edits | {"optimum": optima[-1]}
                lines.write(json.dumps(line, separators=(",", ":"), allow_nan=False) + "\n")
                counts = {name: counts[name] + len(edits[name]) for name in _KINDS}
            else:
                free = np.isinf(lp.row_lower) & np.isinf(lp.row_upper)
                text = text_of(replace(lp, row_upper=np.where(free, _FREE, lp.row_upper)))
                (folder / PROGRAM).write_text(text, encoding="ascii", newline="\n")
            follow(number + 1)
    if not sizes:
        raise CopterError(f"{sequence.name}: has no round with a linear program of requests")
    header = {
        "format": _FORMAT,
        "name": sequence.name,
        "description": sequence.description,
        "source": f"copter {version('copter-opt')}, copter bench export",
        "licence": "Apache-2.0",
        "seed": seed,
        "sense": "min",
        "rounds": len(sizes),
        "first": sizes[0],
        "largest": {name: max(size[name] for size in sizes) for name in sizes[0]},
        "edits": counts,
        "optimum": optima[0],
    }
    (folder / HEADER).write_text(json.dumps(header, indent=2) + "\n", encoding="ascii", newline="\n")
    return header


def certified_optimum(lp: LinearProgram) -> dict[str, float]:
    """Return objective, bound, gap and largest violation; raise SolverError if they are not tight."""
    found = Model(lp).solve(tolerance=_TOLERANCE)
    if found.x is None or not found.found:
        raise SolverError(f"the optimum cannot be certified: {found.status}: {found.reason}")
    activity = lp.A @ found.x
    over = np.maximum(activity - lp.row_upper, lp.row_lower - activity)
    side = np.where(activity > lp.row_upper, lp.row_upper, lp.row_lower)
    size = np.maximum(1.0, np.where(np.isfinite(side), abs(side), 0.0))
    violation = float(np.max(over / size, initial=0.0))
    gap = abs(found.objective - found.bound) / max(1.0, abs(found.objective))
    if not max(gap, violation) <= _LARGEST:
        raise SolverError(f"the optimum cannot be certified: gap {gap:.1e}, violation {violation:.1e}")
    return {"objective": found.objective, "bound": found.bound, "gap": gap, "violation": violation}
