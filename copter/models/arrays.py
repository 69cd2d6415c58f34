"""A ContinualProgram as arrays, with a name for every column and row."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from copter.models.general_lp import GeneralLP
from copter.store.compiled import CompiledProgram, compile_program, refuse_terms

if TYPE_CHECKING:
    from copter.program.program import ContinualProgram

_UNSAFE = re.compile(r"[^!-~]+")
"""Characters that split a name in a file of models, or are not ASCII."""
_LONGEST = 200
"""Characters of a name; readers of MPS take 255 and less."""


def program_arrays(program: ContinualProgram) -> GeneralLP:
    """Return a program without convex terms, as it is now, in arrays.

    The columns come request after request in the order of ``program.request_ids``, named ``request[column]``,
    by the number or the name of the column.
    The rows are the resources in the order of ``program.resource_ids``, named by their ids, then
    ``total[request]`` for each request with a total. Raise UnsupportedError with the name of a request that
    has a convex term.
    """
    refuse_terms(program, "to_arrays")
    whole = compile_program(program)
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


def flat_lp(compiled: CompiledProgram) -> GeneralLP:
    """A compiled program without the ids of its requests and resources."""
    from scipy.sparse import csc_array

    return GeneralLP(
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
    """Return distinct names that can be used in a file of models, none of them reserved.

    They are printable ASCII without spaces, at most 200 characters, then a number if two were the same.
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
