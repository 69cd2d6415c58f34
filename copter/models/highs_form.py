"""A general LP as HiGHS holds it, and back, with names, integrality and sense."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from copter.models.general_lp import GeneralLP

if TYPE_CHECKING:
    import highspy


def from_highs(lp: highspy.HighsLp) -> GeneralLP:
    """The LP that HiGHS holds, as the minimisation of the negation if it is a maximisation.

    Returns
    -------
    GeneralLP
        With the names of columns and rows, if they have any.
    """
    import highspy
    from scipy.sparse import csc_array, csr_array

    matrix = lp.a_matrix_
    shape = (lp.num_row_, lp.num_col_)
    parts = (np.array(matrix.value_), np.array(matrix.index_), np.array(matrix.start_))
    columnwise = matrix.format_ == highspy.MatrixFormat.kColwise
    sparse = csc_array(parts, shape=shape) if columnwise else csc_array(csr_array(parts, shape=shape))
    maximize = lp.sense_ == highspy.ObjSense.kMaximize
    sign = -1.0 if maximize else 1.0
    integral = np.array([kind != highspy.HighsVarType.kContinuous for kind in lp.integrality_], np.bool_)
    return GeneralLP(
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


def to_highs(lp: GeneralLP) -> highspy.HighsLp:
    """The LP as HiGHS holds it, in its own sense.

    Returns
    -------
    highspy.HighsLp
        With names only where the LP has them.
    """
    import highspy

    kinds = highspy.HighsVarType
    sign = -1.0 if lp.maximize else 1.0
    model = highspy.HighsLp()
    model.num_row_, model.num_col_ = lp.A.shape
    model.sense_ = highspy.ObjSense.kMaximize if lp.maximize else highspy.ObjSense.kMinimize
    model.offset_ = sign * lp.offset
    model.col_cost_ = sign * lp.c
    model.col_lower_, model.col_upper_ = lp.lower, lp.upper
    model.row_lower_, model.row_upper_ = lp.row_lower, lp.row_upper
    model.a_matrix_.format_ = highspy.MatrixFormat.kColwise
    model.a_matrix_.num_row_, model.a_matrix_.num_col_ = lp.A.shape
    model.a_matrix_.start_ = lp.A.indptr.astype(np.int32)
    model.a_matrix_.index_ = lp.A.indices.astype(np.int32)
    model.a_matrix_.value_ = lp.A.data
    if lp.integral.any():
        model.integrality_ = [kinds.kInteger if whole else kinds.kContinuous for whole in lp.integral]
    model.col_names_, model.row_names_ = list(lp.column_names), list(lp.row_names)
    return model
