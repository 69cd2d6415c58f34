"""Explanation of a solution for one request: which columns it has, and why it has no others.

Let x be the allocation, y the dual prices, and d(y) the certified bound on the objective c'x of costs to be
minimised (:mod:`copter.proof.pricing`).  A request q contributes m_q = min { p_q'z : z in X_q } to the bound,
with p = c + A'y.  If the request must take v units of its column j, its contribution is the minimum m_qj over
the z in X_q with z_j = v.  Therefore every allocation with x_qj = v costs at least

    d(y) - m_q + m_qj - y_i more

if the upper bound of resource i is increased by `more` units.  The first three terms minus the objective are
the `loss` of the column.  No optimal allocation has x_qj = v while the increase of resource i is less than
loss / y_i.  m_q and m_qj are computed in rational numbers.  The loss is reduced by the rounding error of
objective and bound, and by the cost of the allocation's violations within the tolerance. A convex term is
replaced by its tangent at the allocation, which is nowhere above the term.

No allocation has x_qj = v if a resource excludes it: the use by v units, the least use by the request's other
columns, and the least use by all other requests sum to more than the resource's upper bound.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Iterator, Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from html import escape
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from copter.errors import UnknownIdError
from copter.program.sense import in_sense
from copter.proof.certificate import Certificate, measured_certificate
from copter.proof.pricing import price
from copter.store.reading import effective_costs, upper_bounds, usage_columns
from copter.terms.batch import TermBatch

if TYPE_CHECKING:
    from copter.program.program import ContinualProgram
    from copter.store.allocation import SparseX

_HAS = 1e-6
"""A request has a column if the column's value exceeds this fraction of its largest value as the only
column."""
_SLOPE_ERROR = 2.0**-40
"""Bound on the relative rounding error of a tangent's slope."""
_CHUNK = 4096
"""Number of requests whose usage is read at once."""


@dataclass(frozen=True)
class ColumnReason:
    """Reason why a request has this much of a column and not more.

    Costs are in the sense of the program: in a maximisation, a cost is a value.

    Attributes
    ----------
    column : Hashable
        Number or name of the column.
    value : float
        Value in the allocation.
    has : bool
        True if `value` is more than a millionth of the column's largest value as the request's only column.
    most : float
        Largest value that the request's bounds and total allow; 1 if they set no limit.
    cost : float
        Contribution of one unit of the column to the objective.
    prices : mapping of resource id to float
        Dual price times the use of one unit, for each resource whose dual price is not 0.
    lacking : mapping of resource id to float
        Missing amount of each resource that has too little left for `most` units of the column, if all other
        requests keep their columns and this request has none. Only resources with a positive coefficient
        count.
    loss : float
        Every allocation with `most` units of the column is at least this much worse than the solution. 0 if
        the certificate does not exclude that such an allocation is equally good. Infinite if no allocation
        has `most` units, because of the resources in `blocked` or, if `blocked` is empty, because of the
        request's total.
    fall : float
        The column's cost must improve by at least this much per unit before an allocation with `most` units
        of the column can be optimal.
    increases : mapping of resource id to float
        For each resource with a positive price: if only the upper bound of this resource is increased, and by
        less than this, no optimal allocation has `most` units of the column.
    blocked : mapping of resource id to (need, left)
        Resources of which `most` units of the column need more than any allocation leaves. `need` is the use
        by these units alone, and `left` is an upper bound on what any allocation leaves for them.
    """

    column: Hashable
    value: float
    has: bool
    most: float
    cost: float
    prices: Mapping[Hashable, float]
    lacking: Mapping[Hashable, float]
    loss: float
    fall: float
    increases: Mapping[Hashable, float]
    blocked: Mapping[Hashable, tuple[float, float]] = field(default_factory=dict)


