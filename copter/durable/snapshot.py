"""Snapshots: a program, and what a solver remembers of it, in one file.

The file has the store's pools and tables as they lie in memory (:mod:`copter.durable.blocks` is the format),
free slots and slices and the clock included: the program that is read is the one that was written, in every
slot, and so are its next answers.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from copter.durable.blocks import Blocks
from copter.durable.codec import CodecError, decode, encode, id_value, term_classes
from copter.durable.parts import check_parts, pack_parts, unpack_parts
from copter.durable.soundness import Unsound, check_program, check_store
from copter.durable.stores import pack_store, unpack_store
from copter.errors import EditError, FileError
from copter.program.index import Index
from copter.store.spread import SpreadStore
from copter.terms.convex import ConvexTerm

if TYPE_CHECKING:
    from os import PathLike

    from copter.durable.state import Remembers
    from copter.program.handles import Handles
    from copter.program.program import ContinualProgram

MAGIC = b"\x89COPTER\n"


def save(program: ContinualProgram, path: str | PathLike[str], solver: Remembers | None = None) -> None:
    """Write a program to a file, whole or not at all; see :meth:`copter.ContinualProgram.save`.

    Parameters
    ----------
    solver : Remembers, optional
        Whose state goes into the file too.
    """
    blocks = Blocks()
    pack(program, blocks)
    if solver is not None:
        pack_solver(solver, program, blocks)
    blocks.write(Path(path), MAGIC)


def load(
    path: str | PathLike[str],
    program: ContinualProgram,
    solver: Remembers | None = None,
    terms: Iterable[type[ConvexTerm]] = (),
) -> None:
    """Read a snapshot into an empty program; see :meth:`copter.ContinualProgram.load`.

    Parameters
    ----------
    program : ContinualProgram
        Empty.
    solver : Remembers, optional
        Gets the state that the file has.
    terms : iterable of type
        Classes of terms other than copter's.

    Raises
    ------
    FileError
        It is no snapshot, is damaged, or has no state that fits the solver.
    """
    blocks = Blocks.read(Path(path), MAGIC, "snapshot of a program")
    unpack(blocks, program, terms)
    if solver is None:
        return
    kind, state = solver_state(blocks)
    if kind is None:
        raise FileError(path, "was saved without a solver: there is no state to load")
    restore_solver(solver, program, kind, state, path)


# ---- programs ----------------------------------------------------------------------------------------


def pack(program: ContinualProgram, blocks: Blocks) -> None:
    """Add a program to a file's blocks.

    Parameters
    ----------
    blocks : Blocks
        Of the file; changed in place.

    Raises
    ------
    EditError
        An id is of a type that cannot be written, or two classes of terms have the same name.
    """
    store = program.store
    for index in (program._requests, program._resources):
        _pack_index(index, blocks)
    pack_store(store, blocks)
    if isinstance(store, SpreadStore):
        pack_parts(store, blocks)
    for name, handles in _handles(program):
        fields = [(each.slot, each.n_columns, each.birth, each.key) for each in handles.values()]
        blocks.put(name, np.array(fields, np.int64))
    starts = program._starts.values()
    blocks.put("starts.slot", np.array(list(program._starts), np.int64))
    blocks.put("starts.count", np.array([columns.size for columns, _ in starts], np.int64))
    blocks.put("starts.column", np.concatenate([np.empty(0, np.int64), *(columns for columns, _ in starts)]))
    blocks.put("starts.value", np.concatenate([np.empty(0), *(values for _, values in starts)]))


def _handles(program: ContinualProgram) -> tuple[tuple[str, Handles[Any]], ...]:
    """The handles of a program, by the names of their blocks."""
    return ("templates", program._templates), ("handles of vectors", program._vectors)


def unpack(blocks: Blocks, program: ContinualProgram, terms: Iterable[type[ConvexTerm]]) -> None:
    """Fill an empty program from a file's blocks.

    Parameters
    ----------
    program : ContinualProgram
        Empty.
    terms : iterable of type
        Classes of terms other than copter's.

    Raises
    ------
    FileError
        They are of no program, or of one with a class of terms that is not among ``terms``; the program is
        of no use then.
    """
    store = program.store
    check_parts(store, blocks)
    classes = term_classes(terms)
    try:
        unpack_store(store, blocks, classes)
        for index in (program._requests, program._resources):
            _unpack_index(index, blocks)
        for name, handles in _handles(program):
            for fields in blocks.take(name, np.int64).reshape(-1, 4).tolist():
                handles[fields[0]] = handles.kind(*fields)
        _unpack_starts(program, blocks)
        if isinstance(store, SpreadStore):
            unpack_parts(store, blocks, classes)
        else:
            check_store(store)
            store.sort_overrides()  # here: those of parts have always been in order
        check_program(program)
    except (CodecError, Unsound) as wrong:
        raise blocks.wrong(f"holds no sound program: {wrong}") from None
    except (ValueError, IndexError, OverflowError, KeyError, TypeError) as wrong:
        if isinstance(wrong, FileError):
            raise
        raise blocks.wrong("holds no sound program: its parts do not fit") from wrong


def _pack_index(index: Index, blocks: Blocks) -> None:
    ids: list[Any] = []
    for id in index.ids:
        try:
            ids.append(id_value(id))
        except CodecError as wrong:
            raise EditError(id, "id", id, str(wrong)) from None
    blocks.put(f"{index.kind}.ids", encode(ids))
    blocks.put(f"{index.kind}.slots", index.all_slots)


def _unpack_index(index: Index, blocks: Blocks) -> None:
    ids: list[Hashable] = decode(blocks.raw(f"{index.kind}.ids").data)
    slots = blocks.take(f"{index.kind}.slots", np.int64).tolist()
    if len(ids) != len(slots) or len(set(ids)) != len(ids):
        raise Unsound(f"ids of {index.kind}s")
    index.add(ids, slots)


def _unpack_starts(program: ContinualProgram, blocks: Blocks) -> None:
    slots, counts = (blocks.take(f"starts.{name}", np.int64) for name in ("slot", "count"))
    column, value = blocks.take("starts.column", np.int64), blocks.take("starts.value", np.float64)
    if slots.size != counts.size or not column.size == value.size == counts.sum() or (counts < 0).any():
        raise Unsound("starts")
    ends = np.cumsum(counts).tolist()
    for slot, begin, end in zip(slots.tolist(), [0, *ends], ends, strict=False):
        program._starts[slot] = column[begin:end], value[begin:end]


# ---- solvers -----------------------------------------------------------------------------------------


def pack_solver(solver: Remembers, program: ContinualProgram, blocks: Blocks) -> None:
    """Add what a solver remembers of a program to a file's blocks.

    Parameters
    ----------
    blocks : Blocks
        Of the file; changed in place.
    """
    state = solver.save_state(program)
    blocks.facts["solver"] = solver.kind
    if state is not None:
        blocks.put("solver", encode(state))


def solver_state(blocks: Blocks) -> tuple[str | None, Any]:
    """Kind of the solver that was saved, None without one, and its state, None if it was cold."""
    if blocks.facts.get("solver") is None:
        return None, None
    try:
        state = decode(blocks.raw("solver").data) if "solver" in blocks else None
    except CodecError as wrong:
        raise blocks.wrong(f"has a solver's state that is none: {wrong}") from None
    return blocks.fact("solver", str), state


def restore_solver(solver: Remembers, program: ContinualProgram, kind: Any, state: Any, path: Any) -> None:
    """Give a solver a state, of a solver of some kind, that was read from a file.

    Parameters
    ----------
    kind : str
        Of the solver that was saved.
    path : str or path
        Of the file, for messages.

    Raises
    ------
    FileError
        The solver is of another kind, or the state is none of its own.
    """
    if kind != solver.kind:
        raise FileError(path, f"has the state of a solver of the kind {kind}, not {solver.kind}")
    try:
        solver.load_state(program, state)
    except (ValueError, KeyError, TypeError, IndexError) as wrong:
        raise FileError(path, f"has a state that is none of solver {solver.name!r}: {wrong}") from None
