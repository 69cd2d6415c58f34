"""Snapshots: a program and the state of a solver as named values.

A snapshot has the arrays of the store as they are in memory (``store.arrays()``), including free slots, free
slices and the revision. So the program that is read equals the written program in every slot. Its next
solutions are equal, too, unless the solver depends on measured times.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from copter.durable.files import write_whole
from copter.durable.program_file import ProgramFile
from copter.durable.soundness import Unsound, check_program, check_store
from copter.durable.values import plain_ids, term_classes, term_name
from copter.errors import EditError, FileError
from copter.program.handles import SharedColumns
from copter.program.index import Index
from copter.program.names import sound_labels
from copter.program.sense import Sense
from copter.store.edit import ColumnNames, Moved
from copter.store.executor import Part
from copter.store.local import LocalStore
from copter.store.term_table import TermKind
from copter.terms.convex import ConvexTerm

if TYPE_CHECKING:
    from os import PathLike

    from copter.durable.state import Remembers
    from copter.program.program import ContinualProgram
    from copter.store.store import ConstraintStore

_Classes = dict[str, type[ConvexTerm]]


def save(program: ContinualProgram, path: str | PathLike[str], solver: Remembers | None = None) -> None:
    """Write a program and a solver's state to a file atomically, for :meth:`copter.ContinualProgram.save`.

    Raise OSError if the file cannot be written.
    """
    last = solver_values(solver, program)

    def write(file: Any) -> None:
        written = ProgramFile(Path(file.name))
        try:
            # The temporary file is synced and renamed after it is complete, so SQLite need not do it.
            written.database.execute("PRAGMA journal_mode = OFF")
            written.database.execute("PRAGMA synchronous = OFF")
            written.begin_after(pack(program), 0, last)
        finally:
            written.close()

    write_whole(Path(path), write)


def load(
    path: str | PathLike[str],
    program: ContinualProgram,
    solver: Remembers | None = None,
    terms: Iterable[type[ConvexTerm]] = (),
) -> None:
    """Read a snapshot into an empty program and a solver, for :meth:`copter.ContinualProgram.load`.

    `terms` are classes of terms other than copter's. Raise FileError if the file is not a snapshot, is
    damaged, or has no state that fits the solver.
    """
    file = ProgramFile(Path(path), read_only=True)
    try:
        unpack(file, program, term_classes(terms))
        if solver is not None:
            last = file.facts("last")
            if last.get("solver") is None:
                raise file.wrong("was saved without a solver; there is no state to load")
            restore_solver(solver, program, last, file)
    finally:
        file.close()


# ---- programs ----------------------------------------------------------------------------------------


def pack(program: ContinualProgram) -> Iterator[tuple[str, Any]]:
    """Iterate over the named values of a program.

    Raise EditError if an id is of a type that cannot be written, or two classes of terms have the same name.
    """
    for index in (program._requests, program._resources):
        yield f"{index.kind}s", (plain_ids(index.ids), index.all_slots)
    handles = program.shared_columns
    fields = [(one.slot, one.n_columns, one.generation, one.key) for one in handles]
    yield "shared columns", np.array(fields, np.int64)
    yield "names of shared columns", [one.names for one in handles]
    yield "starts", program._starts
    yield "sense", program.sense
    slots, labels = program._names.saved()
    if labels is not None:
        plain_ids(chain(*labels.distinct), "columns")
    yield "names of columns", (slots, labels)
    store = program.store
    # parts are fetched, so that this process has all columns while they are written
    parts = [] if store.executor.local else store.executor.map(store_of)
    yield "parts", len(parts)
    yield from _pack_store("store", store)
    for number, part in enumerate(parts):
        yield from _pack_store(f"part {number}", part)


def _pack_store(name: str, store: ConstraintStore) -> Iterator[tuple[str, Any]]:
    kinds = [(term_name(kind.type), list(kind.names)) for kind in store.terms.kinds]
    types: _Classes = {}
    for (called, _), kind in zip(kinds, store.terms.kinds, strict=True):
        if types.setdefault(called, kind.type) is not kind.type:
            raise EditError("save", "term", called, "is the name of several classes of terms")
    arrays = store.arrays()
    yield name, {"kinds": kinds, "arrays": list(arrays)}
    for key, array in arrays.items():
        yield f"{name}.{key}", array


def store_of(part: Part) -> Any:
    """Return the store of a part; it is the task that fetches parts."""
    return part.store


def unpack(file: ProgramFile, program: ContinualProgram, classes: _Classes) -> None:
    """Fill an empty program from the values in a file; `classes` are the classes of terms by name.

    Raise FileError if the values are inconsistent or a class of terms is unknown. After an error, the program
    must not be used.
    """
    store = program.store
    _check_parts(store, file)
    try:
        for index in (program._requests, program._resources):
            _read_ids(index, *file.get(f"{index.kind}s"))
        handles, named = file.get("shared columns").reshape(-1, 4), file.get("names of shared columns")
        for (slot, n, generation, key), names in zip(handles.tolist(), named, strict=True):
            program._templates[slot] = SharedColumns(slot, n, generation, key, names)
        starts = file.get("starts").items()
        program._starts |= {slot: Moved(*one) if type(one[0]) is int else one for slot, one in starts}
        program._sense = _read_sense(file.get("sense"))
        _unpack_store("store", store, file, classes)
        if isinstance(store, LocalStore):
            check_store(store)
        else:
            _unpack_parts(store, file, classes)
        slots, labels = file.get("names of columns")
        if labels is not None:
            labels = ColumnNames(*labels)
            if not sound_labels(labels, store.requests.n_columns[slots]):
                raise Unsound("names of columns")
            program._names.put(slots, labels)
        check_program(program)
    except Unsound as wrong:
        raise file.wrong(f"is inconsistent: {wrong}") from None
    except (ValueError, IndexError, OverflowError, KeyError, TypeError, AttributeError) as wrong:
        if isinstance(wrong, FileError):
            raise
        raise file.wrong(f"is inconsistent: its values do not fit together ({wrong})") from wrong


def _read_sense(sense: Any) -> Sense:
    if sense not in ("min", "max"):
        raise Unsound("sense")
    return cast(Sense, sense)


def _read_ids(index: Index, ids: list[Hashable], slots: Any) -> None:
    if len(ids) != slots.size or len(set(ids)) != len(ids):
        raise Unsound(f"ids of {index.kind}s")
    index.add(ids, slots.tolist())


def _unpack_store(name: str, store: ConstraintStore, file: ProgramFile, classes: _Classes) -> None:
    described = file.get(name)
    for kind, names in described["kinds"]:
        if kind not in classes:
            raise file.wrong(f"has terms of the class {kind}; give this class in `terms`")
        if not all(isinstance(each, str) for each in names):
            raise Unsound("classes of terms")
        store.terms.kinds.append(TermKind(classes[kind], tuple(names)))
    store.set_arrays({key: file.get(f"{name}.{key}") for key in described["arrays"]})


def _check_parts(store: ConstraintStore, file: ProgramFile) -> None:
    """Raise a FileError unless a file has as many parts as the store that it fills."""
    found, wanted = file.get("parts"), len(store.executor.blank_parts())
    if found != wanted:
        saved, given = (
            f"a program in {parts} parts" if parts else "a program of one process"
            for parts in (found, wanted)
        )
        raise file.wrong(f"has {saved}, and cannot be read into {given}; give a program of the same kind")


def _unpack_parts(store: ConstraintStore, file: ProgramFile, classes: _Classes) -> None:
    stores = store.executor.blank_parts()
    for number, part in enumerate(stores):
        _unpack_store(f"part {number}", part, file, classes)
        check_store(part)
    if sum(part.n_variables for part in stores) != store.n_variables:
        raise Unsound("columns of the parts")
    store.executor.restore_parts(stores)


# ---- solvers -----------------------------------------------------------------------------------------


def solver_values(solver: Remembers | None, program: ContinualProgram) -> dict[str, Any]:
    """Return the kind and the state of a solver for a program; an empty dictionary without a solver."""
    return {} if solver is None else {"solver": solver.kind, "state": solver.save_state(program)}


def restore_solver(
    solver: Remembers, program: ContinualProgram, last: dict[str, Any], file: ProgramFile
) -> None:
    """Load the state in `last`, from :func:`solver_values` of the saved solver, into a solver.

    Raise FileError, which names `file`, if the solver is of another kind or the state does not fit it.
    """
    if last["solver"] != solver.kind:
        raise file.wrong(f"has the state of a solver of the kind {last['solver']}, not {solver.kind}")
    try:
        solver.load_state(program, last["state"])
    except (ValueError, KeyError, TypeError, IndexError, AttributeError) as wrong:
        raise file.wrong(f"has a state that does not fit the solver {solver.name!r}: {wrong}") from None
