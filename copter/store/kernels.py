"""Kernels of the store's edits, which process all requests of an edit in one call.

An edit of one request changes a dozen fields and some thousand numbers. With numpy, the overhead of the calls
would take many times as long as the work. The kernels ``sound_*`` and ``all_within`` only check. If they
return False, slower Python code finds the invalid value for the error message. The other kernels write;
``release_requests`` also writes down the slices that Python code then adds to the free lists.

Tables are given as their blocks (:class:`copter.store.slabs.SlotTable`). The constants below name the rows of
the blocks.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from copter.compile.kernels import kernel

COST_START, N_COLUMNS, USAGE, UPPER_START, OVERRIDE_START, OVERRIDE_LENGTH = range(6)
GENERATION, COST_STAMP, BOUND_STAMP = range(6, 9)
SCALE, UPPER, TOTAL = range(3)
EXACT, INTEGRAL = range(2)
"""Rows of the blocks of ``ConstraintStore.requests``; the lines above are the blocks whole (2), real and
small."""

POINTER_START, ENTRY_START, WIDTH, NNZ, VALUE_START = range(5)
"""Rows of the whole block of ``ConstraintStore.usages``."""

_Array = Any
_index: Any = np.uint64
"""Type of indices in long copies; signed indices are ten times slower."""


@kernel
def all_within(values: _Array, low: float, high: float) -> bool:
    """Return whether ``low <= value <= high`` holds for all values; False with a NaN."""
    wrong = 0
    for j in range(values.size):
        wrong += not ((values[j] >= low) & (values[j] <= high))
    return wrong == 0


@kernel
def first_outside(columns: _Array, counts: _Array, widths: _Array) -> int:
    """Return the position of the first column number that is out of range, or -1.

    ``columns`` has ``counts[k]`` numbers of request k, which must be in [0, ``widths[k]``).
    """
    at = 0
    for k in range(counts.size):
        for i in range(at, at + counts[k]):
            if columns[i] < 0 or columns[i] >= widths[k]:
                return i
        at += counts[k]
    return -1


@kernel
def sound_entries(columns: _Array, values: _Array, n: int, largest: float) -> bool:
    """Return whether entries have ascending columns below n, and nonzero values of valid size."""
    if columns.size != values.size:
        return False
    last, wrong = -1, 0
    for i in range(columns.size):
        wrong += columns[i] <= last or columns[i] >= n or not (0.0 < abs(values[i]) <= largest)
        last = columns[i]
    return wrong == 0


@kernel
def compress(
    rows: _Array, counts: _Array, columns: _Array, values: _Array, pointer: _Array, row: _Array, value: _Array
) -> None:
    """Sort entries by column: write the columns as CSC to ``pointer`` (zeros at first), ``row``, ``value``.

    ``rows[k]`` has ``counts[k]`` of the entries ``columns``, ``values``.
    """
    for i in range(columns.size):
        pointer[columns[i] + 1] += 1
    for j in range(pointer.size - 1):
        pointer[j + 1] += pointer[j]
    i = 0
    for k in range(rows.size):
        for _ in range(counts[k]):
            at = pointer[columns[i]]
            row[at], value[at] = rows[k], values[i]
            pointer[columns[i]] = at + 1
            i += 1
    for j in range(pointer.size - 1, 0, -1):  # each is now the end of its column
        pointer[j] = pointer[j - 1]
    pointer[0] = 0


@kernel
def sound_columns(
    pointer: _Array, row: _Array, value: _Array, n_rows: int, largest: float
) -> tuple[bool, bool]:
    """Return whether pointers ascend and rows are in range, and whether all values are of valid size."""
    wrong, beyond = 0, 0
    for j in range(pointer.size - 1):
        wrong += pointer[j] > pointer[j + 1]
    if wrong or pointer[0] < 0 or pointer[-1] > min(row.size, value.size):
        return False, True
    for i in range(_index(pointer[0]), _index(pointer[-1])):
        wrong += (row[i] < 0) | (row[i] >= n_rows)
    for i in range(_index(pointer[0]), _index(pointer[-1])):
        beyond += not (abs(value[i]) <= largest)
    return wrong == 0, beyond == 0


@kernel
def fill_slices(pool: _Array, starts: _Array, lengths: _Array, flat: _Array) -> None:
    """Write flat values to the slices of an array, slice after slice."""
    at = _index(0)
    for k in range(starts.size):
        start, n = _index(starts[k]), _index(lengths[k])
        for j in range(n):
            pool[start + j] = flat[at + j]
        at += n


@kernel
def fill_requests(
    whole: _Array,
    real: _Array,
    small: _Array,
    references: _Array,
    pool: _Array,
    slots: _Array,
    starts: _Array,
    sizes: _Array,
    costs: _Array,
    usage: int,
    usages: _Array,
    exact: bool,
    totals: _Array,
    clock: int,
) -> None:
    """Write new requests to blank slots.

    They have the usage ``usage``, or ``usages[k]`` if ``usage`` is negative.
    """
    at = _index(0)
    for k in range(slots.size):
        q, start, n = slots[k], _index(starts[k]), _index(sizes[k])
        points_at = usage if usage >= 0 else usages[k]
        references[points_at] += 1
        whole[COST_START, q], whole[N_COLUMNS, q], whole[USAGE, q] = starts[k], sizes[k], points_at
        whole[GENERATION, q] = whole[COST_STAMP, q] = whole[BOUND_STAMP, q] = clock
        if totals.size:
            small[EXACT, q], real[TOTAL, q] = exact, totals[k]
        for j in range(n):
            pool[start + j] = costs[at + j]
        at += n


@kernel
def release_requests(
    whole: _Array,
    real: _Array,
    small: _Array,
    references: _Array,
    shared: _Array,
    slots: _Array,
    left: _Array,
    blank: bool,
) -> None:
    """Remove columns, upper bounds and overrides from requests, or ``blank`` their slots completely.

    Write the slices to be freed to ``left`` (6, k): start and number of the costs, start of the upper bounds
    (negative: no bounds of its own), start and length of the override, and the usage if it has no references
    left (else negative).
    """
    for k in range(slots.size):
        q = slots[k]
        usage = whole[USAGE, q]
        references[usage] -= 1
        left[0, k], left[1, k], left[2, k] = (
            whole[COST_START, q],
            whole[N_COLUMNS, q],
            whole[UPPER_START, q],
        )
        left[3, k], left[4, k] = whole[OVERRIDE_START, q], whole[OVERRIDE_LENGTH, q]
        left[5, k] = usage if references[usage] == 0 and not shared[usage] else -1
        if not blank:
            whole[UPPER_START, q], whole[OVERRIDE_START, q], whole[OVERRIDE_LENGTH, q] = -1, 0, 0
            continue
        for field in range(whole.shape[0]):
            whole[field, q] = whole[field, whole.shape[1] - 1]
        for field in range(real.shape[0]):
            real[field, q] = real[field, real.shape[1] - 1]
        for field in range(small.shape[0]):
            small[field, q] = small[field, small.shape[1] - 1]


@kernel
def all_ones(sizes: _Array, pointer: _Array, value: _Array, ones: _Array) -> None:
    """Write to ``ones`` whether all coefficients of each usage are 1."""
    at = _index(0)
    for k in range(sizes.size):
        other = 0
        for i in range(_index(pointer[at]), _index(pointer[at + _index(sizes[k])])):
            other += value[i] != 1.0
        ones[k] = other == 0
        at += _index(sizes[k])


@kernel
def fill_usages(
    whole: _Array,
    pointers: _Array,
    rows: _Array,
    values: _Array,
    slots: _Array,
    pointer_starts: _Array,
    entry_starts: _Array,
    value_starts: _Array,
    sizes: _Array,
    pointer: _Array,
    row: _Array,
    value: _Array,
) -> None:
    """Write new usages to blank slots, from compressed columns.

    A usage has one more pointer than columns. Pointers are counted from the first entry of the usage. If its
    start in ``value_starts`` is negative, no coefficients are stored.
    """
    at = _index(0)
    for k in range(slots.size):
        u, n, first = slots[k], _index(sizes[k]), _index(pointer[at])
        begin, entry, nnz = (
            _index(pointer_starts[k]),
            _index(entry_starts[k]),
            _index(pointer[at + n]) - first,
        )
        whole[POINTER_START, u], whole[ENTRY_START, u] = pointer_starts[k], entry_starts[k]
        whole[WIDTH, u], whole[NNZ, u], whole[VALUE_START, u] = sizes[k], np.int64(nnz), value_starts[k]
        for j in range(n + _index(1)):
            pointers[begin + j] = pointer[at + j] - pointer[at]
        for i in range(nnz):
            rows[entry + i] = row[first + i]
        if value_starts[k] >= 0:
            start = _index(value_starts[k])
            for i in range(nnz):
                values[start + i] = value[first + i]
        at += n


@kernel
def write_overrides(
    whole: _Array,
    scale: _Array,
    pool: _Array,
    column: _Array,
    original: _Array,
    value: _Array,
    slots: _Array,
    lengths: _Array,
    columns: _Array,
    values: _Array,
    scales: _Array,
    clock: int,
    restore: bool,
) -> bool:
    """Write overrides (flat, ascending), and scales if there are any.

    Return False, without a change, if the slice of an override has the wrong length. If ``restore``, first
    restore the costs under the old overrides.
    """
    for k in range(slots.size):
        if whole[OVERRIDE_LENGTH, slots[k]] != lengths[k]:
            return False
    at = 0
    for k in range(slots.size):
        q = slots[k]
        if scales.size:
            scale[q] = scales[k]
        start, begin = whole[COST_START, q], whole[OVERRIDE_START, q]
        end = begin + lengths[k]
        if restore:
            for i in range(begin, end):
                pool[start + column[i]] = original[i]
        for i in range(begin, end):
            j = start + columns[at]
            column[i], value[i], original[i] = columns[at], values[at], pool[j]
            pool[j] = values[at] / scale[q]
            at += 1
        whole[COST_STAMP, q] = clock
    return True


@kernel
def write_scales(
    whole: _Array,
    scale: _Array,
    pool: _Array,
    column: _Array,
    value: _Array,
    slots: _Array,
    scales: _Array,
    clock: int,
) -> None:
    """Write new scales of requests; their overrides keep their values."""
    for k in range(slots.size):
        q = slots[k]
        scale[q] = scales[k]
        start, begin = whole[COST_START, q], whole[OVERRIDE_START, q]
        for i in range(begin, begin + whole[OVERRIDE_LENGTH, q]):
            pool[start + column[i]] = value[i] / scales[k]
        whole[COST_STAMP, q] = clock
