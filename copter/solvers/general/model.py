"""Model: a linear or mixed-integer program that is kept in HiGHS, with a certificate of each answer.

A :class:`Model` is made from a :class:`~copter.models.linear_program.LinearProgram` (arrays or a file), or
from a source of one: a model of OR-Tools MathOpt, or a problem of cvxpy. Its numbers stay in the user's
units. An update replaces arrays. The next solve compares them with those that HiGHS has, and passes only the
differences (:mod:`copter.models.highs_lp`).

An LP with at least `LARGE` columns that is an allocation is solved as a ContinualProgram
(:mod:`copter.solvers.general.allocation`) if it is very large or many of its costs changed.
``details["engine"]`` of the solution is then "program".
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.sparse import csc_array, hstack, issparse, vstack

from copter.clock import Clock, ctrl_c_cancels, current, running
from copter.errors import ArgumentTypeError, ConcurrentUseError, EditError, SettingError, choices
from copter.keywords import suggests
from copter.models.arrays import safe_names
from copter.models.highs_lp import HighsLP, LPAnswer, LPChanges, changes_between
from copter.models.linear_program import LinearProgram, checked, supported
from copter.proof.general_lp import LPCertificate, LPRay
from copter.solvers.general.integer import IntegerAnswer, solve_integer
from copter.solvers.general.scipy_arguments import box, costs, kinds_of_columns, numbers
from copter.solvers.settings import as_limit, share
from copter.status import Status

if TYPE_CHECKING:
    from copter.solvers.general.allocation import LPProgram
    from copter.solvers.proximal.solver import ProximalPoint

LARGE, _HEAVY = 10_000, 2e9
"""Least number of columns of an allocation LP that may be solved as a ContinualProgram, and product of its
numbers of rows and entries from which on it always is.
"""
_BROAD = 0.05
"""Least share of changed costs from which on such an LP is solved as a ContinualProgram."""


@dataclass(frozen=True, eq=False)
class ModelSolution:
    """Solution of a :class:`Model`, in the sense and the names of its source.

    Attributes
    ----------
    status : Status
        "optimal", "infeasible" and "unbounded" are reported by the solver and confirmed by the model's own
        residuals or by a ray.
    reason : str
        Reason why the solve ended, in words.
    objective : float
        Objective at ``x``; NaN without a point.
    x : (n,) ndarray
        Values of the columns; NaN without a point.
    y : (m,) ndarray
        Dual prices of the rows in copter's sign, for the minimisation: positive for an upper bound. NaN
        without prices, as for programs with integral columns.
    lp : LinearProgram
        The program that was solved.
    certificate : LPCertificate, optional
        Residuals and bound of a linear program, as a minimisation.
    integer : IntegerAnswer, optional
        Bound, gap and checks of a program with integral columns, as a minimisation.
    ray : LPRay, optional
        Proof that a linear program is infeasible or unbounded.
    iterations : int
        Iterations of the solver, or nodes of branch and bound.
    seconds : float
        Time of the solve.
    details : mapping of str to object
        "solver": name of the solver; "engine": "highs", "branch and bound" or "program"; "start": start of
        the solve, for example "kept basis".

    Examples
    --------
    >>> from copter import from_arrays
    >>> found = from_arrays([-1.0, -2.0], A_ub=[[1.0, 1.0]], b_ub=[4.0], bounds=(0, 3)).solve()
    >>> str(found.status), found.objective, round(found.bound, 9), found.certified, found.x.tolist()
    ('optimal', -7.0, -7.0, True, [1.0, 3.0])
    """

    status: Status
    reason: str
    objective: float
    x: NDArray[np.float64]
    y: NDArray[np.float64]
    lp: LinearProgram = field(repr=False)
    certificate: LPCertificate | None = None
    integer: IntegerAnswer | None = None
    ray: LPRay | None = None
    iterations: int = 0
    seconds: float = 0.0
    details: Mapping[str, Any] = field(default_factory=dict)
    by_source: tuple[Any, Any] | None = field(default=None, repr=False)

    def __repr__(self) -> str:
        figures = f"objective {self.objective:.10g}, gap {self.gap:.1e}" if self.found else "no point"
        return f"<ModelSolution {self.status}: {figures}, {self.seconds:.3g} s, {self.details.get('start')}>"

    @property
    def values(self) -> Any:
        """Values of the columns, by the source's names if it has names, else an array."""
        if self.by_source is not None:
            return self.by_source[0]
        names = self.lp.column_names
        return dict(zip(names, self.x.tolist(), strict=True)) if names else self.x

    @property
    def duals(self) -> Any:
        """Duals of the rows by the source's names, or as an array without names.

        A dual is the change of the objective per unit of the row's bound. For cvxpy it is the constraint's
        multiplier.
        """
        if self.by_source is not None:
            return self.by_source[1]
        duals, names = self.y if self.lp.maximize else -self.y, self.lp.row_names
        return dict(zip(names, duals.tolist(), strict=True)) if names else duals

    @property
    def found(self) -> bool:
        """True if there is a point."""
        return self.certificate is not None or (self.integer is not None and self.integer.x is not None)

    @property
    def bound(self) -> float:
        """Bound on the optimum: a lower bound for a minimisation, an upper bound for a maximisation."""
        proof = self.certificate or self.integer
        bound = math.nan if proof is None or proof.bound is None else proof.bound
        return self.lp.own_sense(bound)

    @property
    def certified(self) -> bool:
        """True if the bound, or the ray, holds in exact arithmetic."""
        proof = self.ray or self.integer or self.certificate
        return proof is not None and proof.certified

    @property
    def gap(self) -> float:
        """Relative difference of objective and bound; NaN without a point.

        For an LP, the denominator is the larger of |objective| and |dual objective|, and at least a
        thousandth of the sum of the absolute terms of both, because terms may cancel. With integral columns,
        the denominator is |objective|.
        """
        proof = self.certificate or self.integer
        return math.nan if proof is None or proof.gap is None else proof.gap

    @property
    def primal_residual(self) -> float:
        """Largest violation of a row, relative to its size; NaN without a point.

        With integral columns the violation is in the row's own units.
        """
        if self.integer is not None:
            return self.integer.violation
        return math.nan if self.certificate is None else self.certificate.primal

    @property
    def dual_residual(self) -> float:
        """Largest relative reduced cost that drives a column towards a missing bound; NaN if unknown.

        It is known if the solution has a certificate.
        """
        return math.nan if self.certificate is None else self.certificate.dual


