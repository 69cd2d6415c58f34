"""Sequences of LPs as files for use without copter: an MPS file, and the edits and optimum of each round.

The page docs/reference/lp-sequences.md specifies the files.  The rounds are those of a recording, of a
domain, or of a line of the suite.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping
from dataclasses import replace
from importlib.metadata import version
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

import numpy as np

from copter.arrays import Floats
from copter.bench.case import PROFILES, Inputs, all_cases
from copter.bench.course import Course
from copter.bench.domain import DomainCourse
from copter.bench.recording import read_rounds
from copter.bench.settings import SolverSettings
from copter.errors import CopterError, SolverError, UnsupportedError, choices
from copter.models.linear_program import LinearProgram
from copter.models.mps import text_of
from copter.program.program import ContinualProgram
from copter.solution import Solution
from copter.solvers.general.model import Model
from copter.solvers.registry import repeatable_solver
from copter.solvers.wrapper import Wrapper
from copter.store.compiled import compile_program

HEADER, PROGRAM, ROUNDS = "sequence.json", "round0.mps", "rounds.jsonl"
_FORMAT = 2
"""Version of the format."""
_TOLERANCE = 1e-9
_FREE = 1e30
"""Right-hand side in MPS of a row without sides; the row is not of kind N, because readers drop such rows."""


class Round(NamedTuple):
    """Program of a round with names, and the edits that lead to it from the previous round."""

    lp: LinearProgram
    edits: dict[str, Any]


def rounds_of(name: str, rounds: int | None = None, seed: int = 0) -> Iterator[Round]:
    """Return the rounds of a recording, of a domain (``module:Name``), or of a line of the suite.

    Parameters
    ----------
    rounds : int, optional
        Largest number of rounds; by default, 50 for a domain, else all.

    Raises
    ------
    UnsupportedError
        If there is no such line; the message has the most similar name.
    DomainNameError
        If there is no such domain.
    """
    if Path(name).is_file():
        return itertools.islice(_replayed(Path(name)), rounds)
    if ":" in name:
        return _played(DomainCourse(name, rounds or 50, seed), "copter", 1e-6)
    cases = {case.name: case for profile in PROFILES for case in all_cases(profile, Inputs(seed))}
    if name not in cases:
        raise UnsupportedError(f"no line is called {name!r}: {choices(name, cases)}")
    case = cases[name]

    def made() -> Iterator[Round]:
        with TemporaryDirectory(prefix="copter-export-") as scratch:
            yield from _played(case.make(Path(scratch)), case.solvers[0], case.tolerance)

    return itertools.islice(made(), rounds)


def _replayed(path: Path) -> Iterator[Round]:
    """Yield the rounds in a file of :class:`copter.bench.recording.Recorder`."""
    program, names = ContinualProgram(), NamedRounds()
    for edits in read_rounds(path, program):
        for edit in edits:
            edit()
        yield names.take(program)


def _played(course: Course, solver: str, tolerance: float) -> Iterator[Round]:
    """Yield a round for each program that a course gives its solver."""
    follower = _Follower(repeatable_solver(solver, tolerance=tolerance))
    for _ in course.play(SolverSettings(solver, tolerance, wrap=lambda _: follower)).records:
        yield from follower.rounds
        follower.rounds.clear()


class _Follower(Wrapper):
    """A solver that stores the rounds that it solves."""

    def __init__(self, inner: Any) -> None:
        super().__init__(inner)
        self.rounds: list[Round] = []
        self._names = NamedRounds()

    def solve(
        self, program: ContinualProgram, *, time_limit: float | None = None, raise_error: bool = False
    ) -> Solution:
        self.rounds.append(self._names.take(program))
        return super().solve(program, time_limit=time_limit, raise_error=raise_error)


class NamedRounds:
    """Names of a program's columns and rows, and the costs, bounds and sides of its last round by name."""

    def __init__(self) -> None:
        self._program: ContinualProgram | None = None
        self._rows, self._columns = _Names("r"), _Names("c")
        self._last: dict[str, dict[str, Any]] = {"costs": {}, "bounds": {}, "sides": {}}

    def take(self, program: ContinualProgram) -> Round:
        """Return the program in its present state, and the edits since the last call."""
        if not isinstance(program, ContinualProgram) or self._program not in (None, program):
            raise UnsupportedError(
                "an export needs one program of requests that is edited from round to round"
            )
        self._program, it = program, compile_program(program)
        both, upper = np.isfinite(it.row_lower) & np.isfinite(it.row_upper), it.row_upper.copy()
        upper[both] = it.row_lower[both] + (upper[both] - it.row_lower[both])  # as MPS rounds a range
        totals = (("total", id) for id, row in zip(it.request_ids, it.sum_row, strict=True) if row >= 0)
        rows, old_rows, new_rows = self._rows.take(
            dict.fromkeys([*(("", id) for id in it.resource_ids), *totals])
        )
        entries = zip((rows[at] for at in it.A.indices.tolist()), it.A.data.tolist(), strict=True)
        counts = zip(it.request_ids, np.diff(it.column_start).tolist(), strict=True)
        places = ((id, column) for id, count in counts for column in range(count))
        sizes = np.diff(it.A.indptr).tolist()
        own = {
            place: tuple(itertools.islice(entries, size)) for place, size in zip(places, sizes, strict=True)
        }
        columns, old_columns, new_columns = self._columns.take(own)
        now = {
            "costs": dict(zip(columns, it.c.tolist(), strict=True)),
            "bounds": dict(zip(columns, _pairs(it.lower, it.upper), strict=True)),
            "sides": dict(zip(rows, _pairs(it.row_lower, upper), strict=True)),
        }
        edits: dict[str, Any] = {"remove_columns": old_columns, "remove_rows": old_rows}
        for what, values in now.items():
            last = self._last[what]
            edits[what] = {name: value for name, value in values.items() if last.get(name, value) != value}
        edits["add_rows"] = {name: now["sides"][name] for name in new_rows}
        edits["add_columns"] = {
            name: {
                "cost": now["costs"][name],
                "bounds": now["bounds"][name],
                "entries": {row: value for row, value in new_columns[name] if value},
            }
            for name in new_columns
        }
        self._last = now
        continuous = np.zeros(it.c.size, np.bool_)
        lp = LinearProgram(it.c, it.A, it.row_lower, upper, it.lower, it.upper, 0.0, continuous)
        return Round(replace(lp, column_names=tuple(columns), row_names=tuple(rows)), edits)