@dataclass(frozen=True)
class Explanation:
    """Columns of a request in a solution, and reasons why it has no others; ``str`` returns sentences.

    Attributes
    ----------
    request : Hashable
    columns : tuple of ColumnReason
        The columns of the request, in their order.
    cost : float
        Part of the objective that the request's columns cause, without its convex term.
    has_term : bool
        True if the request has a convex term.
    too_large : tuple of (column, resource id, use, upper)
        Not empty if the request is integral and one unit of each of its columns exceeds the upper bound of a
        resource. It then has each column, its first such resource, the use by one unit, and the bound. Such a
        request has nothing in any integral allocation, unless another request's use is negative.
    """

    request: Hashable
    columns: tuple[ColumnReason, ...]
    cost: float
    has_term: bool
    too_large: tuple[tuple[Hashable, Hashable, float, float], ...]

    @property
    def sentences(self) -> tuple[str, ...]:
        """The explanation as sentences, each of which is true by itself."""
        return tuple(_sentences(self))

    def __str__(self) -> str:
        return "\n".join(self.sentences)

    def _repr_html_(self) -> str:
        return "".join(f"<p>{escape(sentence)}</p>" for sentence in self.sentences)


def explain(
    program: ContinualProgram,
    x: SparseX,
    y: NDArray[np.float64],
    request: Hashable,
) -> Explanation:
    """Explain an allocation x and dual prices y (row slots,) of a program for one request.

    :meth:`copter.Solution.explain` calls this function after it has checked that x and y belong to the
    present program.
    """
    if request not in program.slot_of:
        raise UnknownIdError(request, "the program has no such request")
    found = _Facts.of(program, x, y)
    one = _Request.of(program, found, program.slot_of[request])
    columns = tuple(one.reason(found, j) for j in range(one.cost.size))
    cost = in_sense(float(one.cost @ one.value), program.sense)
    has_term = one.slot in program.store.terms.slots()
    return Explanation(request, columns, cost, has_term, one.too_large(found))


class _Facts(NamedTuple):
    """Certificate, prices and sums of the rows of a whole solution, by row slot."""

    program: ContinualProgram
    x: SparseX
    y: NDArray[np.float64]
    proof: Certificate
    activity: NDArray[np.float64]
    weight: NDArray[np.float64]
    ids: dict[int, Hashable]
    others: dict[int, float]  # by row: least use by all requests but the explained one, where it is known

    @classmethod
    def of(cls, program: ContinualProgram, x: SparseX, y: NDArray[np.float64]) -> _Facts:
        # The bound of the solution may come from other prices, or from a proof without prices.
        pricing = price(program.store, y, slack=0.0)
        proof, sums = measured_certificate(program.store, x, y, pricing)
        ids = dict(zip(program.resource_slots.tolist(), program.resource_ids, strict=True))
        return cls(program, x, y, proof, sums.activity, sums.weight, ids, {})

    @property
    def gap(self) -> Fraction | None:
        """Objective minus bound, plus the error that rounding and violations may hide; None if infinite."""
        proof = self.proof
        hidden = proof.rounding + proof.relative.primal * proof.gap_denominator
        if not (math.isfinite(proof.bound) and math.isfinite(hidden)):
            return None
        return Fraction(proof.objective) - Fraction(proof.bound) + Fraction(hidden)