class _Source(Protocol):
    """Source of a model's linear program, which also receives solutions."""

    def read(self) -> LinearProgram:
        """Return the present linear program."""

    def deliver(self, found: ModelSolution) -> ModelSolution:
        """Return the solution with values and duals by the source's names."""


class Model:
    """Linear or mixed-integer program that is kept in HiGHS between solves.

    Parameters
    ----------
    source : LinearProgram or Source
        Program, for example from :func:`~copter.read_model`, or an object that has one.
    n_inequalities : int, optional
        Number of leading rows whose upper bounds are ``b_ub`` in :meth:`update`; all other rows have
        ``b_eq``.
    threads : int, optional
        Threads of HiGHS.

    Attributes
    ----------
    lp : LinearProgram
        The program as it is now. Its arrays must not be changed in place.

    Raises
    ------
    EditError
        If a number is invalid (:func:`copter.models.linear_program.checked`), or larger than HiGHS supports.

    Examples
    --------
    >>> from copter import from_arrays
    >>> model = from_arrays([-1.0, -2.0], A_ub=[[1.0, 1.0]], b_ub=[4.0], bounds=(0, 3))
    >>> model.solve().objective
    -7.0
    >>> model.update(b_ub=[5.0], c={0: -3.0})
    LPChanges(costs=1, bounds=0, rows=1, entries=0, integrality=0)
    >>> model.solve().objective
    -13.0
    """

    lp: LinearProgram

    def __init__(
        self,
        source: LinearProgram | _Source,
        *,
        n_inequalities: int | None = None,
        threads: int | None = None,
    ) -> None:
        self._source = None if isinstance(source, LinearProgram) else source
        if not hasattr(source, "read") and not isinstance(source, LinearProgram):
            why = "must be a LinearProgram, for example from read_model() or from_arrays()"
            raise ArgumentTypeError("Model", "source", source, why)
        self.lp = _checked(source if isinstance(source, LinearProgram) else source.read())
        m = self.lp.row_lower.size
        self._parts = (
            None if n_inequalities is None else np.repeat((True, False), (n_inequalities, m - n_inequalities))
        )
        self.threads = threads
        self._kept: HighsLP | None = None
        self._allocation: LPProgram | None = None
        self._solver: ProximalPoint | None = None
        self._solved: LinearProgram | None = None
        self._stale = self._unfit = self._busy = False
        self._narrow = 0

    def __repr__(self) -> str:
        rows, columns = self.lp.A.shape
        return f"<{type(self).__name__}: {rows:,} rows, {columns:,} columns>"

    # ---- updates ---------------------------------------------------------------------------------

    @suggests
    def update(
        self,
        lp: LinearProgram | None = None,
        *,
        c: Any = None,
        A: Any = None,
        b_ub: Any = None,
        b_eq: Any = None,
        row_lower: Any = None,
        row_upper: Any = None,
        bounds: Any = None,
        integrality: Any = None,
    ) -> LPChanges:
        """Change numbers of the program; the next solve begins from the last one.

        Every argument but `lp` is an array of full length, a pandas Series with the names as index, or a
        mapping of positions or names to new numbers. Without arguments, the source is read again.

        Parameters
        ----------
        lp : LinearProgram, optional
            Program that replaces the present one.
        c : (n,) array_like or mapping, optional
            Costs, in the sense of the source: those of the maximisation if it maximises.
        A : sparse array, array_like, or mapping of (row, column) to entry, optional
            Matrix of the same shape, or new entries.
        b_ub, b_eq : array_like or mapping, optional
            Right sides of the inequalities and of the equations of :func:`~copter.from_arrays`.
        row_lower, row_upper : (m,) array_like or mapping, optional
            Bounds of rows.
        bounds : optional
            Bounds of columns as in :func:`~copter.from_arrays`, or a mapping of positions or names to pairs.
        integrality : (n,) array_like or mapping, optional
            1 for integral columns, 0 for others.

        Returns
        -------
        LPChanges
            Numbers of changed costs, bounds of columns, bounds of rows, entries and integral columns.

        Raises
        ------
        EditError
            If an argument is invalid; the model does not change.
        """
        old = self.lp
        names = ("c", "A", "b_ub", "b_eq", "row_lower", "row_upper", "bounds", "integrality")
        values = (c, A, b_ub, b_eq, row_lower, row_upper, bounds, integrality)
        given = {name: value for name, value in zip(names, values, strict=True) if value is not None}
        if lp is not None and not isinstance(lp, LinearProgram):
            why = "must be a LinearProgram; give numbers by name, for example model.update(c=costs)"
            raise ArgumentTypeError("Model.update", "lp", lp, why)
        if lp is None and not given:
            lp = old if self._source is None else self._source.read()
        new = _checked(old if lp is None else lp, old)
        if given:
            new = _checked(_applied(new, self._parts, given), new)
        if new.A.shape != old.A.shape:
            self._kept = self._allocation = self._parts = None
            self._unfit = False
            self.lp = new
            return LPChanges(new.c.size, new.c.size, new.row_lower.size, new.A.nnz)
        self.lp = new
        return changes_between(old, new)

    def add_columns(
        self, c: ArrayLike, A: Any, *, bounds: Any = (0, None), integrality: Any = 0, names: Any = ()
    ) -> None:
        """Append columns: costs (k,), entries (m, k), bounds and integrality as for :func:`from_arrays`.

        Raises
        ------
        EditError
            If an argument is invalid; the model does not change.
        """
        old = self.lp
        cost = costs(c)
        k, m = cost.size, old.row_lower.size
        matrix = _matrix("A", A, (m, k))
        low, high = box(bounds, k)
        kinds = kinds_of_columns(integrality, k)
        lp = _checked(
            replace(
                old,
                c=np.concatenate((old.c, -cost if old.maximize else cost)),
                A=csc_array(hstack((old.A, matrix))),
                lower=np.concatenate((old.lower, low)),
                upper=np.concatenate((old.upper, high)),
                integral=np.concatenate((old.integral, kinds == 1)),
                semi=None if old.semi is None else np.concatenate((old.semi, np.zeros(k, np.bool_))),
                column_names=_more_names("column", old.column_names, names, k, old.c.size),
            )
        )
        self._reshaped(lp, np.append(np.arange(old.c.size), np.full(k, -1)), np.arange(m))

    def add_rows(self, A: Any, row_lower: Any = -np.inf, row_upper: Any = np.inf, *, names: Any = ()) -> None:
        """Append rows: entries (k, n) and bounds, one number for all rows or one for each.

        Raises
        ------
        EditError
            If an argument is invalid; the model does not change.
        """
        old = self.lp
        n = old.c.size
        matrix = _matrix("A", A, (None, n))
        k = matrix.shape[0]
        sides: dict[str, Any] = {}
        for name, given in (("row_lower", row_lower), ("row_upper", row_upper)):
            own = np.full(k, given, np.float64) if np.ndim(given) == 0 else _vector(name, given, k)
            sides[name] = np.concatenate((getattr(old, name), own))
        rows = _more_names("row", old.row_names, names, k, old.row_lower.size)
        lp = _checked(replace(old, A=csc_array(vstack((old.A, matrix))), row_names=rows, **sides))
        if self._parts is not None:
            self._parts = np.concatenate((self._parts, np.isinf(sides["row_lower"][old.row_lower.size :])))
        self._reshaped(lp, np.arange(n), np.append(np.arange(old.row_lower.size), np.full(k, -1)))

    def remove_columns(self, columns: Any) -> None:
        """Remove columns by positions or names.

        Raises
        ------
        EditError
            If a column is unknown or given twice; the model does not change.
        """
        self._removed(_positions("column", columns, self.lp.c.size, self.lp.column_names), None)

    def remove_rows(self, rows: Any) -> None:
        """Remove rows by positions or names.

        Raises
        ------
        EditError
            If a row is unknown or given twice; the model does not change.
        """
        self._removed(None, _positions("row", rows, self.lp.row_lower.size, self.lp.row_names))

    def _removed(self, columns: NDArray[np.int32] | None, rows: NDArray[np.int32] | None) -> None:
        old, none = self.lp, np.empty(0, np.int32)
        stay = np.delete(np.arange(old.c.size), none if columns is None else columns)
        rest = np.delete(np.arange(old.row_lower.size), none if rows is None else rows)
        lp = replace(
            old,
            A=csc_array(old.A[:, stay].tocsr()[rest]),
            **{name: getattr(old, name)[stay] for name in ("c", "lower", "upper", "integral")},
            **{name: getattr(old, name)[rest] for name in ("row_lower", "row_upper")},
            semi=None if old.semi is None else old.semi[stay],
            column_names=tuple(old.column_names[j] for j in stay) if old.column_names else (),
            row_names=tuple(old.row_names[i] for i in rest) if old.row_names else (),
        )
        self._parts = None if self._parts is None else self._parts[rest]
        self._reshaped(lp, stay, rest)

    def _reshaped(self, lp: LinearProgram, columns: NDArray[np.int64], rows: NDArray[np.int64]) -> None:
        if self._kept is not None:
            self._kept.follow(self.lp)
            self._kept.reshape(lp, columns, rows)
        self.lp, self._allocation, self._unfit = lp, None, False

    # ---- solve -----------------------------------------------------------------------------------

    @suggests
    def solve(self, *, tolerance: float = 1e-6, time_limit: float | None = None) -> ModelSolution:
        """Solve the program in its present state, from the last basis.

        Parameters
        ----------
        tolerance : float
            Largest relative residuals and gap of an optimal answer; for a program with integral columns the
            relative gap at which branch and bound ends.
        time_limit : float, optional
            Seconds for the whole call.

        Returns
        -------
        ModelSolution

        Raises
        ------
        SettingError
            If the tolerance or the time limit is invalid.
        ConcurrentUseError
            If the model is being solved.
        KeyboardInterrupt
            If Ctrl-C was pressed; the model can be used afterwards.
        """
        for name, value, check in (("tolerance", tolerance, share), ("time_limit", time_limit, as_limit)):
            try:
                check(value)
            except ValueError as error:
                raise SettingError("Model.solve", name, value, str(error)) from None
        return self.solve_by(lambda clock: self.solve_within(tolerance, clock), time_limit)

    def solve_by(self, solve: Callable[[Clock], ModelSolution], seconds: float | None) -> ModelSolution:
        """Return a solution that a function finds within some seconds; solvers call this method."""
        clock = Clock(seconds, parent=current())
        with self._solving(), ctrl_c_cancels(clock), running(clock):
            found = solve(clock)
        found = replace(found, seconds=clock())
        return found if self._source is None else self._source.deliver(found)

    @contextmanager
    def _solving(self) -> Iterator[None]:
        if self._busy:
            raise ConcurrentUseError("the model is being solved: use one model a thread")
        self._busy = True
        try:
            yield
        finally:
            self._busy = False

    def solve_within(self, tolerance: float, clock: Clock) -> ModelSolution:
        """Solve the program until a clock has run out."""
        lp = self.lp
        if lp.integral.any() or lp.semi is not None:
            return self.integer_solution(solve_integer(lp, tolerance, clock, threads=self.threads))
        by_program = self._wants_program()
        self._solved = lp
        if by_program:
            answer = self._by_program(tolerance, clock)
            if answer is not None:
                return self.solution(answer, engine="program")
        self._stale = False
        return self.solution(self._in_highs().solve(tolerance, clock))

    def _in_highs(self) -> HighsLP:
        if self._kept is None:
            self._kept = HighsLP(self.lp, self.threads)
        self._kept.follow(self.lp)
        return self._kept

    def _wants_program(self) -> bool:
        """Return whether the LP is a large allocation of which many costs changed.

        HiGHS' basis is faster for small changes. If the basis is old, only a second small change in
        succession is worth the run that brings it up to date.
        """
        lp, last = self.lp, self._solved
        if lp.c.size < LARGE or self._unfit:
            return False
        if lp.A.shape[0] * lp.A.nnz >= _HEAVY:
            return True
        if last is None or last.A.shape != lp.A.shape:
            return False
        if (lp.c != last.c).mean() >= _BROAD:
            self._stale, self._narrow = True, 0
            return True
        self._narrow += 1
        return self._stale and self._narrow < 2

    def _by_program(self, tolerance: float, clock: Clock) -> LPAnswer | None:
        """Return the answer of copter's solver; None without a proof, or if the LP is not an allocation."""
        from copter.solvers.general.allocation import found_allocation

        if self._allocation is None or not self._allocation.follow(self.lp):
            self._allocation = found_allocation(self.lp)
        self._unfit = self._allocation is None
        if self._allocation is None:
            return None
        if self._solver is None:
            # small programs do without numba, whose import takes a second
            from copter.solvers.proximal.solver import ProximalPoint

            self._solver = ProximalPoint()
        self._solver.tolerance, self._solver.threads = tolerance, self.threads
        left = clock.left() / 2
        solution = self._solver.solve(self._allocation.program, time_limit=left if left < math.inf else None)
        if not solution.found:
            return None
        proof = self._in_highs().checker.certificate(*self._allocation.point(solution))
        if not proof.confirms(tolerance):
            return None
        start = "last point" if solution.warm_started else "cold"
        return LPAnswer(Status.OPTIMAL, solution.reason, proof, None, solution.iterations, 0, start)

    # ---- answers ---------------------------------------------------------------------------------

    def solution(self, answer: LPAnswer, **details: Any) -> ModelSolution:
        """Return an answer for the LP as a minimisation in the sense and the names of the source."""
        proof, lp = answer.certificate, self.lp
        if lp.integral.any() or lp.semi is not None:
            answer = replace(answer, reason=f"relaxation without integrality: {answer.reason}")
        objective, x, y = (math.nan, None, None) if proof is None else (proof.objective, proof.x, proof.y)
        about = {"engine": "highs", "start": answer.start} | details
        found = self._solution(answer, objective, x, y, about)
        return replace(found, certificate=proof, ray=answer.ray, iterations=answer.iterations)

    def integer_solution(self, answer: IntegerAnswer, **details: Any) -> ModelSolution:
        """Return an answer of branch and bound in the sense and the names of the source."""
        objective = math.nan if answer.objective is None else answer.objective
        about = {"engine": "branch and bound", "start": "cold"} | details
        found = self._solution(answer, objective, answer.x, None, about)
        return replace(found, integer=answer, iterations=answer.nodes or 0)

    def _solution(
        self,
        answer: LPAnswer | IntegerAnswer,
        objective: float,
        x: NDArray[np.float64] | None,
        y: NDArray[np.float64] | None,
        details: dict[str, Any],
    ) -> ModelSolution:
        lp = self.lp
        return ModelSolution(
            answer.status,
            answer.reason,
            lp.own_sense(objective),
            np.full(lp.c.size, np.nan) if x is None else x,
            np.full(lp.row_lower.size, np.nan) if y is None else y,
            lp,
            details={"solver": "copter"} | details,
        )


