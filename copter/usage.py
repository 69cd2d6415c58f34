"""What columns use of the resources, as users say it, brought into compressed columns.

A usage is a mapping of resource id to coefficients, a sparse matrix of many requests' columns, or a
:class:`Template`: the handle of columns that many requests share.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from copter.errors import EditError
from copter.validation import LARGEST, coefficients_of, within

if TYPE_CHECKING:
    from copter.index import Index


@dataclass(frozen=True)
class Template:
    """Handle of columns that many requests share; made by ``ContinualProgram.add_template``."""

    slot: int
    n_columns: int
    birth: int = field(default=-1, repr=False)


Usage: TypeAlias = Template | Mapping[Any, Any]


class Compressed(NamedTuple):
    """Columns in compressed form: starts of the columns in the other two, rows, values."""

    pointer: NDArray[Any]
    row: NDArray[Any]
    value: NDArray[Any]


def from_mapping(subject: Hashable, usage: Mapping[Any, Any], n: int, resources: Index) -> Compressed:
    """The n columns that a mapping of resource id to coefficients stands for; rows are slots."""
    rows, columns, values = [], [], []
    for resource, coefficients in usage.items():
        if resource not in resources:
            raise EditError(subject, "usage", resource, "no resource of this id")
        column, value = coefficients_of(subject, resource, coefficients, n)
        rows.append(np.full(column.size, resources.slot(resource), np.int64))
        columns.append(column)
        values.append(value)
    column = np.concatenate(columns) if columns else np.empty(0, np.int64)
    order = np.argsort(column, kind="stable")
    pointer = np.concatenate(([0], np.cumsum(np.bincount(column, minlength=n))))
    row = np.concatenate(rows)[order] if rows else column
    value = np.concatenate(values)[order] if values else np.empty(0)
    return Compressed(pointer, row, value)


def from_matrix(label: str, usage: Any, shape: tuple[int, int]) -> Compressed:
    """The columns of a sparse matrix, without a copy if it is a CSC matrix whose columns are sorted."""
    from scipy.sparse import csc_array, csc_matrix

    matrix = usage if isinstance(usage, csc_array | csc_matrix) else csc_array(usage)
    if matrix.shape != shape:
        raise EditError(label, "usage", matrix.shape, f"needs the shape {shape}: resources, columns")
    if not within(matrix.indices, 0, shape[0] - 1) or (matrix.indptr[1:] < matrix.indptr[:-1]).any():
        raise EditError(label, "usage", "indices", "row indices or column pointers are out of range")
    if not matrix.has_canonical_format:
        matrix = csc_array(matrix, copy=True)
        matrix.sum_duplicates()
    end = int(matrix.indptr[-1])
    value = matrix.data[:end]
    if not within(value, -LARGEST, LARGEST):
        raise EditError(label, "usage", "NaN or infinite", "coefficients must be finite")
    return Compressed(matrix.indptr, matrix.indices[:end], value)