class _Request(NamedTuple):
    """One request: its columns as dense arrays, and the exact prices p of its columns."""

    slot: int
    names: tuple[Hashable, ...]
    cost: NDArray[np.float64]
    upper: NDArray[np.float64]
    exact: bool
    total: float
    value: NDArray[np.float64]
    uses: list[dict[int, float]]  # of each column: coefficient by row slot
    p: list[Fraction]
    most: NDArray[np.float64]  # largest value of each column that bounds and total allow
    alone: NDArray[np.float64]  # the smaller of `most` and the rows' limits on the column alone
    least: Fraction | None  # m_q, or a larger value; None if unknown

    @classmethod
    def of(cls, program: ContinualProgram, facts: _Facts, slot: int) -> _Request:
        store, at = program.store, np.array([slot])
        numbers = range(int(store.requests.n_columns[slot]))
        names = tuple(program.column_names.column(slot, j) for j in numbers)
        cost, upper = effective_costs(store, at), upper_bounds(store, at)
        exact, total = bool(store.requests.exact[slot]), float(store.requests.total[slot])
        block, value = usage_columns(store, at), np.zeros(cost.size)
        mine = facts.x.between(slot, slot + 1)
        value[mine.column] = mine.value
        ends = np.cumsum(block.counts)
        uses: list[dict[int, float]] = [{} for _ in names]
        for j, (first, last) in enumerate(zip((ends - block.counts).tolist(), ends.tolist(), strict=True)):
            uses[j] = dict(zip(block.row[first:last].tolist(), block.value[first:last].tolist(), strict=True))
        p = [
            Fraction(c) + sum((Fraction(facts.y[i]) * Fraction(a) for i, a in use.items()), Fraction())
            for c, use in zip(cost.tolist(), uses, strict=True)
        ]
        most = np.minimum(upper, total)
        alone = most.copy()
        for j, use in enumerate(uses):
            limits = [float(store.rows.upper[i]) / a for i, a in use.items() if a > 0.0]
            alone[j] = min([alone[j], *(limit for limit in limits if limit > 0.0)])
        one = cls(slot, names, cost, upper, exact, total, value, uses, p, most, alone, None)
        if slot in store.terms.slots():
            return one.with_term(TermBatch.of(store))
        return one._replace(least=_least(one, None, Fraction()))

    def with_term(self, batch: TermBatch) -> _Request:
        """Return the request with its term's tangent added to p, and with p'x in place of m_q."""
        k = int(np.searchsorted(batch.slot, self.slot))
        image = batch.image[batch.first[k] : batch.first[k + 1]]
        z = self.inside()
        t = np.zeros(len(batch))
        t[k] = float(sum(Fraction(a) * each for a, each in zip(image.tolist(), z, strict=True)))
        slope = float(batch.slope(t)[k])
        if not math.isfinite(slope):
            return self
        p = [each + Fraction(slope) * Fraction(a) for each, a in zip(self.p, image.tolist(), strict=True)]
        reach = t[k] + float(image[image != 0.0] @ self.most[image != 0.0])
        if not math.isfinite(reach):
            return self
        error = Fraction(_SLOPE_ERROR * abs(slope) * reach)
        return self._replace(p=p, least=sum((a * b for a, b in zip(p, z, strict=True)), error))

    def inside(self) -> list[Fraction]:
        """Return the request's values, moved within its bounds and its total."""
        z = [Fraction(v) for v in np.clip(self.value, 0.0, self.upper).tolist()]
        size = sum(z, Fraction())
        if not size or self.total == np.inf:
            return z
        total = Fraction(self.total)
        return z if not self.exact and size <= total else [each * total / size for each in z]

    def reason(self, facts: _Facts, j: int) -> ColumnReason:
        """Return the reason for the value of a column."""
        store, sense = facts.program.store, facts.program.sense
        most = float(self.most[j])
        most = most if math.isfinite(most) else 1.0
        prices, lacking, blocked = {}, {}, {}
        accuracy = max(1e-9, facts.proof.relative.primal)
        for i, use in self.uses[j].items():
            if facts.y[i]:
                prices[facts.ids[i]] = float(facts.y[i] * use)
            own = sum(a.get(i, 0.0) * float(v) for a, v in zip(self.uses, self.value, strict=True))
            free = float(store.rows.upper[i]) - (float(facts.activity[i]) - own)
            error = accuracy * float(facts.weight[i] + abs(use) * most)
            if use > 0.0 and use * most > free + error:
                lacking[facts.ids[i]] = use * most - (free if abs(free) > error else 0.0)
                left = self.most_left(facts, i, j, most)
                if use * most > left + error + accuracy * abs(left):
                    blocked[facts.ids[i]] = use * most, left
        loss = math.inf if blocked else self.loss(facts, j, most)
        increases = {
            facts.ids[i]: _below(Fraction(loss) / Fraction(facts.y[i]))
            for i in self.uses[j]
            if facts.y[i] > 0.0 and 0.0 < loss < math.inf
        }
        fall = _below(Fraction(loss) / Fraction(most)) if 0.0 < loss < math.inf and most else loss
        cost = in_sense(float(self.cost[j]), sense)
        return ColumnReason(
            self.names[j],
            float(self.value[j]),
            bool(self.value[j] > _HAS * self.alone[j]),
            most,
            cost,
            prices,
            lacking,
            loss,
            fall,
            increases,
            blocked,
        )

    def loss(self, facts: _Facts, j: int, most: float) -> float:
        """Return by how much an allocation with the most of a column is worse at least, rounded down."""
        with_it, gap = _least(self, j, Fraction(most)), facts.gap
        if with_it is None:
            return math.inf
        if gap is None or self.least is None:
            return 0.0
        return max(0.0, _below(with_it - self.least - gap))

    def most_left(self, facts: _Facts, i: int, j: int, most: float) -> float:
        """Return an upper bound on the amount of a row that any allocation leaves for the most of a column.

        If the row's upper bound has room for the most of the column, the bound is not needed, and is
        infinite.
        """
        store = facts.program.store
        upper = float(store.rows.upper[i])
        if self.uses[j].get(i, 0.0) * most <= upper:
            return math.inf
        own = [Fraction(use.get(i, 0.0)) for use in self.uses]
        least = _least(self._replace(p=own), j, Fraction(most))
        if least is None:
            return math.inf  # the total excludes it, which is another reason
        if i not in facts.others:
            facts.others[i] = _least_use(facts.program, i, self.slot)
        return upper - float(least - own[j] * Fraction(most)) - facts.others[i]

    def too_large(self, facts: _Facts) -> tuple[tuple[Hashable, Hashable, float, float], ...]:
        """Return a resource that is too small for each column; empty if a column, or a part of one, fits."""
        store = facts.program.store
        if not store.requests.integral[self.slot]:
            return ()
        upper, found = store.rows.upper, []
        for name, use in zip(self.names, self.uses, strict=True):
            over = next((i for i, a in use.items() if a > upper[i]), None)
            if over is None:
                return ()
            found.append((name, facts.ids[over], use[over], float(upper[over])))
        return tuple(found)