# ---- arguments of updates ----------------------------------------------------------------------------------


def _checked(lp: LinearProgram, old: LinearProgram | None = None) -> LinearProgram:
    """Return a checked LP within HiGHS' range; only arrays that differ from those of `old` are checked."""
    return supported(checked(lp, old), old)


def _applied(lp: LinearProgram, parts: NDArray[np.bool_] | None, given: Mapping[str, Any]) -> LinearProgram:
    """Return the LP with new arrays from the arguments of :meth:`Model.update`."""
    new: dict[str, Any] = {}
    n, columns, rows = lp.c.size, lp.column_names, lp.row_names
    sign = -1.0 if lp.maximize else 1.0
    if "c" in given:
        new["c"] = sign * _vector("c", given["c"], sign * lp.c, columns)
    for name in ("row_lower", "row_upper"):
        if name in given:
            new[name] = _vector(name, given[name], getattr(lp, name), rows)
    for name, at in (("b_ub", True), ("b_eq", False)):
        if name in given:
            if parts is None:
                why = "is for models of from_arrays; give row_lower and row_upper"
                raise EditError("Model.update", name, given[name], why)
            which = np.flatnonzero(parts == at)
            side = _vector(name, given[name], lp.row_upper[which])
            new["row_upper"] = new.get("row_upper", lp.row_upper).copy()
            new["row_upper"][which] = side
            if not at:
                new["row_lower"] = new.get("row_lower", lp.row_lower).copy()
                new["row_lower"][which] = side
    if "bounds" in given:
        pairs = given["bounds"]
        if isinstance(pairs, Mapping):
            own = np.column_stack((lp.lower, lp.upper))
            at_columns = _positions("column", list(pairs), n, columns)
            own[at_columns] = np.column_stack(box(list(pairs.values()), len(pairs))) if pairs else own[:0]
            new["lower"], new["upper"] = own.T.copy()
        else:
            new["lower"], new["upper"] = box(pairs, n)
    if "integrality" in given:
        kinds = given["integrality"]
        if isinstance(kinds, Mapping):
            kinds = _vector("integrality", kinds, lp.integral.astype(np.float64), columns)
        kinds = kinds_of_columns(kinds, n)
        if (kinds > 1).any():
            raise EditError("Model.update", "integrality", int(kinds.max()), "must be 0 or 1")
        new["integral"] = kinds == 1
    if "A" in given:
        new["A"] = _entries(lp, given["A"])
    return replace(lp, **new)


