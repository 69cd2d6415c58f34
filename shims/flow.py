"""Feasible flows from nearly feasible ones: no link over capacity, no demand exceeded, a certified gap.

Two shims, one for each objective of traffic engineering (:mod:`copter.problems.traffic`).  Both know nothing
of networks: a path is a column, a link is a row, a demand is a request.

:class:`FlowShim`, for packing programs (costs <= 0, A >= 0, A x <= u, sum(x) <= total), as max-flow:

1. Columns are brought into their boxes, demands that are exceeded are scaled down.
2. Columns through overloaded rows are cut, one after the other and only as far as their rows still need it.
   First come those that use most of what is scarce (their rows' prices), so little flow is lost for what
   becomes free.
3. What demands still lack is filled in, cheapest columns at the prices first, until every column is blocked.
   Should that be less than scaling all columns by the worst row, then it is scaled so, and filled.

:class:`UtilisationShim`, for min-MLU: every demand's split is scaled to its volume, columns over dead links
emptied, and the utilisation recomputed from the flows.

A flow within the tolerance hardly changes, so a round costs a few passes over the columns with flow.  Where a
solution says which requests it changed since the last one, and these are few, it costs what they do: what the
others have, and what rows have left, is known.
"""

from __future__ import annotations

import math
import weakref
from collections.abc import Hashable, Mapping
from dataclasses import dataclass, replace
from time import perf_counter
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from copter.arrays import Floats, Ints
from copter.errors import CopterError
from copter.keywords import Checked, suggests
from copter.program.sense import in_sense
from copter.proof.certificate import GapDenominator
from copter.shims.flow_coefficients import column, least_coefficient
from copter.shims.flow_passes import ColumnFlows, Passes, worth_of
from copter.solution import check_roundable
from copter.store.allocation import NOTHING, SparseX
from copter.store.reading import row_uppers
from copter.store.store import AT_MOST, EXACTLY, ConstraintStore

if TYPE_CHECKING:
    from copter.program.program import ContinualProgram
    from copter.solution import Allocation, Solution

THETA = "theta"
"""Id of the request that stands for the maximum link utilisation."""
_ZERO_TOLERANCE = 1e-12
_MOST_MOVED = 0.01
"""Share of the requests up to which only those that changed are looked at."""
_ROUNDINGS = 2.0**-50
"""Of a load, that a change of it may be off by."""
_ANEW = 256
"""Rounds after which loads are summed up anew: each adds a rounding error."""


@dataclass(frozen=True)
class Flows:
    """A feasible allocation.

    `flow`: flow of each column. `load`: what the flows use of each row, by row slot. `objective`: its cost,
    or its value if the program is maximised, in the program's terms. `gap`: |objective - bound| /
    max(|objective|, |bound|), against the certified bound of the solution. `extras`: ``total_flow`` or
    ``mlu``: the same in the domain's terms. `clock`: the store's revision when they were made.
    """

    flow: ColumnFlows
    load: Floats
    objective: float
    gap: float
    seconds: float
    extras: Mapping[str, float]
    clock: int

    @property
    def nonzeros(self) -> SparseX:
        """The columns with flow, by request slot."""
        return self.flow.nonzeros

    def still(self, store: ConstraintStore) -> SparseX:
        """The flows of the requests that are there with the columns of then."""
        x, table = self.nonzeros, store.requests
        slot = np.minimum(x.slot, max(table.size - 1, 0))
        same = (table.generation[slot] <= self.clock) & (table.n_columns[slot] > 0) & (x.slot < table.size)
        return x.where(same)


class _Made(NamedTuple):
    """Last answer of a shim."""

    clock: int
    x: Allocation | None
    flows: Flows
    room: Floats
    rounds: int
    peak: Floats


