"""A store in blocks of a file: its pools and tables as they lie in memory, free slots and clock included."""

from __future__ import annotations

import numpy as np

from copter.durable.blocks import Blocks
from copter.durable.codec import make_term, term_name
from copter.durable.soundness import Unsound
from copter.errors import EditError
from copter.store.edit_log import EditLog
from copter.store.slabs import Pool, Table
from copter.store.store import ConstraintStore
from copter.store.term_table import Kind, TermTable
from copter.terms.convex import ConvexTerm

_POOLS = ("costs", "uppers", "pointers", "entries", "coefficients", "overrides")
_TABLES = ("rows", "usages", "vectors", "requests")


def pack_store(store: ConstraintStore, blocks: Blocks) -> None:
    """Add a store to a file's blocks.

    Parameters
    ----------
    blocks : Blocks
        Changed in place.

    Raises
    ------
    EditError
        Two classes of terms have the same name.
    """
    blocks.facts |= {"clock": store.clock, "n_variables": store.n_variables}
    for name in _POOLS:
        _pack_pool(name, getattr(store, name), blocks)
    for name in _TABLES:
        table: Table = getattr(store, name)
        blocks.facts[name] = table.size
        for field in table._fields:
            blocks.put(f"{name}.{field}", getattr(table, field)[: table.size])
        blocks.put(f"{name}.free", np.array(table._free, np.int64))
    blocks.put("dropped", np.array(store._dropped_rows, np.int64))
    blocks.facts["edits"] = store.edits.complete_after
    for part, array in zip(("revision", "slot"), store.edits.arrays(), strict=True):
        blocks.put(f"edits.{part}", array)
    _pack_terms(store.terms, blocks)


def unpack_store(store: ConstraintStore, blocks: Blocks, classes: dict[str, type[ConvexTerm]]) -> None:
    """Fill an empty store, which has its type of costs, from a file's blocks.

    Parameters
    ----------
    classes : dict of str to type
        Of terms, by their names.

    Raises
    ------
    FileError, Unsound, ValueError, IndexError, OverflowError, KeyError, TypeError
        They are of no store.
    """
    store.clock, store.n_variables = blocks.fact("clock", int), blocks.fact("n_variables", int)
    for name in _POOLS:
        _unpack_pool(name, getattr(store, name), blocks)
    for name in _TABLES:
        _unpack_table(name, getattr(store, name), blocks)
    store._dropped_rows = blocks.take("dropped", np.int64).tolist()
    store.edits = _unpack_edits(store, blocks)
    _unpack_terms(store.terms, blocks, classes)


def _unpack_edits(store: ConstraintStore, blocks: Blocks) -> EditLog:
    after = blocks.fact("edits", int)
    revision, slot = (blocks.take(f"edits.{part}", np.int64) for part in ("revision", "slot"))
    if revision.size != slot.size or not 0 <= after <= store.clock:
        raise Unsound("the log of edits")
    if revision.size and not (after <= revision[0] and revision[-1] <= store.clock):
        raise Unsound("the log of edits")
    if (revision[1:] < revision[:-1]).any() or (slot < 0).any() or (slot >= store.requests.size).any():
        raise Unsound("the log of edits")
    return EditLog.of(after, revision, slot)


def _pack_pool(name: str, pool: Pool, blocks: Blocks) -> None:
    for part in pool.names:
        blocks.put(f"{name}.{part}", getattr(pool, part)[: pool.used])
    blocks.put(f"{name}.free", pool.freed())


def _unpack_pool(name: str, pool: Pool, blocks: Blocks) -> None:
    arrays = {part: blocks.take(f"{name}.{part}", getattr(pool, part).dtype) for part in pool.names}
    if len({array.size for array in arrays.values()}) != 1:
        raise Unsound(f"sizes of {name}")
    free: dict[int, list[int]] = {}
    freed = blocks.take(f"{name}.free", np.int64).reshape(-1, 2)
    for length, start in freed.tolist():
        free.setdefault(length, []).append(start)
    pool.__setstate__({"arrays": arrays, "garbage": int(freed[:, 0].sum()), "free": free})


def _unpack_table(name: str, table: Table, blocks: Blocks) -> None:
    size = blocks.fact(name, int)
    columns = {field: blocks.take(f"{name}.{field}", dtype) for field, (dtype, _) in table._fields.items()}
    if any(column.size != size for column in columns.values()):
        raise Unsound(f"sizes of {name}")
    free = blocks.take(f"{name}.free", np.int64).tolist()
    table.__setstate__({"fields": table._fields, "size": size, "columns": columns, "free": free})


def _pack_terms(terms: TermTable, blocks: Blocks) -> None:
    names = [term_name(kind.type) for kind in terms.kinds]
    for name in names:
        if len({kind.type for kind in terms.kinds if term_name(kind.type) == name}) > 1:
            raise EditError("save", "term", name, "is the name of several classes of terms")
    blocks.facts["kinds"] = [[name, list(kind.names)] for name, kind in zip(names, terms.kinds, strict=True)]
    blocks.put("terms.kind", terms._kind)
    blocks.put("terms.start", terms._start)
    blocks.put("terms.length", terms._length)
    _pack_pool("terms", terms._data, blocks)
    blocks.put("terms.given", np.array(list(terms), np.int64))
    scalar = [np.ndim(terms._given[slot].image) == 0 for slot in terms]
    blocks.put("terms.scalar", np.array(scalar, np.int8))


def _unpack_terms(terms: TermTable, blocks: Blocks, classes: dict[str, type[ConvexTerm]]) -> None:
    for name, names in blocks.fact("kinds", list):
        if name not in classes:
            raise blocks.wrong(f"has terms of the class {name}: name it in `terms`")
        if not all(isinstance(each, str) for each in names):
            raise Unsound("classes of terms")
        terms.kinds.append(Kind(classes[name], tuple(names)))
    terms._kind = blocks.take("terms.kind", np.int16)
    terms._start, terms._length = (blocks.take(f"terms.{name}", np.int64) for name in ("start", "length"))
    if not terms._kind.size == terms._start.size == terms._length.size:
        raise Unsound("terms")
    _unpack_pool("terms", terms._data, blocks)
    given, scalar = blocks.take("terms.given", np.int64), blocks.take("terms.scalar", np.int8)
    if not np.array_equal(np.sort(given), terms.slots()) or scalar.size != given.size:
        raise Unsound("terms")
    for slot, one in zip(given.tolist(), scalar.tolist(), strict=True):
        kind, names = terms.kinds[int(terms._kind[slot])]
        start, length = int(terms._start[slot]), int(terms._length[slot])
        data = terms._data.data[start : start + length]
        if start < 0 or data.size != length or length <= len(names):
            raise Unsound("terms")
        image = float(data[len(names)]) if one else data[len(names) :].copy()
        parameters = dict(zip(names, data[: len(names)].tolist(), strict=True))
        terms._given[slot] = make_term(kind, image, parameters)