def _least(one: _Request, fixed: int | None, amount: Fraction) -> Fraction | None:
    """Return min p'z over the z of a request, with z = `amount` in column `fixed`; None if no z has it."""
    bounded = one.total < np.inf
    room = Fraction(one.total) - amount if bounded else None
    if room is not None and room < 0:
        return None
    value = Fraction()
    others = []
    for j, (p, upper) in enumerate(zip(one.p, one.upper.tolist(), strict=True)):
        if j == fixed:
            value += p * amount
        else:
            others.append((p, upper))
    for p, upper in sorted(others):
        if p >= 0 and not one.exact:
            break
        much = Fraction(upper) if upper < math.inf else room
        assert much is not None  # every column has a bound or a total
        if room is not None:
            much = min(much, room)
            room -= much
        value += p * much
    return None if one.exact and room else value


def _least_use(program: ContinualProgram, i: int, but: int) -> float:
    """Return a lower bound on the use of a row by all requests but one: the sum of their negative parts.

    A request with a total uses at least the smaller of 0 and its total times its least coefficient.
    """
    store, table, whole = program.store, program.store.requests, 0.0
    every = program.request_slots[program.request_slots != but]
    for slots in (every[begin : begin + _CHUNK] for begin in range(0, every.size, _CHUNK)):
        block = usage_columns(store, slots)
        columns = np.repeat(np.arange(block.counts.size), block.counts)
        of_row = (block.row == i) & (block.value < 0.0)
        if not of_row.any():
            continue
        value, columns = block.value[of_row], columns[of_row]
        owner = np.repeat(np.arange(slots.size), table.n_columns[slots])[columns]
        alone = np.bincount(owner, value * upper_bounds(store, slots)[columns], slots.size)
        least = np.zeros(slots.size)
        np.minimum.at(least, owner, value)
        with_total = np.multiply(least, table.total[slots], out=np.zeros(slots.size), where=least < 0.0)
        whole += float(np.maximum(alone, with_total).sum())
    return whole