class _Names:
    """Names of columns or rows; a name is never used twice."""

    def __init__(self, letter: str) -> None:
        self._letter, self._count = letter, itertools.count()
        self._known: dict[Hashable, tuple[str, Any]] = {}

    def take(self, now: Mapping[Any, Any]) -> tuple[list[str], list[str], dict[str, Any]]:
        """Return the present names, the removed names, and the new names with their content.

        `now`: the content by place; a place whose content is not that of the last round gets a new name.
        """
        known, new = self._known, dict[str, Any]()
        gone = [place for place, (_, content) in known.items() if place not in now or now[place] != content]
        removed = [known.pop(place)[0] for place in gone]
        for place, content in now.items():
            if place not in known:
                known[place] = f"{self._letter}{next(self._count)}", content
                new[known[place][0]] = content
        return [known[place][0] for place in now], removed, new


def _pairs(lower: Floats, upper: Floats) -> list[list[float | None]]:
    """Return pairs of bounds, with None for an infinite bound."""
    both = np.column_stack((lower, upper)).tolist()
    return [[bound if np.isfinite(bound) else None for bound in pair] for pair in both]


def write_sequence(
    name: str,
    rounds: Iterable[Round],
    folder: Path,
    seed: int,
    follow: Callable[[int], None] = lambda number: None,
) -> int:
    """Write the rounds of a sequence to a new folder, and return their number.

    Parameters
    ----------
    folder : Path
        Folder to create. The header is written last, so a folder without a header is incomplete.
    name, seed : str and int
        Name and seed of the sequence, for the header.
    follow : callable
        Function that is called with the number of finished rounds.

    Raises
    ------
    SolverError
        If the optimum of a round cannot be certified; the message names the round.
    CopterError
        If the sequence has no rounds.
    """
    folder.mkdir(parents=True, exist_ok=True)
    optima = []
    with (folder / ROUNDS).open("w", encoding="ascii", newline="\n") as lines:
        for number, (lp, edits) in enumerate(rounds):
            found = Model(lp).solve(tolerance=_TOLERANCE)
            if not (found.found and found.certified):
                why = f"the optimum cannot be certified: {found.status}: {found.reason}"
                raise SolverError(f"{name}, round {number}: {why}")
            optima.append({"objective": found.objective, "bound": found.bound})
            if number:
                line = {"round": number} | edits | {"optimum": optima[-1]}
                lines.write(json.dumps(line, separators=(",", ":"), allow_nan=False) + "\n")
            else:
                free = np.isinf(lp.row_lower) & np.isinf(lp.row_upper)
                text = text_of(replace(lp, row_upper=np.where(free, _FREE, lp.row_upper)))
                (folder / PROGRAM).write_text(text, encoding="ascii", newline="\n")
            follow(number + 1)
    if not optima:
        raise CopterError(f"{name}: has no round with a linear program of requests")
    header = {
        "format": _FORMAT,
        "name": name,
        "source": f"copter {version('copter-opt')}, copter bench export",
        "seed": seed,
        "rounds": len(optima),
        "optimum": optima[0],
    }
    (folder / HEADER).write_text(json.dumps(header, indent=2) + "\n", encoding="ascii", newline="\n")
    return len(optima)
