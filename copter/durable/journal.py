"""Journal: a program whose completed rounds survive the end of its process, at any moment.

A folder holds a snapshot of the program and a file of the rounds since then, each with its edits and with
what the solver remembered at its end.  The program as it is after the last completed round is the snapshot
with these edits made again, and the solver goes on from the state that was written: the next answer is, bit
by bit, that of a process that never ended.

When the rounds take more room than the snapshot, a new snapshot is taken and the file begins again.  The file
for the new rounds is there first, then the snapshot: the latest snapshot always has its file, and what an
interruption leaves besides is removed when the journal is opened.
"""

from __future__ import annotations

import logging
import os
import re
import secrets
import weakref
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from copter.durable.blocks import Blocks
from copter.durable.codec import CodecError, decode, encode, term_classes
from copter.durable.edits import WrittenProgram, make_edit, pack_edit, read_edit
from copter.durable.files import TEMPORARY, lock_file, sync_folder
from copter.durable.records import UNIT, Record, RecordFile, create_records
from copter.durable.snapshot import MAGIC, pack, pack_solver, restore_solver, solver_state, unpack
from copter.errors import CopterError, FileError
from copter.program.program import ContinualProgram
from copter.program.spread import SpreadProgram
from copter.solution import Solution, check_optimal
from copter.store.edit import TAKE_STARTS, Edit

if TYPE_CHECKING:
    from os import PathLike

    from copter.durable.state import Remembers
    from copter.store.edit import Starts
    from copter.store.spread import SpreadStore
    from copter.terms.convex import ConvexTerm

log = logging.getLogger("copter")

COMPACT_FROM = 1 << 24
"""Bytes of rounds from which on a new snapshot is taken, or as many as the last snapshot has."""
_NAME = re.compile(r"(snapshot|rounds)-(\d{12})\.copter")
_LOCK = "lock"
_TAKEN = pack_edit(Edit(TAKE_STARTS))


