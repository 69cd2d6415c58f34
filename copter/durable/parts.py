"""The parts of a program whose columns are elsewhere, in blocks of a file, a section each.

They are fetched for that: while it is written, this process has all columns.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from copter.durable.blocks import Blocks
from copter.durable.soundness import Unsound, check_store
from copter.durable.stores import pack_store, unpack_store
from copter.store.executor import Part
from copter.store.part_store import PartStore
from copter.store.spread import SpreadStore
from copter.store.store import ConstraintStore
from copter.terms.convex import ConvexTerm

_KNOWN = ("usage_of", "vector_of")
"""Slots of what all parts share, by their slots in the program."""


def pack_parts(store: SpreadStore, blocks: Blocks) -> None:
    """Add the parts of a store to a file's blocks.

    Parameters
    ----------
    blocks : Blocks
        Changed in place.
    """
    blocks.facts["parts"] = store.parts
    for number, part in enumerate(store.executor.map(_store)):
        section = blocks.section(f"part {number}")
        pack_store(part, section)
        for name in _KNOWN:
            section.put(name, np.array(list(getattr(part, name).items()), np.int64))


def _store(part: Part) -> Any:
    return part.store


def check_parts(store: ConstraintStore, blocks: Blocks) -> None:
    """Raise a FileError unless a file has as many parts as the store that it is to fill."""
    found, wanted = blocks.facts.get("parts"), store.parts if isinstance(store, SpreadStore) else None
    if found != wanted:
        there, here = (
            "a program of one process" if parts is None else f"a program in {parts} parts"
            for parts in (found, wanted)
        )
        raise blocks.wrong(f"holds {there}, and is to fill {here}: open it with one of its own kind")


def unpack_parts(store: SpreadStore, blocks: Blocks, classes: dict[str, type[ConvexTerm]]) -> None:
    """Fill the parts of an empty store from a file's blocks.

    Parameters
    ----------
    classes : dict of str to type
        Of terms, by their names.

    Raises
    ------
    Unsound
        What does not fit.
    """
    stores = []
    for number in range(store.parts):
        section, part = blocks.section(f"part {number}"), PartStore()
        unpack_store(part, section, classes)
        for name in _KNOWN:
            pairs: NDArray[np.int64] = section.take(name, np.int64).reshape(-1, 2)
            setattr(part, name, dict(pairs.tolist()))
        check_store(part)
        stores.append(part)
    if sum(part.n_variables for part in stores) != store.n_variables:
        raise Unsound("columns of the parts")
    store.executor.workers.restore(stores)
