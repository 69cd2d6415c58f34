"""Journal: a program whose completed rounds survive the end of its process at any time.

A journal is a folder with an SQLite file (:mod:`copter.durable.program_file`). The file has a snapshot of the
program, the edits of the rounds after it, and the state of the solver at the end of the last round. Opening
the journal reads the snapshot and applies these edits again, and the solver continues from its state. The
next solution equals, in all bits, the solution of a process that never ended, unless the solver depends on
measured times.

When the edits take more bytes than the snapshot, and at least 16 MiB, a new snapshot replaces both. A round
or a snapshot is written in one transaction.
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
"""Bytes of edits from which on a new snapshot is taken, if the last snapshot is not larger."""
_FILE = "journal.sqlite"
"""Name of the file in a journal's folder."""
_LOCK = "lock"
_TAKEN = pack_edit(Edit(TAKE_STARTS))


class Journal(WrittenProgram):
    """Program in a folder: a :class:`copter.ContinualProgram` with :meth:`commit` and :meth:`solve`.

    The constructor opens the journal in the folder, or begins a new one. One process at a time can open it.

    Parameters
    ----------
    path : path-like
        Folder of the journal.
    solver : Solver, optional
        Solver whose state is saved with the rounds. The solver gets the state that was saved last, but no
        settings: make it with the same settings as before. Its state must be writable, as that of
        :class:`copter.ProximalPoint` is.
    program : ContinualProgram, optional
        Program with which a new journal begins; the journal copies it. Or an empty
        :class:`copter.ray.RayProgram`, for a new or an existing journal: its workers hold the columns of the
        journal, so the RayProgram must stay open as long as the journal.
    sense : "min" or "max", optional
        Sense of a new journal without `program`; the default is "min". An existing journal must have the same
        sense.
    terms : iterable of classes
        Your own classes of convex terms that the program uses.

    Attributes
    ----------
    round : int
        Number of completed rounds.

    Raises
    ------
    FileError
        If a file in the folder is damaged, missing, or not written by copter. The error names the file.
    CopterError
        If the journal is open already, if there is a journal already and `program` is given, or if the state
        of the solver cannot be written.
    EditError
        If an id of `program` cannot be written.

    Examples
    --------
    >>> import tempfile
    >>> from copter import Journal, ProximalPoint
    >>> folder = tempfile.TemporaryDirectory()
    >>> with Journal(folder.name, ProximalPoint()) as journal:
    ...     journal.add_resource("gpu", upper=8)
    ...     journal.add_request("job", costs=[-1.0, -1.8], usage={"gpu": [1, 2]}, total=1)
    ...     solution = journal.solve()
    >>> with Journal(folder.name, ProximalPoint()) as journal:
    ...     journal.round, journal.request_ids
    (1, ['job'])
    >>> folder.cleanup()
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
            raise CopterError(f"{path}: solver = {solver!r}: must be a solver that make_solver returns")
        if program is not None and not isinstance(program, ContinualProgram):
            raise CopterError(f"{path}: program = {program!r}: must be a ContinualProgram")
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
        taken = f"{self.path}: the journal is open already, in this or another process"
        # both finalizers are called when the journal is closed or garbage-collected
        self._unlock = weakref.finalize(self, os.close, lock_file(self.path / _LOCK, taken))
        _OPEN.add(self)
        try:
            self._file = ProgramFile(self.path / _FILE)
            self._close = weakref.finalize(self, _end, self._file, self._process)
            self._open(program)
            if sense is not None and self.sense != sense:
                why = f"must be {self.sense!r}, the sense of the journal's program"
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
        """Complete the round; its edits and the solver's state are on disk when the method returns.

        Returns
        -------
        int
            Number of the round.

        Raises
        ------
        OSError
            If the round cannot be written. Earlier rounds are safe, and the call can be repeated. If only a
            new snapshot cannot be written, the round is complete, and a warning is logged.
        ConcurrentUseError
            If another thread uses the program, or the program is being solved.
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

    def solve(self, *, time_limit: float | None = None, raise_error: bool = False) -> Solution:
        """Solve the present program with the journal's solver, and complete the round.

        Parameters
        ----------
        time_limit : float, optional
            Seconds after which the best solution so far is returned.
        raise_error : bool
            True to raise an error if the status is not optimal, after the round is complete.

        Returns
        -------
        Solution

        Raises
        ------
        CopterError
            If the journal has no solver.
        NotOptimalError
            If `raise_error` is True and the status is not optimal. The error has the solution.
        """
        self._usable()
        if self.solver is None:
            raise CopterError(f"{self.path}: the journal has no solver; open it with a solver to solve")
        solution: Solution = self.solver.solve(self, time_limit=time_limit)
        self.commit()
        if raise_error:
            check_optimal(solution)
        return solution

    def compact(self) -> None:
        """Complete the round and take a new snapshot, so that the journal opens fast.

        :meth:`commit` also takes a snapshot when the edits take more bytes than the last one, and at least 16
        MiB.

        Raises
        ------
        OSError
            If the round or the snapshot cannot be written. No completed round is lost.
        """
        with self.guard.using("compact"):
            self.commit()
            self._compact()

    def close(self) -> None:
        """Close the journal; edits since the last completed round are not in it."""
        if self._file is not None:
            self._close()  # a second call does nothing
        self._file = None
        self._unlock()  # a second call does nothing

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    # ---- implementation --------------------------------------------------------------------------

    def _write(self, edit: bytes) -> None:
        self._edits.append(edit)

    def _check_writable(self) -> None:
        self._usable()

    def take_starts(self) -> Pending:
        """Return the starts given since the last call, and record that they were taken."""
        starts = super().take_starts()
        if starts:
            self._write(_TAKEN)
        return starts

    def return_starts(self, starts: Pending) -> None:
        """Return starts to the program, and remove the record that they were taken."""
        super().return_starts(starts)
        if starts and self._edits and self._edits[-1] == _TAKEN:  # a solve allows no edit in between
            self._edits.pop()

    def _usable(self) -> ProgramFile:
        if self._process != os.getpid():
            raise CopterError(f"{self.path}: the journal belongs to the parent process, before the fork")
        if self._file is None:
            raise CopterError(f"{self.path}: the journal is closed")
        return self._file

    def _open(self, program: ContinualProgram | None) -> None:
        """Restore the state after the last completed round, or begin a new journal."""
        file = self._usable()
        if not file.begun:
            begin = self if program is None else program
            with begin.guard.using("journal"):
                last = solver_values(self.solver, begin)
                file.begin_after(pack(begin), 0, last)
        elif program is not None:
            raise CopterError(f"{self.path}: there is a journal already; open it without program=")
        self._recover(file)

    def _compact(self) -> None:
        """Replace the edits with a snapshot."""
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
            self.solver.save_state(self)  # raises an error now if the state cannot be written

    def _replay(self, number: int, edits: Iterable[bytes]) -> None:
        """Apply the edits of a round again."""
        wrong = self._usable().wrong
        try:
            for edit in edits:
                make_edit(self, read_edit(edit, self._classes))
                self._edits_size += len(edit)
        except (CopterError, ValueFormatError) as why:
            raise wrong(f"round {number} cannot be replayed: {why}") from why
        except (ValueError, TypeError, KeyError, IndexError, OverflowError, MemoryError) as why:
            raise wrong(f"round {number} cannot be replayed") from why


def _taken_over(program: ContinualProgram) -> ConstraintStore:
    """Return the store of an empty program on workers, for use by a journal."""
    if program.store.clock or program.store.rows.size:
        raise CopterError("program: must be empty to hold the columns of a journal; make a new program")
    return program.store


def _make_folder(path: Path) -> None:
    """Make a journal's folder and sync it to disk, if it does not exist."""
    there = next(each for each in (path, *path.absolute().parents) if each.exists())
    if not there.is_dir():
        raise FileError(there, "is a file; must be a folder")
    if there != path:
        path.mkdir(parents=True)
        sync_folder(path.parent)


def _end(file: ProgramFile, process: int) -> None:
    """Close a file if this process opened it."""
    if os.getpid() == process:
        file.close()
    else:  # closing it could write to the write-ahead log of the parent process
        _INHERITED.append(file)


_INHERITED: list[ProgramFile] = []
_OPEN: weakref.WeakSet[Journal] = weakref.WeakSet()


def _let_go() -> None:
    """Close the parent's journals in a forked child, so that only the parent holds their locks."""
    for journal in list(_OPEN):
        journal.close()


os.register_at_fork(after_in_child=_let_go)