def _entries(lp: LinearProgram, given: Any) -> csc_array:
    """Return a new matrix, or the matrix with new entries."""
    if not isinstance(given, Mapping):
        return _matrix("A", given, lp.A.shape)
    m, n = lp.A.shape
    if not all(isinstance(key, tuple) and len(key) == 2 for key in given):
        raise EditError("Model.update", "A", list(given)[:1], "must have pairs (row, column) as keys")
    i = _positions("row", [key[0] for key in given], m, lp.row_names, distinct=False)
    j = _positions("column", [key[1] for key in given], n, lp.column_names, distinct=False)
    matrix = lp.A.copy()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that new places are slow
        matrix[i, j] = _vector("A", list(given.values()), i.size)
    return matrix


def _matrix(name: str, given: Any, shape: tuple[int | None, int | None]) -> csc_array:
    """Return a matrix of a shape, in which None is any number."""
    found = given if issparse(given) else numbers(name, given)
    if found.ndim != 2 or any(a is not None and a != b for a, b in zip(shape, found.shape, strict=True)):
        raise EditError("Model", name, found.shape, f"must have the shape {shape}")
    return csc_array(found, dtype=np.float64)


def _vector(
    name: str, given: Any, old: NDArray[np.float64] | int, names: tuple[str, ...] = ()
) -> NDArray[np.float64]:
    """Return a full array from an array_like, a Series by its index, or a mapping of positions or names."""
    size = old if isinstance(old, int) else old.size
    kind = "row" if name.startswith(("row", "b_")) else "column"
    if hasattr(given, "reindex"):
        from copter.program.series import by_id

        given = by_id("Model.update", name, given, names or range(size))
    if isinstance(given, Mapping):
        at = _positions(kind, list(given), size, names)
        found = np.zeros(size) if isinstance(old, int) else old.copy()
        found[at] = _vector(name, list(given.values()), at.size)
        return found
    found = numbers(name, given)
    if found.shape != (size,):
        why = f"must have {size} numbers, one a {kind}, or be a mapping of positions or names to numbers"
        raise EditError("Model.update", name, f"an array of shape {found.shape}", why)
    return found


