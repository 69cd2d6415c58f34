"""Conversion of a usage (coefficients of columns in the resources) to compressed columns.

A usage is a mapping of resource id to coefficients, a sparse matrix for the columns of many requests, or a
:class:`.handles.SharedColumns`, the handle of columns that many requests share.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from copter.errors import EditError
from copter.program.validation import FINITE_COST, LARGEST_COST, coefficients_of, is_vector
from copter.store.kernels import compress, sound_columns
from copter.store.slabs import contiguous

if TYPE_CHECKING:
    from scipy.sparse import sparray

    from copter.program.handles import SharedColumns
    from copter.program.index import Index


_MATRIX_OR_HANDLE = "a sparse matrix of numbers (resources by columns), or a handle from share_columns()"
_SHORT = 64
"""Length of lists up to which Python reads them faster than numpy."""


Usage: TypeAlias = "SharedColumns | Mapping[Any, Any] | sparray"
"""Usage of one request: a handle of shared columns, coefficients by resource id, or a sparse matrix."""


class Compressed(NamedTuple):
    """Sparse columns in compressed form (CSC).

    `pointer` (n + 1,) has the start of each column in `row` (nnz,) and `value` (nnz,).
    """

    pointer: NDArray[Any]
    row: NDArray[Any]
    value: NDArray[Any]


def from_mapping(subject: Hashable, usage: Mapping[Any, Any], n: int, resources: Index) -> Compressed:
    """Return the n columns of a mapping of resource id to coefficients, with slots as rows.

    Coefficients are a number, (n,) numbers, or (columns, values). Raise EditError, with the request, the
    field and the value, if one is invalid.
    """
    if not isinstance(usage, Mapping):
        why = f"must be a mapping of resource id to coefficients, {_MATRIX_OR_HANDLE}"
        shown = type(usage).__name__ if hasattr(usage, "shape") else usage
        raise EditError(subject, "usage", shown, why)
    quick = _from_numbers(usage, n, resources)
    if quick is not None:
        return _compressed(*quick, n)
    rows, columns, values = [], [], []
    for resource, coefficients in usage.items():
        if resource not in resources:
            raise EditError(subject, "usage", resource, resources.missing(resource))
        if isinstance(coefficients, tuple) and not (len(coefficients) == 2 and is_vector(coefficients[0])):
            why = "a tuple must be a pair (columns, values); one coefficient of each column is a list"
            raise EditError(subject, f"usage[{resource!r}]", coefficients, why)
        column, value = coefficients_of(subject, resource, coefficients, n)
        rows.append(resources.slot(resource))
        columns.append(column)
        values.append(value)
    counts = [column.size for column in columns]
    return _compressed(rows, counts, np.concatenate(columns), np.concatenate(values), n)


def _from_numbers(
    usage: Mapping[Any, Any], n: int, resources: Index
) -> tuple[list[int], list[int], NDArray[np.int64], NDArray[np.float64]] | None:
    """Return the parts of a valid mapping to short lists of Python numbers, which is the common case.

    The parts are the row slots, the number of coefficients of each row, and the columns and values row by
    row. Return None for all other mappings, also for invalid ones. numpy would take fifty times as long for
    lists of a few numbers.
    """
    rows: list[int] = []
    counts: list[int] = []
    columns: list[int] = []
    values: list[float] = []
    for resource, given in usage.items():
        if type(given) is tuple and len(given) == 2:
            where, much = given
            if type(where) is not list or len(where) > _SHORT:
                return None
            if any(type(column) is not int for column in where) or len(set(where)) < len(where):
                return None
        else:
            where, much = range(n), given
        if type(much) is not list or len(much) != len(where) or len(much) > _SHORT:
            return None
        before = len(columns)
        for column, value in zip(where, much, strict=True):
            sound = type(value) is float or type(value) is int
            if not (sound and -LARGEST_COST <= value <= LARGEST_COST):
                return None
            if not 0 <= column < n:
                return None
            if value:
                columns.append(column)
                values.append(value)
        if resource not in resources:
            return None
        rows.append(resources.slot(resource))
        counts.append(len(columns) - before)
    return rows, counts, np.array(columns, np.int64), np.array(values, np.float64)


def _compressed(
    rows: Sequence[int],
    counts: Sequence[int],
    columns: NDArray[np.int64],
    values: NDArray[np.float64],
    n: int,
) -> Compressed:
    """Return entries that are given row by row as compressed columns."""
    nnz = columns.size
    compressed = Compressed(np.zeros(n + 1, np.int32), np.empty(nnz, np.int32), np.empty(nnz))
    compress(np.array(rows, np.int64), np.array(counts, np.int64), columns, values, *compressed)
    return compressed


def joined(parts: Sequence[Compressed]) -> Compressed:
    """Concatenate parts with the same rows into one set of columns."""
    if len(parts) == 1:
        return parts[0]
    ends = np.cumsum([part.row.size for part in parts], dtype=np.int64)
    pointers = [np.zeros(1, np.int64)]
    pointers += [part.pointer[1:] + (end - part.row.size) for part, end in zip(parts, ends, strict=True)]
    row, value = (np.concatenate([part[k] for part in parts]) for k in (1, 2))
    width = np.int32 if row.size < 2**31 else np.int64
    return Compressed(np.concatenate(pointers).astype(width), row, value)


def from_matrix(label: Hashable, usage: Any, shape: tuple[int, int]) -> Compressed:
    """Return the columns of a sparse matrix of a required shape.

    A CSC matrix with sorted columns is not copied. `label`, the request or the edit method, is used in
    messages. Raise EditError, with the label, the field and the value, if the matrix is invalid.
    """
    from scipy.sparse import csc_array, csc_matrix, issparse

    if not issparse(usage) or usage.dtype.kind not in "iuf":
        why = f"must be {_MATRIX_OR_HANDLE}, or a list with a usage for each request"
        raise EditError(label, "usage", usage if usage is None else type(usage).__name__, why)
    matrix = usage if isinstance(usage, (csc_array, csc_matrix)) else csc_array(usage)
    if matrix.shape != shape:
        raise EditError(label, "usage", matrix.shape, f"must have the shape {shape}: resources, columns")
    columns = _sound(label, matrix, shape[0])
    if matrix.has_canonical_format:
        return columns
    matrix = csc_array(matrix, copy=True)
    matrix.sum_duplicates()
    return _sound(label, matrix, shape[0])


def _sound(label: Hashable, matrix: Any, n_rows: int) -> Compressed:
    value = np.asarray(matrix.data, np.float64)
    columns = Compressed(*(contiguous(part) for part in (matrix.indptr, matrix.indices, value)))
    known, within = sound_columns(*columns, n_rows, LARGEST_COST)
    if not known:
        raise EditError(label, "usage", "indices", "row indices and column pointers must be in range")
    if not within:
        worst = value[int((~(abs(value) <= LARGEST_COST)).argmax())]
        raise EditError(label, "usage", float(worst), f"coefficients {FINITE_COST}")
    return columns
