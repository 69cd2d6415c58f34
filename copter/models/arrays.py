"""Conversion of a ContinualProgram to arrays, with a name for every column and row."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from copter.errors import ArgumentTypeError, UnsupportedError
from copter.models.linear_program import LinearProgram

if TYPE_CHECKING:
    from copter.program.program import ContinualProgram
    from copter.store.compiled import CompiledProgram

_UNSAFE = re.compile(r"[^!-~]+")
"""Characters that would split a name in a model file, or that are not ASCII."""
_LONGEST = 200
"""Largest number of characters of a name; readers of MPS accept 255 or less."""


def arrays_of(model: ContinualProgram | LinearProgram, what: str) -> LinearProgram:
    """Return a model as arrays; raise UnsupportedError if a column is semi-continuous."""
    if not isinstance(model, LinearProgram):
        return program_arrays(model)
    if model.semi is not None and model.semi.any():
        column = int(model.semi.argmax())
        name = model.column_names[column] if model.column_names else column
        raise UnsupportedError(f"{what}: column {name!r} must not be semi-continuous")
    return model


def program_arrays(program: ContinualProgram) -> LinearProgram:
    """Return the present program, without convex terms, as arrays.

    Columns are in the order of ``program.request_ids`` and have the names ``request[column]``, with the
    number or name of the column. Rows are the resources, in the order of ``program.resource_ids`` and named
    by their ids, followed by ``total[request]`` for each sum row. Raise UnsupportedError, with the name of
    the request, if a request has a convex term.
    """
    if not hasattr(program, "store"):
        why = "must be a ContinualProgram or a LinearProgram"
        raise ArgumentTypeError("program", "type", type(program).__name__, why)
    from copter.store.compiled import compile_program

    whole = compile_program(program, "to_arrays")
    lp = flat_lp(whole)
    requests = [str(request) for request in whole.request_ids]
    sizes = np.diff(whole.column_start).tolist()
    names = map(program.column_names.of, program.request_slots.tolist())
    each = [own or range(size) for own, size in zip(names, sizes, strict=True)]
    columns = (f"{request}[{name}]" for request, own in zip(requests, each, strict=True) for name in own)
    totals = (f"total[{requests[k]}]" for k in np.flatnonzero(whole.sum_row >= 0).tolist())
    rows = [*(str(id) for id in whole.resource_ids), *totals]
    maximize = program.sense == "max"
    return replace(lp, maximize=maximize, column_names=safe_names(columns), row_names=safe_names(rows))


def flat_lp(compiled: CompiledProgram) -> LinearProgram:
    """Return a compiled program as a LinearProgram, without ids of requests and resources."""
    from scipy.sparse import csc_array

    return LinearProgram(
        compiled.c,
        csc_array(compiled.A),
        compiled.row_lower,
        compiled.row_upper,
        compiled.lower,
        compiled.upper,
        0.0,
        compiled.integrality.astype(np.bool_),
    )


def safe_names(names: Iterable[str], reserved: tuple[str, ...] = ()) -> tuple[str, ...]:
    """Return distinct names that are valid in a model file and are not reserved.

    A valid name is printable ASCII without spaces, and has at most 200 characters. A number is appended to
    equal names.
    """
    safe = [_UNSAFE.sub("_", name)[:_LONGEST] or "_" for name in names]
    counts = Counter([*safe, *reserved])
    if len(counts) == len(safe) + len(reserved):
        return tuple(safe)
    taken, numbers, found = set(counts), Counter[str](), []
    for name in safe:
        own = name
        while counts[name] > 1 and own in taken:
            numbers[name] += 1
            own = f"{name}~{numbers[name]}"
        taken.add(own)
        found.append(own)
    return tuple(found)
