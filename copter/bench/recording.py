"""Recording of rounds as edits, so that every solver gets exactly the same rounds.

A recording is a file of edits (:mod:`copter.durable.edits`), each preceded by its length and checksum. A
length of 0 ends a round.  A replay reads one edit at a time, so its peak memory is that of the program and
the solver.  Reading a recording does not execute code from the file.

Costs in a recording are to be minimised, whatever the sense of the recorded program.  A replay into a program
of the same sense has the figures of that program.
"""

from __future__ import annotations

import importlib
import math
import struct
import zlib
from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, BinaryIO, ClassVar, Self

import numpy as np

from copter.bench.course import Course, Figure, Play, solve_round
from copter.bench.settings import Record
from copter.durable.edits import WrittenProgram, make_edit, read_edit
from copter.durable.values import ValueFormatError
from copter.errors import FileError, UnplacedError
from copter.program.program import ContinualProgram
from copter.program.sense import Sense
from copter.proof.whole import integrality_loss
from copter.store.edit import Edit
from copter.store.view import take_entries

if TYPE_CHECKING:
    from copter.bench.result_files import SolverResult
    from copter.bench.settings import SolverSettings
    from copter.shims.choose_one import Choice
    from copter.solution import Solution
    from copter.solvers.base import Solver

_MAGIC = b"\x89COPREC\n"
_FRAME = struct.Struct("<QI")
_END = _FRAME.pack(0, 0)
INTEGRAL_CHURN = Figure("integral_churn", "integral churn", "mean", ".1%")


class Recorder:
    """Writer of the edits of a :class:`RecordingProgram` to a file, which is overwritten, round by round."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.rounds = 0
        self._file: BinaryIO = path.open("wb")
        self._file.write(_MAGIC)

    def write(self, edit: bytes) -> None:
        """Append one edit to the present round."""
        self._file.write(_FRAME.pack(len(edit), zlib.crc32(edit)) + edit)

    def end_round(self) -> None:
        """End the present round; the program was solved here."""
        self._file.write(_END)
        self.rounds += 1

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self._file.close()


class RecordingProgram(WrittenProgram):
    """A program that also writes every edit to a recorder."""

    def __init__(self, recorder: Recorder, *, sense: Sense = "min") -> None:
        super().__init__(sense=sense)
        self._recorder = recorder

    def _write(self, edit: bytes) -> None:
        self._recorder.write(edit)


def read_rounds(path: Path, rounds: int | None = None) -> Iterator[Iterator[Edit]]:
    """Yield the first `rounds` rounds of a recording, each as an iterator over its edits.

    A round must be exhausted before the next one. Raise FileError if the file is damaged, ends within a
    round, or is not a recording.
    """
    with path.open("rb") as file:
        if file.read(len(_MAGIC)) != _MAGIC:
            raise FileError(path, "must be a recording of copter")
        left = path.stat().st_size - len(_MAGIC)
        done = 0
        while left and (rounds is None or done < rounds):
            edits = _Edits(path, file, left)
            yield iter(edits)
            left, done = edits.left, done + 1


class _Edits:
    """Edits of a file up to the end of the round, and the number of bytes that remain."""

    def __init__(self, path: Path, file: BinaryIO, left: int) -> None:
        self.path, self.file, self.left = path, file, left

    def __iter__(self) -> Iterator[Edit]:
        while (frame := self._read(_FRAME.size)) != _END:
            length, check = _FRAME.unpack(frame)
            content = self._read(length)
            if zlib.crc32(content) != check:
                raise FileError(self.path, "is damaged: an edit has a wrong checksum")
            try:
                yield read_edit(content)
            except ValueFormatError as wrong:
                raise FileError(self.path, f"contains an edit that cannot be read: {wrong}") from None

    def _read(self, length: int) -> bytes:
        if length > self.left:
            raise FileError(self.path, "ends within a round")
        self.left -= length
        return self.file.read(length)


class Replayer:
    """Applier of recorded edits to an empty program, by default one in this process."""

    def __init__(self, program: ContinualProgram | None = None) -> None:
        self.program = ContinualProgram() if program is None else program

    def apply(self, edit: Edit) -> None:
        """Apply one edit."""
        make_edit(self.program, edit)


@dataclass(frozen=True)
class Recorded(Course):
    """Recorded rounds to measure.

    `warm_up`: small recording of the same kind that is played first, untimed. `shim`: ``module:name`` of a
    class without arguments whose ``round(program, solution)`` returns a
    :class:`copter.shims.choose_one.Rounded`.
    """

    figures: ClassVar[Sequence[Figure]] = (INTEGRAL_CHURN,)
    rounds: Path
    warm_up: Path
    shim: str

    def small(self) -> Recorded:
        """Return the recording of the warm-up."""
        return replace(self, rounds=self.warm_up)

    def play(self, settings: SolverSettings) -> Play:
        """Replay the recording through a solver."""
        solver, replayer = settings.make(), Replayer(settings.program())
        return Play(self._records(solver, replayer), solver.stopping(), replayer.program)

    def _records(self, solver: Solver, replayer: Replayer) -> Iterator[Record]:
        module, _, name = self.shim.partition(":")
        shim, churn = getattr(importlib.import_module(module), name)(), IntegralChurn()
        choices = []

        def finish(solution: Solution) -> Record:
            if not solution.found:
                return {}
            try:
                rounded = shim.round(replayer.program, solution)
            except UnplacedError as error:  # objective and gap are infinite
                rounded = error.rounded
            choices.append(rounded.choice)
            return {
                "answer_objective": rounded.objective,
                "answer_gap": rounded.gap,
                "integrality_loss": integrality_loss(rounded.objective, solution.bound),
            }

        for number, edits in enumerate(read_rounds(self.rounds)):
            store_seconds = 0.0
            for edit in edits:
                begin = perf_counter()
                replayer.apply(edit)
                store_seconds += perf_counter() - begin
            record = solve_round(number, replayer.program, solver, store_seconds, finish)
            # outside the measured time
            moved = churn.measure(replayer.program, choices.pop()) if choices else math.nan
            yield record | {"integral_churn": moved}


@dataclass(frozen=True)
class ProvenRounds(Recorded):
    """A recording whose allocations are to be proven optimal, with figures about the proofs.

    The objectives of all solvers in a round are compared: if a proof is correct, none is below it.
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

    A request that is in both rounds changed if its usage of the resources changed, entry by entry. The number
    of the chosen column is not sufficient: another column may have the same usage (a pinned job has one
    column instead of many), and if a request's columns were replaced, the same number may have another usage.
    """

    def __init__(self) -> None:
        self._last: dict[Hashable, bytes] = {}

    def measure(self, program: ContinualProgram, choice: Choice) -> float:
        """Return the share of the requests in both rounds that changed; NaN if there are none.

        `program`: in the state in which it was rounded. `choice`: column of each request.
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