def _below(exact: Fraction) -> float:
    """Return the largest float that is at most a rational number."""
    try:
        near = float(exact)
    except OverflowError:
        return -math.inf if exact < 0 else float(np.finfo(float).max)
    return near if Fraction(near) <= exact else math.nextafter(near, -math.inf)


# ---- sentences ---------------------------------------------------------------------------------------


def _sentences(one: Explanation) -> Iterator[str]:
    name = repr(one.request)
    has = [each for each in one.columns if each.has]
    besides = ", besides its convex term" if one.has_term else ""
    if has:
        what = ", ".join(f"{each.value:.6g} of column {each.column!r}" for each in has)
        yield f"Request {name} has {what}, which contributes {one.cost:.6g} to the objective{besides}."
    else:
        yield f"Request {name} has nothing."
    for column, resource, use, upper in one.too_large:
        yield f"A unit of column {column!r} needs {use:.6g} of {resource!r}, whose bound is {upper:.6g}."
    for each in one.columns:
        if each.value < (1.0 - _HAS) * each.most:
            yield from _column_sentences(each, besides)


def _column_sentences(one: ColumnReason, besides: str) -> Iterator[str]:
    what = f"{one.most:.6g} of column {one.column!r}"
    if one.blocked:
        resource, (need, left) = next(iter(one.blocked.items()))
        yield (
            f"No allocation has {what}, because it needs {need:.6g} of {resource!r}, "
            f"and no allocation leaves more than {rounded_up(left)}."
        )
        return
    if one.loss == math.inf:
        yield f"No allocation has {what}, because the request's total must be met by other columns too."
        return
    if one.loss > 0.0:
        yield (
            f"Every allocation with {what} is worse by at least {rounded_down(one.loss)}; "
            f"the column's cost must improve by at least {rounded_down(one.fall)} a unit "
            "before one is optimal."
        )
    else:
        yield f"The certificate does not exclude that an allocation with {what} is as good as this one."
    for resource, missing in one.lacking.items():
        yield f"For {what}, {missing:.6g} more of {resource!r} is needed than the other requests leave."
    if one.prices:
        paid = " and ".join(f"{price:.6g} for {resource!r}" for resource, price in one.prices.items())
        yield (
            f"A unit of column {one.column!r} adds {one.cost:.6g} to the objective{besides}; "
            f"at the dual prices, the resources that it uses are worth {paid}."
        )
    for resource, more in one.increases.items():
        yield (
            f"If only {resource!r} is increased, no optimal allocation has {what} "
            f"before the increase is {rounded_down(more)}."
        )


def rounded_down(value: float, digits: int = 6) -> str:
    """Return a finite value with some digits that is at most the value, so that "at least" stays true."""
    return _rounded(value, digits, math.floor)


def rounded_up(value: float, digits: int = 6) -> str:
    """Return a finite value with some digits that is at least the value, so that "at most" stays true."""
    return _rounded(value, digits, math.ceil)


def _rounded(value: float, digits: int, towards: Callable[[Fraction], int]) -> str:
    if value == 0.0:
        return "0"
    scale = Fraction(10) ** (digits - 1 - math.floor(math.log10(abs(value))))
    return f"{float(Fraction(towards(Fraction(value) * scale)) / scale):.{digits}g}"