class _Repair(Checked):
    """What both shims share: passes over the columns of a program, in chunks, and what they know of it."""

    def __init__(self) -> None:
        self._store: weakref.ref[ConstraintStore] | None = None
        self._seen = -1

    def __getstate__(self) -> dict[str, Any]:
        return vars(self) | {"_store": None}  # a copy looks at the coefficients of its program again

    def _knows(self, program: ContinualProgram) -> bool:
        """Whether the last program was this one."""
        return self._store is not None and self._store() is program.store

    def _begin(self, program: ContinualProgram, requests: Ints) -> Passes:
        """Passes over some requests, which all hold coefficients that are not negative.

        Coefficients are looked at when they are new: of most programs none is after the first round.
        """
        store = program.store
        if not self._knows(program):
            self._store, self._seen = weakref.ref(store), -1
        generation = store.requests.generation
        fresh = requests[generation[requests] > self._seen]
        if least_coefficient(store, fresh) < 0:
            raise CopterError("a column has a negative coefficient: this shim repairs packing programs only")
        self._seen = max(self._seen, int(generation[requests].max(initial=-1)))
        return Passes(store, requests)


class FlowShim(_Repair):
    """Makes the flow of a max-flow program feasible, and fills what is left.

    A solution that has just the flows that it made last is left as it is: they are feasible already.
    """

    def __init__(self) -> None:
        super().__init__()
        self._made: _Made | None = None

    def __getstate__(self) -> dict[str, Any]:
        return super().__getstate__() | {"_made": None}

    @suggests
    def round(self, program: ContinualProgram, solution: Solution) -> Flows:
        """Feasible flow near ``solution``.

        Parameters
        ----------
        solution : Solution
            Its answer as it is now.

        Raises
        ------
        CopterError
            There is no allocation (:class:`copter.errors.NoAllocationError`), the program was edited since,
            or is no packing problem with a total for each request.
        """
        check_roundable(program, solution)
        if not self._knows(program):
            self._made = None
        begin, last = perf_counter(), self._made
        size = 0.0 if solution.gap_denominator_kind is GapDenominator.OBJECTIVE else solution.gap_denominator
        moved = None if last is None or last.x is None else solution.x.moved_since(last.x)
        flows = None
        if last is not None and moved is not None and last.rounds < _ANEW:
            flows = self._mended(program, last, solution.x, moved, solution.y)
        elif last is not None and last.clock == program.store.clock:
            if all(np.array_equal(a, b) for a, b in zip(last.flows.nonzeros, solution.nonzeros, strict=True)):
                flows = last.flows
                self._made = last._replace(x=solution.x)
        if flows is None:
            flows = self._near(program, solution.nonzeros, solution.y)
            assert self._made is not None
            self._made = self._made._replace(x=solution.x)
        gap = _relative_gap(flows.objective, solution.certificate.bound, size)
        objective = in_sense(flows.objective, program.sense)
        return replace(flows, objective=objective, gap=gap, seconds=perf_counter() - begin)

    def near(
        self, program: ContinualProgram, x: SparseX, y: Floats, bound: float = -np.inf, size: float = 0.0
    ) -> Flows:
        """Feasible flow near an allocation, which may be of an earlier round.

        Parameters
        ----------
        y : (row slots,) ndarray
            Prices, that say which columns to cut and to fill first.
        bound : float
            On the optimum, for the gap.
        size : float
            What the gap is relative to at least.

        Raises
        ------
        CopterError
            The program is no packing problem with a total for each request.
        """
        begin = perf_counter()
        flows = self._near(program, x, y)
        gap = _relative_gap(flows.objective, in_sense(bound, program.sense), size)
        objective = in_sense(flows.objective, program.sense)
        return replace(flows, objective=objective, gap=gap, seconds=perf_counter() - begin)

    def _near(self, program: ContinualProgram, x: SparseX, y: Floats) -> Flows:
        """Feasible flow near an allocation, with its cost to be minimised; gap and seconds are open."""
        self._check(program)
        store, upper = program.store, row_uppers(program.store)
        passes = self._begin(program, store.live_requests())
        flow, room = np.zeros(passes.view.cost.size), store.requests.total[: store.requests.size].copy()
        before = passes.take(x, flow, room)
        worth = worth_of(y, upper, abs(before))
        load, price = passes.load_and_prices(flow, worth)
        over = load > upper
        if over.any():
            least = float((upper[over] / load[over]).min())
            scaled = least * flow
            passes.cut(flow, room, price, load, upper)
            passes.fill(flow, room, worth, load, upper)
            if passes.cost(flow) > least * before + _ZERO_TOLERANCE * abs(before):
                flow, load = scaled, passes.load(scaled)
                room = store.requests.total[: store.requests.size] - passes.served(flow)
                passes.fill(flow, room, worth, load, upper)
        else:
            passes.fill(flow, room, worth, load, upper)
        extras = {"total_flow": float(flow.sum())}
        flows = Flows(passes.columns(flow), load, passes.cost(flow), math.inf, 0.0, extras, store.clock)
        self._made = _Made(store.clock, None, flows, room, 0, load)
        return flows

    def _mended(
        self, program: ContinualProgram, last: _Made, x: Allocation, moved: Ints, y: Floats
    ) -> Flows | None:
        """The last flows with other ones of some requests; None if these alone do not let rows be met.

        `moved` (k,): slots of all requests of which x is another than it was.
        """
        self._check(program)
        store, table = program.store, program.store.requests
        if moved.size > _MOST_MOVED * len(program) or (table.generation[moved] > self._seen).any():
            return None
        upper = row_uppers(program.store)
        if upper.size != last.flows.load.size or (table.n_columns[moved] == 0).any():
            return None
        passes, flow = self._begin(program, moved), last.flows.flow.values.copy()
        if not passes.places(last.flows.flow):
            return None
        peak = np.maximum(last.peak, last.flows.load)
        if (peak * (_ROUNDINGS * (last.rounds + 1)) > _ZERO_TOLERANCE * upper).any():
            return None  # what was rounded off a large load would count in a small one
        load, room = last.flows.load - passes.load(flow), last.room.copy()
        passes.empty(flow, room)
        before = passes.take(x.of_slots(moved), flow, room)
        worth = worth_of(y, upper, abs(before))
        more, price = passes.load_and_prices(flow, worth)
        load += more
        if (load > upper).any():
            passes.cut(flow, room, price, load, upper)
            if (load > upper).any():
                return None
        passes.fill(flow, room, worth, load, upper)
        objective = passes.cost_of_all(flow)
        flows = last.flows.flow.others(flow)
        made = Flows(flows, load, objective, math.inf, 0.0, {"total_flow": float(flow.sum())}, store.clock)
        self._made = _Made(store.clock, x, made, room, last.rounds + 1, peak)
        return made

    def repair(self, program: ContinualProgram, last: Flows | None) -> Flows:
        """Return the last flows as far as rows and demands allow, filled up: the fallback of a late round.

        Parameters
        ----------
        last : Flows, optional
            Flows for this program at an earlier time; None for no flow.

        Raises
        ------
        CopterError
            For the reason given in :meth:`near`.
        """
        store = program.store
        x = NOTHING if last is None else last.still(store)
        return self.near(program, x, np.zeros(store.rows.size))

    def primal_repair(self, program: ContinualProgram, x: SparseX, y: Floats) -> SparseX:
        """As :meth:`near`, the flow alone: what a program calls ``primal_repair``.

        Parameters
        ----------
        program, x, y
            As there.
        """
        return self.near(program, x, y).nonzeros

    @staticmethod
    def _check(program: ContinualProgram) -> None:
        store = program.store
        rows, table = store.rows, store.requests
        alive = rows.alive[: rows.size]
        bad = alive & ((rows.lower[: rows.size] > 0) | (rows.upper[: rows.size] < 0))
        if bad.any():
            why = "this shim needs rows that hold at zero flow"
            raise CopterError(f"resource {_resource_at(program, int(bad.argmax()))!r}: {why}")
        bad = (table.n_columns[: table.size] > 0) & (table.relation[: table.size] != AT_MOST)
        if bad.any():
            request = _request_at(program, int(bad.argmax()))
            raise CopterError(f"request {request!r} has no total with '<=': this shim fills demands up to it")


