"""Journal: a program whose completed rounds survive the end of its process, at any moment.

A folder holds an SQLite file (:mod:`copter.durable.program_file`) with a snapshot of the program, the edits
of the rounds since then, and what the solver kept at the end of the last one.  The program as it is after the
last completed round is the snapshot with these edits made again, and the solver goes on from the state that
was written: the next answer is, bit by bit, that of a process that never ended.

When the edits take more room than the snapshot, a new snapshot takes the place of both.  A round, and a
snapshot, is one transaction: whole, or not there.
"""

from __future__ import annotations

import logging
import os
import weakref
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Self

from copter.durable.edits import WrittenProgram, make_edit, pack_edit, read_edit
from copter.durable.files import lock_file, sync_folder
from copter.durable.program_file import ProgramFile
from copter.durable.snapshot import pack, restore_solver, solver_values, unpack
from copter.durable.values import ValueFormatError, term_classes
from copter.errors import CopterError, FileError
from copter.program.program import ContinualProgram
from copter.program.sense import Sense
from copter.solution import Solution, check_optimal
from copter.store.edit import TAKE_STARTS, Edit

if TYPE_CHECKING:
    from os import PathLike

    from copter.durable.state import Remembers
    from copter.store.edit import Pending
    from copter.store.store import ConstraintStore
    from copter.terms.convex import ConvexTerm

log = logging.getLogger("copter")

COMPACT_FROM = 1 << 24
"""Bytes of edits from which on a new snapshot is taken, or as many as the last snapshot has."""
_FILE = "journal.sqlite"
"""Name of the file in a journal's folder."""
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
    sense : "min" or "max", optional
        Sense of the program if this begins a journal without a `program`; "min" if it is not given. A
        journal that is there already must have the same sense.
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
        sense: Sense | None = None,
        terms: Iterable[type[ConvexTerm]] = (),
    ) -> None:
        given = program.sense if isinstance(program, ContinualProgram) else "min"
        super().__init__(sense=given if sense is None else sense)
        if solver is not None and not hasattr(solver, "save_state"):
            raise CopterError(f"{path}: solver = {solver!r} is no solver: give one that make_solver returns")
        if program is not None and not isinstance(program, ContinualProgram):
            raise CopterError(f"{path}: program = {program!r} is no ContinualProgram")
        if program is not None and not program.store.executor.local:
            self.store, program = _taken_over(program), None
        self.path = Path(path)
        self.solver = solver
        self._classes = term_classes(terms)
        self._edits: list[bytes] = []
        self._round = self._base = self._snapshot_size = self._edits_size = 0
        self._process = os.getpid()
        self._file: ProgramFile | None = None
        _make_folder(self.path)
        taken = f"{self.path}: the journal is open already, here or in another process"
        # both are called when the journal is closed, or dropped
        self._unlock = weakref.finalize(self, os.close, lock_file(self.path / _LOCK, taken))
        _OPEN.add(self)
        try:
            self._file = ProgramFile(self.path / _FILE)
            self._close = weakref.finalize(self, _end, self._file, self._process)
            self._open(program)
            if sense is not None and self.sense != sense:
                why = f"must be {self.sense!r}, that of the journal's program"
                raise CopterError(f"{self.path}: sense = {sense!r}: {why}")
        except BaseException:
            self.close()
            raise

    # ---- rounds ----------------------------------------------------------------------------------

    @property
    def round(self) -> int:
        """Number of completed rounds."""
        self._usable()
        return self._round

    def commit(self) -> int:
        """Complete the round: its edits, and the solver's state, are on disk when this returns.

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
            file, last = self._usable(), solver_values(self.solver, self)
            number = self._round + 1
            file.add_round(number, self._edits, last)
            self._edits_size += sum(map(len, self._edits))
            self._edits, self._round = [], number
            if self._edits_size > max(COMPACT_FROM, self._snapshot_size):
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
            The round or the snapshot could not be written; no completed round is lost.
        """
        with self.guard.using("compact"):
            self.commit()
            self._compact()

    def close(self) -> None:
        """Close the journal; edits since the last completed round are not in it."""
        if self._file is not None:
            self._close()  # once
        self._file = None
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

    def take_starts(self) -> Pending:
        """Return starts given since the last call; see :meth:`copter.ContinualProgram.take_starts`."""
        starts = super().take_starts()
        if starts:
            self._write(_TAKEN)
        return starts

    def return_starts(self, starts: Pending) -> None:
        """Give starts back; see :meth:`copter.ContinualProgram.return_starts`."""
        super().return_starts(starts)
        if starts and self._edits and self._edits[-1] == _TAKEN:  # no edit comes between, in a solve
            self._edits.pop()

    def _usable(self) -> ProgramFile:
        if self._process != os.getpid():
            raise CopterError(f"{self.path}: the journal belongs to the process that forked this one")
        if self._file is None:
            raise CopterError(f"{self.path}: the journal is closed")
        return self._file

    def _open(self, program: ContinualProgram | None) -> None:
        """Come to the state after the last completed round, or begin."""
        file = self._usable()
        if not file.begun:
            begin = self if program is None else program
            with begin.guard.using("journal"):
                last = solver_values(self.solver, begin)
                file.begin_after(pack(begin), 0, last)
        elif program is not None:
            raise CopterError(f"{self.path}: there is a journal already, which has a program of its own")
        self._recover(file)

    def _compact(self) -> None:
        """Put a snapshot in the place of the edits."""
        if self._round == self._base:
            return
        file, last = self._usable(), solver_values(self.solver, self)
        self._snapshot_size = file.begin_after(pack(self), self._round, last)
        self._base, self._edits_size = self._round, 0

    def _recover(self, file: ProgramFile) -> None:
        unpack(file, self, self._classes)
        snapshot, last = file.facts("snapshot"), file.facts("last")
        self._base, self._snapshot_size = snapshot["round"], int(snapshot.get("size", 0))
        for number, edits in file.rounds(self._base, last["round"]):
            self._replay(number, edits)
        self._round = last["round"]
        if self.solver is None:
            return
        if "solver" in last:
            restore_solver(self.solver, self, last, file)
        else:
            self.solver.reset()
            self.solver.save_state(self)  # one that cannot be written says so now

    def _replay(self, number: int, edits: list[bytes]) -> None:
        """Make the edits of a round again."""
        wrong = self._usable().wrong
        try:
            for edit in edits:
                make_edit(self, read_edit(edit, self._classes))
                self._edits_size += len(edit)
        except (CopterError, ValueFormatError) as why:
            raise wrong(f"round {number} cannot be made again: {why}") from why
        except (ValueError, TypeError, KeyError, IndexError, OverflowError, MemoryError) as why:
            raise wrong(f"round {number} cannot be made again") from why


def _taken_over(program: ContinualProgram) -> ConstraintStore:
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


def _end(file: ProgramFile, process: int) -> None:
    """Close a file in the process that opened it."""
    if os.getpid() == process:
        file.close()
    else:  # closing it could write to the write-ahead log, which is the parent's
        _INHERITED.append(file)


_INHERITED: list[ProgramFile] = []
_OPEN: weakref.WeakSet[Journal] = weakref.WeakSet()


def _let_go() -> None:
    """In the child of a fork: let go of what the parent has open, so that the lock is the parent's alone."""
    for journal in list(_OPEN):
        journal.close()


os.register_at_fork(after_in_child=_let_go)