def _positions(
    kind: str, given: Any, size: int, names: tuple[str, ...], *, distinct: bool = True
) -> NDArray[np.int32]:
    """Return the positions of rows or columns that are given by position or by name."""
    by_name: dict[str, int] = {}
    if isinstance(given, str | int | np.integer):
        given = [given]
    found = np.empty(len(given), np.int32)
    for k, key in enumerate(given):
        if isinstance(key, str):
            by_name = by_name or {name: j for j, name in enumerate(names)}
            if key not in by_name:
                why = choices(key, names) if names else "the model has no names; give positions"
                raise EditError("Model.update", kind, key, f"there is no such {kind}; {why}")
            found[k] = by_name[key]
        elif isinstance(key, int | np.integer) and not isinstance(key, bool) and 0 <= key < size:
            found[k] = key
        else:
            raise EditError("Model.update", kind, key, f"must be a name or a position from 0 to {size - 1}")
    if distinct and np.unique(found).size < found.size:
        raise EditError("Model.update", kind, list(given)[:3], f"a {kind} is given twice")
    return found


def _more_names(kind: str, old: tuple[str, ...], new: Any, count: int, size: int) -> tuple[str, ...]:
    """Return the names after `count` additions; a model without names gets none."""
    new = tuple(map(str, new))
    if not old and not new:
        return ()
    old = old or tuple(f"{kind[0]}{k}" for k in range(size))
    if not new:
        return safe_names([*old, *(f"{kind[0]}{size + k}" for k in range(count))])
    if len(new) != count or len({*old, *new}) < size + count:
        raise EditError("Model", "names", new[:3], f"must be {count} names that no other {kind} has")
    return old + new
