"""Conversion of models of OR-Tools MathOpt to a Model, and of programs to models of MathOpt.

OR-Tools is part of the extra ``baselines``.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from copter.errors import ArgumentTypeError, UnsupportedError
from copter.extras import extra
from copter.models.arrays import arrays_of, safe_names
from copter.models.linear_program import LinearProgram
from copter.solvers.general.model import Model, ModelSolution

if TYPE_CHECKING:
    from ortools.math_opt.python import mathopt

    from copter.program.program import ContinualProgram

_BEYOND = (
    "auxiliary_objectives",
    "quadratic_constraints",
    "second_order_cone_constraints",
    "sos1_constraints",
    "sos2_constraints",
    "indicator_constraints",
)
"""Parts of a model of MathOpt that a linear program cannot have."""


class _MathOpt:
    """Model of MathOpt as the source of a :class:`Model`."""

    def __init__(self, model: mathopt.Model) -> None:
        self.model = model

    def read(self) -> LinearProgram:
        """Return the present linear program; solutions have the same columns and rows."""
        self.columns, self.rows = tuple(self.model.variables()), tuple(self.model.linear_constraints())
        self.sign = 1.0 if self.model.objective.is_maximize else -1.0
        return _arrays(self.model.export_model())

    def deliver(self, found: ModelSolution) -> ModelSolution:
        """Return the solution with values by variable and duals by constraint."""
        values = dict(zip(self.columns, found.x.tolist(), strict=True))
        duals = dict(zip(self.rows, (self.sign * found.y).tolist(), strict=True))
        return replace(found, by_source=(values, duals))


def from_mathopt(model: mathopt.Model) -> Model:
    """Make a :class:`~copter.Model` from a linear model of OR-Tools MathOpt.

    Parameters
    ----------
    model : mathopt.Model
        Model with a linear objective, linear constraints, and continuous or integer variables.

    Returns
    -------
    Model
        Solutions have values by variable and duals by constraint. ``update()`` reads the model of MathOpt
        again.

    Raises
    ------
    UnsupportedError
        If the model is not a linear program. The error names the part that is not linear.
    EditError
        If a number is invalid: a NaN, or crossed bounds.

    Examples
    --------
    >>> from ortools.math_opt.python import mathopt
    >>> from copter import from_mathopt
    >>> source = mathopt.Model()
    >>> x = source.add_variable(lb=0.0, ub=3.0, name="x")
    >>> _ = source.add_linear_constraint(2.0 * x <= 4.0)
    >>> source.maximize(x)
    >>> found = from_mathopt(source).solve()
    >>> found.objective, found.values[x]
    (2.0, 2.0)
    """
    if not hasattr(model, "linear_constraints"):
        raise ArgumentTypeError("from_mathopt", "model", model, "must be a model of OR-Tools MathOpt")
    return Model(_MathOpt(model))


def to_mathopt(model: ContinualProgram | LinearProgram) -> mathopt.Model:
    """Make a model of OR-Tools MathOpt from a program.

    Parameters
    ----------
    model : ContinualProgram or LinearProgram
        A ContinualProgram becomes the arrays of :meth:`~copter.ContinualProgram.to_arrays`, with their names.

    Returns
    -------
    mathopt.Model
        Model with variables and constraints in the order of columns and rows.

    Raises
    ------
    MissingExtraError
        If OR-Tools is not installed.
    UnsupportedError
        If a request has a convex term, or a column is semi-continuous.

    Examples
    --------
    >>> from copter import ContinualProgram, to_mathopt
    >>> program = ContinualProgram()
    >>> program.add_resource("gpu", upper=8)
    >>> program.add_request("job", costs=[-1.0, -1.8], usage={"gpu": [1, 2]}, total=1)
    >>> model = to_mathopt(program)
    >>> [variable.name for variable in model.variables()]
    ['job[0]', 'job[1]']
    """
    with extra("baselines"):
        from ortools.math_opt import model_pb2
        from ortools.math_opt.python import mathopt

    lp = arrays_of(model, "to_mathopt")
    m, n = lp.A.shape
    sign = -1.0 if lp.maximize else 1.0
    proto = model_pb2.ModelProto()
    proto.variables.ids.extend(range(n))
    proto.variables.lower_bounds.extend(lp.lower.tolist())
    proto.variables.upper_bounds.extend(lp.upper.tolist())
    proto.variables.integers.extend(lp.integral.tolist())
    proto.variables.names.extend(safe_names(lp.column_names))
    proto.linear_constraints.ids.extend(range(m))
    proto.linear_constraints.lower_bounds.extend(lp.row_lower.tolist())
    proto.linear_constraints.upper_bounds.extend(lp.row_upper.tolist())
    proto.linear_constraints.names.extend(safe_names(lp.row_names))
    rows = lp.A.tocsr()  # MathOpt needs entries row by row
    rows.sort_indices()
    proto.linear_constraint_matrix.row_ids.extend(np.repeat(np.arange(m), np.diff(rows.indptr)).tolist())
    proto.linear_constraint_matrix.column_ids.extend(rows.indices.tolist())
    proto.linear_constraint_matrix.coefficients.extend(rows.data.tolist())
    priced = np.flatnonzero(lp.c)
    proto.objective.maximize, proto.objective.offset = lp.maximize, sign * lp.offset
    proto.objective.linear_coefficients.ids.extend(priced.tolist())
    proto.objective.linear_coefficients.values.extend((sign * lp.c[priced]).tolist())
    return mathopt.Model.from_model_proto(proto)


def _arrays(proto: Any) -> LinearProgram:
    """Return the LP of a ModelProto, whose ids ascend."""
    from scipy.sparse import csc_array

    beyond = [name.replace("_", " ") for name in _BEYOND if len(getattr(proto, name))]
    if len(proto.objective.quadratic_coefficients.row_ids):
        beyond.append("a quadratic objective")
    if beyond:
        what = ", ".join(beyond)
        raise UnsupportedError(f"from_mathopt: the model has {what}; copter takes linear programs")
    columns, rows, matrix = proto.variables, proto.linear_constraints, proto.linear_constraint_matrix
    column_ids, row_ids = np.array(columns.ids, np.int64), np.array(rows.ids, np.int64)
    sign = -1.0 if proto.objective.maximize else 1.0
    costs = np.zeros(column_ids.size)
    linear = proto.objective.linear_coefficients
    costs[np.searchsorted(column_ids, linear.ids)] = _numbers(linear.values)
    at = np.searchsorted(row_ids, matrix.row_ids), np.searchsorted(column_ids, matrix.column_ids)
    return LinearProgram(
        sign * costs,
        csc_array((_numbers(matrix.coefficients), at), shape=(row_ids.size, column_ids.size)),
        _numbers(rows.lower_bounds),
        _numbers(rows.upper_bounds),
        _numbers(columns.lower_bounds),
        _numbers(columns.upper_bounds),
        sign * proto.objective.offset,
        np.array(columns.integers, np.bool_),
        proto.objective.maximize,
        tuple(columns.names),
        tuple(rows.names),
    )


def _numbers(values: Any) -> NDArray[np.float64]:
    return np.array(values, np.float64)
