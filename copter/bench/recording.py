"""Recording of rounds as edits, so that every solver gets exactly the same rounds.

A recording is a journal's file (:mod:`copter.durable.program_file`) without a solver.  A replay reads one
edit at a time, so it needs no more memory than the program and the solver.  Reading a recording does not
execute code from the file.

The costs in a recording are those of a minimisation, whatever the sense of the recorded program.  A replay
into a program of the same sense has the objective and the bound of the recorded program.
"""

from __future__ import annotations

import importlib
import math
from collections.abc import Callable, Hashable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np

from copter.bench.course import EditedCourse, Figure, Rounding
from copter.bench.settings import Record
from copter.durable.edits import WrittenProgram, make_edit, read_edit
from copter.durable.program_file import ProgramFile
from copter.durable.snapshot import pack
from copter.durable.values import ValueFormatError
from copter.errors import UnplacedError
from copter.program.program import ContinualProgram
from copter.program.sense import Sense
from copter.proof.whole import integrality_loss
from copter.store.view import take_entries

if TYPE_CHECKING:
    from copter.bench.result_files import SolverResult
    from copter.shims.choose_one import Choice
    from copter.solution import Solution

INTEGRAL_CHURN = Figure("integral_churn", "integral churn", "mean", ".1%")


class Recorder(WrittenProgram):
    """An empty program whose edits are written to a file, round by round; an existing file is replaced.

    The file is like that of a :class:`copter.Journal`, without a solver.
    """

    def __init__(self, path: Path, *, sense: Sense = "min") -> None:
        super().__init__(sense=sense)
        for suffix in ("", "-wal", "-shm"):  # SQLite's files of a recording that was read
            path.with_name(path.name + suffix).unlink(missing_ok=True)
        self._file, self._edits, self._rounds = ProgramFile(path), list[bytes](), 0
        self._file.begin_after(pack(self), 0, {})

    def _write(self, edit: bytes) -> None:
        self._edits.append(edit)

    def end_round(self) -> None:
        """End the edits of the present round; a replay solves the program at this point."""
        self._rounds += 1
        self._file.add_round(self._rounds, self._edits, {})
        self._edits = []

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self._file.close()


def read_rounds(path: Path, program: ContinualProgram) -> Iterator[Iterator[Callable[[], object]]]:
    """Yield the rounds of a recording, each as an iterator over functions that edit the empty `program`.

    Raises
    ------
    FileError
        If the file is not a recording, or is damaged.
    """
    with closing(ProgramFile(path, read_only=True)) as file:
        for _, edits in file.rounds(0, file.facts("last")["round"]):
            yield (_edit(file, program, edit) for edit in edits)


def _edit(file: ProgramFile, program: ContinualProgram, content: bytes) -> Callable[[], object]:
    try:
        return partial(make_edit, program, read_edit(content))
    except ValueFormatError as wrong:
        raise file.wrong(f"contains an edit that cannot be read: {wrong}") from None


class _ChooseOne(Rounding):
    """Rounding by a shim, with the integral churn of its allocations."""

    def __init__(self, program: ContinualProgram, shim: Any) -> None:
        self._program, self._shim, self._churn = program, shim, IntegralChurn()
        self._choice: Choice | None = None

    def __call__(self, solution: Solution) -> Record:
        self._choice = None
        if not solution.found:
            return {}
        try:
            rounded = self._shim.round(self._program, solution)
        except UnplacedError as error:  # its allocation has an infinite objective and gap
            rounded = error.rounded
        self._choice = rounded.choice
        return {
            "answer_objective": rounded.objective,
            "answer_gap": rounded.gap,
            "integrality_loss": integrality_loss(rounded.objective, solution.bound),
        }

    def figures(self) -> Record:
        """Return the integral churn; NaN without an allocation."""
        choice = self._choice
        return {"integral_churn": math.nan if choice is None else self._churn.measure(self._program, choice)}


