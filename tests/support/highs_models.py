"""Conversion of a model of HiGHS, for example one that HiGHS has read from a file."""

from __future__ import annotations

import highspy
import numpy as np
from scipy.sparse import csc_array, csr_array

from copter.models.linear_program import LinearProgram


def from_highs(lp: highspy.HighsLp) -> LinearProgram:
    """Convert a HighsLp with its names; a maximisation becomes the minimisation of the negation."""
    matrix = lp.a_matrix_
    shape = (lp.num_row_, lp.num_col_)
    columnwise = matrix.format_ == highspy.MatrixFormat.kColwise
    # A presolved model may have pointers of rows or columns that were removed.
    start = np.array(matrix.start_)[: (lp.num_col_ if columnwise else lp.num_row_) + 1]
    parts = (np.array(matrix.value_)[: start[-1]], np.array(matrix.index_)[: start[-1]], start)
    sparse = csc_array(parts, shape=shape) if columnwise else csc_array(csr_array(parts, shape=shape))
    maximize = lp.sense_ == highspy.ObjSense.kMaximize
    sign = -1.0 if maximize else 1.0
    integral = np.array([kind != highspy.HighsVarType.kContinuous for kind in lp.integrality_], np.bool_)
    return LinearProgram(
        sign * np.array(lp.col_cost_, np.float64),
        sparse,
        np.array(lp.row_lower_, np.float64),
        np.array(lp.row_upper_, np.float64),
        np.array(lp.col_lower_, np.float64),
        np.array(lp.col_upper_, np.float64),
        sign * lp.offset_,
        integral if integral.size else np.zeros(lp.num_col_, np.bool_),
        maximize,
        tuple(lp.col_names_),
        tuple(lp.row_names_),
    )