class Journal(WrittenProgram):
    """A program in a folder: a :class:`copter.ContinualProgram` with the same verbs, and :meth:`commit`.

    Opens the journal in the folder, or begins one.  Only one process at a time has it open.

    Parameters
    ----------
    path : path-like
        The folder.
    solver : Solver, optional
        Whose state belongs to the rounds; it is given the state that was written last (and no settings: make
        it with the same as before).  One that can be saved: :class:`copter.ProximalPoint`.
    program : ContinualProgram, optional
        What to begin with, if there is no journal yet; it is left alone.  Or an empty one that keeps its
        columns elsewhere, :class:`copter.ray.RayProgram`, whether there is a journal or not: its places hold
        the journal's columns, and it must be as long there as the journal.
    terms : iterable of classes
        Classes of convex terms of your own that the program uses.

    Attributes
    ----------
    round : int
        Completed rounds.

    Raises
    ------
    FileError
        Something in the folder is damaged, missing, or none of copter's; names the file.
    CopterError
        The journal is open elsewhere; there is one already, and a program to begin with; the solver has a
        state that cannot be written.
    EditError
        An id of the program to begin with cannot be written.

    Examples
    --------
    >>> import tempfile
    >>> from copter import Journal, ProximalPoint
    >>> folder = tempfile.mkdtemp()
    >>> with Journal(folder, ProximalPoint()) as journal:
    ...     journal.add_resource("gpu", upper=8)
    ...     journal.add_request("job", costs=[-1.0, -1.8], usage={"gpu": [1, 2]}, total=1)
    ...     solution = journal.solve()
    >>> with Journal(folder, ProximalPoint()) as journal:
    ...     journal.round, journal.request_ids
    (1, ['job'])
    """

    def __init__(
        self,
        path: str | PathLike[str],
        solver: Remembers | None = None,
        *,
        program: ContinualProgram | None = None,
        terms: Iterable[type[ConvexTerm]] = (),
    ) -> None:
        super().__init__()
        if solver is not None and not hasattr(solver, "save_state"):
            raise CopterError(f"{path}: solver = {solver!r} is no solver: give one that make_solver returns")
        if program is not None and not isinstance(program, ContinualProgram):
            raise CopterError(f"{path}: program = {program!r} is no ContinualProgram")
        if isinstance(program, SpreadProgram):
            self.store, program = _taken_over(program), None
        self.path = Path(path)
        self.solver = solver
        self._terms = tuple(terms)
        self._edits: list[bytes] = []
        self._base = self._key = self._snapshot_size = 0
        self._state = "closed"
        self._process = os.getpid()
        self._rounds: RecordFile | None = None
        _make_folder(self.path)
        taken = f"{self.path}: the journal is open already, here or in another process"
        self._unlock = weakref.finalize(
            self, os.close, lock_file(self.path / _LOCK, taken)
        )  # if dropped, too
        _OPEN.add(self)
        try:
            self._open(program)
        except BaseException:
            self.close()
            raise

    # ---- rounds ----------------------------------------------------------------------------------

    @property
    def round(self) -> int:
        """Number of completed rounds."""
        return self._usable().round

    def commit(self) -> int:
        """Complete the round: its edits, and what the solver remembers now, are on disk when this returns.

        Returns
        -------
        int
            The number of the round.

        Raises
        ------
        OSError
            It could not be written: the rounds before are safe, and it can be tried again.  If only a new
            snapshot could not, the round is complete, and a warning is logged.
        ConcurrentUseError
            Another thread uses the program, or it is being solved.
        """
        with self.guard.using("commit"):
            rounds = self._usable()
            kind = None if self.solver is None else self.solver.kind
            state = None if self.solver is None else self.solver.save_state(self)
            rounds.append(encode((kind, state, self._edits)))
            self._edits = []
            number = rounds.round
            if rounds.end > max(COMPACT_FROM, self._snapshot_size):
                try:
                    self._compact()
                except OSError as wrong:  # the round is complete; a later one tries again
                    log.warning("%s: no snapshot was taken after round %d: %s", self.path, number, wrong)
            return number

    def solve(self, *, deadline: float | None = None, raise_error: bool = False) -> Solution:
        """Solve the program as it is now with the journal's solver, and complete the round.

        Parameters
        ----------
        deadline : float, optional
            Seconds after which the best answer so far is returned.
        raise_error : bool
            Whether any other status than optimal is an error, once the round is complete.

        Raises
        ------
        CopterError
            The journal has no solver.
        NotOptimalError
            With ``raise_error``: the answer is not optimal; the error has it.
        """
        self._usable()
        if self.solver is None:
            raise CopterError(f"{self.path}: a journal without a solver cannot solve")
        solution: Solution = self.solver.solve(self, deadline=deadline)
        self.commit()
        if raise_error:
            check_optimal(solution)
        return solution

    def compact(self) -> None:
        """Complete the round and take a new snapshot, so that the journal opens quickly.

        It is also taken by itself, now and then, at the end of a round.

        Raises
        ------
        OSError
            The round or the snapshot could not be written; no completed round is lost.  If half a snapshot
            could not be removed either, the journal is closed.
        """
        with self.guard.using("compact"):
            self.commit()
            self._compact()

    def close(self) -> None:
        """Close the journal; edits since the last completed round are not in it."""
        if self._rounds is not None:
            self._rounds.close()
        self._rounds = None
        self._unlock()  # once

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    # ---- inside ----------------------------------------------------------------------------------

    def _write(self, edit: bytes) -> None:
        self._edits.append(edit)

    def _check_writable(self) -> None:
        self._usable()

    def take_starts(self) -> Starts:
        """Starts given since the last call; see :meth:`copter.ContinualProgram.take_starts`.

        Returns
        -------
        dict
            (columns, values) by request slot.
        """
        starts = super().take_starts()
        if starts:
            self._write(_TAKEN)
        return starts

    def return_starts(self, starts: Starts) -> None:
        """Give starts back; see :meth:`copter.ContinualProgram.return_starts`.

        Parameters
        ----------
        starts : dict
            What :meth:`take_starts` returned.
        """
        super().return_starts(starts)
        if starts and self._edits and self._edits[-1] == _TAKEN:  # no edit comes between, in a solve
            self._edits.pop()

    def _usable(self) -> RecordFile:
        if self._process != os.getpid():
            raise CopterError(f"{self.path}: the journal belongs to the process that forked this one")
        if self._rounds is None:
            raise CopterError(f"{self.path}: the journal is {self._state}")
        return self._rounds

    def _open(self, program: ContinualProgram | None) -> None:
        """Come to the state after the last completed round, from the files that are there."""
        snapshots, files = self._found("snapshot"), self._found("rounds")
        if not snapshots:
            self._begin(program, files)
        elif program is not None:
            raise CopterError(f"{self.path}: there is a journal already, which has a program of its own")
        base = max(snapshots, default=0)
        for number in files:
            if number > base and self._file("rounds", number).stat().st_size > UNIT:
                raise FileError(self._file("snapshot", number), "is missing: rounds follow it")
        self._recover(base)
        self._tidy(base)

    def _begin(self, program: ContinualProgram | None, files: set[int]) -> None:
        if any(number or self._file("rounds", number).stat().st_size > UNIT for number in files):
            raise FileError(self.path, "has rounds, but the snapshot that they follow is missing")
        self._key = secrets.randbits(62)
        begin = self if program is None else program
        with begin.guard.using("journal"):
            self._snapshot(begin, 0)

    def _snapshot(self, program: ContinualProgram, round: int) -> None:
        """Write the file of the rounds after ``round``, then the snapshot, which makes it count."""
        blocks = Blocks()
        pack(program, blocks)
        if self.solver is not None:
            pack_solver(self.solver, program, blocks)
        blocks.facts |= {"round": round, "key": self._key}
        create_records(self._file("rounds", round), self._key, round)
        blocks.write(self._file("snapshot", round), MAGIC)

    def _compact(self) -> None:
        old, number = self._usable(), self._usable().round
        if number == self._base:
            return
        try:
            self._snapshot(self, number)
            fresh = RecordFile(self._file("rounds", number), self._key, number)
            size = self._file("snapshot", number).stat().st_size
        except BaseException:
            self._take_back(number)
            raise
        self._rounds, self._snapshot_size, self._base = fresh, size, number
        old.close()
        self._tidy(number)

    def _take_back(self, number: int) -> None:
        """Remove a snapshot that may be in place, durably: when opened, it would hide the rounds to come."""
        try:
            self._file("snapshot", number).unlink(missing_ok=True)
            sync_folder(self.path)
            self._file("rounds", number).unlink(missing_ok=True)
        except BaseException:
            self.close()
            self._state = "closed, as a snapshot was neither completed nor taken back: open it again"
            raise

    def _recover(self, base: int) -> None:
        path = self._file("snapshot", base)
        blocks = Blocks.read(path, MAGIC, "snapshot of a program")
        unpack(blocks, self, self._terms)
        self._key = blocks.fact("key", int)
        if blocks.fact("round", int) != base:
            raise blocks.wrong("has the name of another round's")
        self._base, self._snapshot_size = base, path.stat().st_size
        try:
            self._rounds = RecordFile(self._file("rounds", base), self._key, base)
        except FileNotFoundError:
            raise FileError(
                self._file("rounds", base), "is missing: it has the rounds of a snapshot"
            ) from None
        kind, state = solver_state(blocks)
        classes = term_classes(self._terms)
        for record in self._rounds.records():
            kind, state = self._replay(record, classes)
            path = self._rounds.path
        if self.solver is None:
            return
        if kind is None:
            self.solver.reset()
            self.solver.save_state(self)  # one that cannot be written says so now
        else:
            restore_solver(self.solver, self, kind, state, path)

    def _replay(self, record: Record, classes: dict[str, type[ConvexTerm]]) -> tuple[str | None, Any]:
        """Make the edits of a round again; what the solver remembered at its end."""
        assert self._rounds is not None
        path = self._rounds.path
        try:
            kind, state, edits = decode(record.content)
            for edit in edits:
                make_edit(self, read_edit(edit, classes))
        except (CopterError, CodecError) as wrong:
            raise FileError(path, f"round {record.round} cannot be made again: {wrong}") from wrong
        except (ValueError, TypeError, KeyError, IndexError, OverflowError, MemoryError) as wrong:
            raise FileError(path, f"round {record.round} cannot be made again") from wrong
        return kind, state

    def _file(self, what: str, number: int) -> Path:
        return self.path / f"{what}-{number:012d}.copter"

    def _found(self, what: str) -> set[int]:
        """Numbers of the files of a kind in the folder."""
        names = [_NAME.fullmatch(file.name) for file in self.path.iterdir()]
        return {int(name[2]) for name in names if name is not None and name[1] == what}

    def _tidy(self, base: int) -> None:
        """Remove the files of other snapshots, and what was being written when a process ended."""
        for what in ("snapshot", "rounds"):
            for number in self._found(what) - {base}:
                self._file(what, number).unlink(missing_ok=True)
        for file in self.path.glob(f".*{TEMPORARY}"):
            file.unlink(missing_ok=True)


def _taken_over(program: SpreadProgram) -> SpreadStore:
    """The store of a program that lends its places to a journal."""
    if program.store.clock or program.store.rows.size:
        raise CopterError("a program that holds a journal's columns must be empty: make a new one")
    return program.store


def _make_folder(path: Path) -> None:
    """Make a journal's folder, durably, if it is not there."""
    there = next(each for each in (path, *path.absolute().parents) if each.exists())
    if not there.is_dir():
        raise FileError(there, "is a file; a journal is a folder")
    if there != path:
        path.mkdir(parents=True)
        sync_folder(path.parent)


_OPEN: weakref.WeakSet[Journal] = weakref.WeakSet()


def _let_go() -> None:
    """In the child of a fork: close what the parent has open, so that the lock is the parent's alone."""
    for journal in list(_OPEN):
        journal.close()


os.register_at_fork(after_in_child=_let_go)