@dataclass(frozen=True)
class Recorded(EditedCourse):
    """Recorded rounds to measure.

    `rounds`: the recording. `warm_up`: small recording of the same kind that is played first, untimed.
    `shim`: ``module:name`` of a class without arguments, whose method ``round(program, solution)`` returns a
    :class:`copter.shims.choose_one.Rounded`.
    """

    figures: ClassVar[Sequence[Figure]] = (INTEGRAL_CHURN,)
    rounds: Path
    warm_up: Path
    shim: str

    def small(self) -> Recorded:
        """Return a course of the warm-up's recording."""
        return replace(self, rounds=self.warm_up)

    def edits(self, program: ContinualProgram) -> Iterator[Iterator[Callable[[], object]]]:
        """Yield the recorded edits."""
        return read_rounds(self.rounds, program)

    def rounding(self, program: ContinualProgram) -> Rounding:
        """Return the shim, with the integral churn."""
        module, _, name = self.shim.partition(":")
        return _ChooseOne(program, getattr(importlib.import_module(module), name)())


@dataclass(frozen=True)
class ProvenRounds(Recorded):
    """A recording whose allocations are to be proven optimal, with figures about the proofs.

    The objectives of all solvers in a round are compared: no objective may be below a proven optimum.
    """

    figures: ClassVar[Sequence[Figure]] = (
        Figure("proven", "proven", "mean", ".0%"),
        Figure("answer_gap", "integer gap", "max", ".1e"),
        Figure("above_best", "above the best known", "max", ".1e"),
        Figure("columns_left", "columns left", "median", ".0f"),
        Figure("t_integer", "proof, s", "median", ".3f"),
    )

    def compare(self, measured: Sequence[SolverResult]) -> None:
        """Add the relative excess of each round's objective over the best of all solvers."""
        best: dict[int, float] = {}
        for one in measured:
            for record in one.records:
                value, number = record["answer_objective"], record["round"]
                if math.isfinite(value):
                    best[number] = min(value, best.get(number, math.inf))
        for one in measured:
            for record in one.records:
                least = best.get(record["round"], math.nan)
                above = record["answer_objective"] - least
                record["above_best"] = above / max(abs(least), 1e-300) if above else above


class IntegralChurn:
    """Share of requests whose integral allocation changes from one round to the next.

    A request that is in both rounds changed if an entry of its usage of the resources changed. The number of
    the chosen column would not suffice: another column may have the same usage (a pinned job has one column
    instead of many), and after a request's columns are replaced, the same number may mean another usage.
    """

    def __init__(self) -> None:
        self._last: dict[Hashable, bytes] = {}

    def measure(self, program: ContinualProgram, choice: Choice) -> float:
        """Return the share of changed requests among those in both rounds; NaN without any.

        `program`: the program, in the state in which it was rounded. `choice`: column of each request.
        """
        now = _usages(program, choice)
        both = [(used, now[id]) for id, used in self._last.items() if id in now]
        self._last = now
        return sum(old != new for old, new in both) / len(both) if both else math.nan


def _usages(program: ContinualProgram, choice: Choice) -> dict[Hashable, bytes]:
    """Return the entries (row, coefficient) of each request's column as bytes; empty without a column."""
    store, slots = program.store, program.request_slots
    column = choice.of(slots)
    some = np.flatnonzero(column >= 0)
    some = some[np.argsort(slots[some])]
    slot = slots[some]
    view, place = store.executor.columns(slot, column[some])
    pointer, row, value = take_entries(view, slot, place, np.ones(store.rows.size, np.bool_))
    counts = np.zeros(slots.size, np.int64)
    counts[some] = np.diff(pointer)
    used = np.column_stack((row, value))
    begin = np.zeros(slots.size, np.int64)
    begin[some] = pointer[:-1]
    whole, width = used.tobytes(), used.itemsize * 2
    cuts = zip((width * begin).tolist(), (width * (begin + counts)).tolist(), strict=True)
    return {id: whole[first:last] for id, (first, last) in zip(program.request_ids, cuts, strict=True)}