class UtilisationShim(_Repair):
    """Makes every demand's split meet its volume, and recomputes the maximum link utilisation.

    Parameters
    ----------
    theta : hashable
        Id of the request whose one column stands for the utilisation: its coefficient is minus the capacity
        of each row, in units of which its cost is the inverse.  Bounds of rows are 0 (or less: minus a load
        that is there already).  A row without a coefficient is a dead link.
    """

    def __init__(self, theta: Hashable = THETA) -> None:
        super().__init__()
        self.theta = theta

    @suggests
    def round(self, program: ContinualProgram, solution: Solution) -> Flows:
        """Flows near ``solution`` that serve every demand; their objective is the utilisation.

        It is infinite if a demand has no column without a dead link.

        Parameters
        ----------
        solution : Solution
            Its answer as it is now.

        Raises
        ------
        CopterError
            There is no allocation (:class:`copter.errors.NoAllocationError`), the program was edited since,
            or has no request of this id.
        """
        check_roundable(program, solution)
        bound = solution.certificate.bound
        return self._served(program, solution.nonzeros, solution.y, bound, solution.gap_denominator)

    def repair(self, program: ContinualProgram, last: Flows | None) -> Flows:
        """Return the split of the last flows for the present demands and links: the fallback of a late round.

        Parameters
        ----------
        last : Flows, optional
            Flows for this program at an earlier time, or None. A demand without a split takes the first
            column without a dead link.

        Raises
        ------
        CopterError
            For the reasons given in :meth:`round`.
        """
        store = program.store
        x = NOTHING if last is None else last.still(store)
        return self._served(program, x, np.zeros(store.rows.size), -math.inf, 1.0)

    def _served(self, program: ContinualProgram, x: SparseX, y: Floats, lower: float, size: float) -> Flows:
        """Flows near an allocation that serve every demand. `lower`: bound on their cost."""
        begin, store = perf_counter(), program.store
        if self.theta not in program:
            raise CopterError(f"no request {self.theta!r}: this shim needs the one that is the utilisation")
        slot = program.slot_of[self.theta]
        capacity = -column(store, slot, 0) / float(store.effective_costs(slot)[0])
        requests = store.live_requests()
        requests = requests[requests != slot]
        bad = store.requests.relation[requests] != EXACTLY
        if bad.any():
            request = _request_at(program, int(requests[bad.argmax()]))
            raise CopterError(f"request {request!r} has no total with '==': this shim serves demands exactly")
        passes = self._begin(program, requests)
        flow = np.zeros(passes.view.cost.size)
        passes.take(x, flow, store.requests.total[: store.requests.size].copy())
        served = passes.serve(flow, capacity <= 0, worth_of(y, capacity, size))
        load, used = passes.load(flow), capacity > 0
        bound = store.rows.upper[: load.size][used]
        mlu = float(((load[used] - bound) / capacity[used]).max(initial=0.0)) if served else np.inf
        gap = _relative_gap(mlu, lower) if served else np.inf
        objective, seconds = in_sense(mlu, program.sense), perf_counter() - begin
        return Flows(passes.columns(flow), load, objective, gap, seconds, {"mlu": mlu}, store.clock)


def _relative_gap(objective: float, bound: float, size: float = 0.0) -> float:
    """What an objective is above a bound, relative to the larger of both; infinite without a bound."""
    if not np.isfinite(bound):
        return np.inf
    return (objective - bound) / (max(abs(objective), abs(bound), size) or 1.0)


def _request_at(program: ContinualProgram, slot: int) -> Hashable:
    return program.request_ids[int(np.flatnonzero(program.request_slots == slot)[0])]


def _resource_at(program: ContinualProgram, slot: int) -> Hashable:
    return program.resource_ids[int(np.flatnonzero(program.resource_slots == slot)[0])]
