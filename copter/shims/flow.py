"""Shims that make nearly feasible flows feasible: within capacities and demands, with a certified gap.

There is one shim for each objective of traffic engineering (:mod:`copter.problems.traffic`).  In both, a path
is a column, a link is a row, and a demand is a request.

:class:`FlowShim` is for packing programs (costs <= 0, A >= 0, A x <= u, sum(x) <= total), for example
max-flow:

1. Columns are clipped to their boxes, and flows above a demand are scaled down.
2. Columns through overloaded rows are cut one after the other, only as far as a row still exceeds its bound.
   Columns with the largest price at the rows come first, so that little flow is lost for the freed capacity.
3. Unserved demand is filled in, in increasing order of the columns' prices, until every column is blocked. If
   the result is worse than all columns scaled down until no row is overloaded, these scaled columns are
   filled instead.

:class:`UtilisationShim` is for min-MLU (the least maximum link utilisation): every demand's split is scaled
to its volume, columns over dead links are emptied, and the utilisation is computed again from the flows.

A flow within the tolerance changes little, so a round takes a few passes over the columns with flow. If a
solution tells which requests changed since the last solution, and only few changed, only these are read. The
flows of all other requests and the remaining capacities are kept from the last round.
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
from copter.store.reading import row_uppers, unchanged
from copter.store.store import ConstraintStore

if TYPE_CHECKING:
    from copter.program.program import ContinualProgram
    from copter.solution import Allocation, Solution

THETA = "theta"
"""Id of the request whose column is the maximum link utilisation."""
_ZERO_TOLERANCE = 1e-12
_MOST_MOVED = 0.01
"""Largest share of changed requests for which only these are read."""
_ROUNDINGS = 2.0**-50
"""Relative rounding error of a load for each change."""
_RECOMPUTE_AFTER = 256
"""Number of rounds after which loads are summed again, because each round adds a rounding error."""


@dataclass(frozen=True)
class Flows:
    """A feasible allocation.

    `flow`: flow of each column. `load`: usage of each row, by row slot. `objective`: cost, or value if the
    program is maximised. `gap`: |objective - bound| / max(|objective|, |bound|) with the certified bound of
    the solution; if objective and bound are negligible, the denominator is that of the solution's gap.
    `extras`: ``total_flow`` or ``mlu``, the objective in terms of the domain. `clock`: the store's revision
    when the flows were computed.
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
        """Columns with flow, by request slot."""
        return self.flow.nonzeros


class _Made(NamedTuple):
    """Last result of a shim, with data for the next round."""

    clock: int
    x: Allocation | None
    flows: Flows
    room: Floats
    rounds: int
    peak: Floats


class _Repair(Checked):
    """Base class of both shims: passes over the columns of a program in chunks, and data kept about it."""

    def __init__(self) -> None:
        self._store: weakref.ref[ConstraintStore] | None = None
        self._seen = -1

    def __getstate__(self) -> dict[str, Any]:
        return vars(self) | {"_store": None}  # a copy reads the coefficients of its program again

    def _knows(self, program: ContinualProgram) -> bool:
        """Return whether the last program was this one."""
        return self._store is not None and self._store() is program.store

    def _begin(self, program: ContinualProgram, requests: Ints) -> Passes:
        """Return passes over some requests, after a check that their coefficients are not negative.

        A coefficient is checked when it is new; most programs have no new ones after the first round.
        """
        store = program.store
        if not self._knows(program):
            self._store, self._seen = weakref.ref(store), -1
        generation = store.requests.generation
        fresh = requests[generation[requests] > self._seen]
        if least_coefficient(store, fresh) < 0:
            why = "must not have a negative coefficient; the shim repairs packing programs only"
            raise CopterError(f"usage: {why}")
        self._seen = max(self._seen, int(generation[requests].max(initial=-1)))
        return Passes(store, requests)


class FlowShim(_Repair):
    """Repair of the flow of a max-flow program: it makes the flow feasible and fills remaining capacity.

    If the flow of a solution equals the last result, which is feasible, this result is returned.

    Examples
    --------
    >>> from copter import ContinualProgram, FlowShim, make_solver
    >>> program = ContinualProgram()
    >>> program.add_resources(["a", "b"], upper=[1.0, 2.0])
    >>> program.add_request("flow", costs=[-1.0, -1.0], usage={"a": [1, 0], "b": [0, 1]}, total=2.5)
    >>> flows = FlowShim().round(program, make_solver("copter").solve(program))
    >>> round(flows.extras["total_flow"], 6), bool((flows.load <= [1.0, 2.0]).all())
    (2.5, True)
    """

    def __init__(self) -> None:
        super().__init__()
        self._made: _Made | None = None

    def __getstate__(self) -> dict[str, Any]:
        return super().__getstate__() | {"_made": None}

    @suggests
    def round(self, program: ContinualProgram, solution: Solution) -> Flows:
        """Return a feasible flow near the flow of a solution.

        Parameters
        ----------
        program : ContinualProgram
            The program, not edited since the solve.
        solution : Solution
            Its solution.

        Returns
        -------
        Flows
            Flow of each column, load of each row, objective and gap.

        Raises
        ------
        CopterError
            If the solution has no allocation (:class:`copter.errors.NoAllocationError`), if the program was
            edited since the solve, or if it is not a packing problem with a total for each request.
        """
        check_roundable(program, solution)
        if not self._knows(program):
            self._made = None
        begin, last = perf_counter(), self._made
        size = 0.0 if solution.gap_denominator_kind is GapDenominator.OBJECTIVE else solution.gap_denominator
        moved = None if last is None or last.x is None else solution.x.moved_since(last.x)
        flows = None
        if last is not None and moved is not None and last.rounds < _RECOMPUTE_AFTER:
            flows = self._repaired(program, last, solution.x, moved, solution.y)
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
        """Return a feasible flow near an allocation, which may belong to an earlier round.

        Parameters
        ----------
        x : SparseX
            Allocation, by request slot.
        y : (row slots,) ndarray
            Prices, which determine the order of cutting and filling.
        bound : float
            Bound on the optimum, for the gap.
        size : float
            Least denominator of the gap.

        Raises
        ------
        CopterError
            If the program is not a packing problem with a total for each request.
        """
        begin = perf_counter()
        flows = self._near(program, x, y)
        gap = _relative_gap(flows.objective, in_sense(bound, program.sense), size)
        objective = in_sense(flows.objective, program.sense)
        return replace(flows, objective=objective, gap=gap, seconds=perf_counter() - begin)

    def _near(self, program: ContinualProgram, x: SparseX, y: Floats) -> Flows:
        """Return a feasible flow near an allocation, with its cost, but without gap and seconds."""
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

    def _repaired(
        self, program: ContinualProgram, last: _Made, x: Allocation, moved: Ints, y: Floats
    ) -> Flows | None:
        """Return the last flows with changes in some requests; None if these cannot satisfy the rows alone.

        `moved` (k,): slots of all requests whose allocation changed.
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
            return None  # rounding errors of a large earlier load would be too large for a small one
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
        """Return the last flows, cut to rows and demands and filled up; the fallback of a round.

        Parameters
        ----------
        program : ContinualProgram
            The program in its present state.
        last : Flows, optional
            Flows for this program at an earlier time; None for no flow.

        Raises
        ------
        CopterError
            For the reason given in :meth:`near`.
        """
        store = program.store
        x = NOTHING if last is None else unchanged(store, last.nonzeros, last.clock)
        return self.near(program, x, np.zeros(store.rows.size))

    def primal_repair(self, program: ContinualProgram, x: SparseX, y: Floats) -> SparseX:
        """Return the nonzeros of the flows of :meth:`near`; a method for ``program.primal_repair``.

        Parameters
        ----------
        program, x, y
            As for :meth:`near`.
        """
        return self.near(program, x, y).nonzeros

    @staticmethod
    def _check(program: ContinualProgram) -> None:
        store = program.store
        rows, table = store.rows, store.requests
        alive = rows.alive[: rows.size]
        bad = alive & ((rows.lower[: rows.size] > 0) | (rows.upper[: rows.size] < 0))
        if bad.any():
            why = "lower and upper: must permit a flow of 0 for FlowShim"
            raise CopterError(f"resource {_resource_at(program, int(bad.argmax()))!r}: {why}")
        wrong = table.exact[: table.size] | np.isinf(table.total[: table.size])
        bad = (table.n_columns[: table.size] > 0) & wrong
        if bad.any():
            request = _request_at(program, int(bad.argmax()))
            raise CopterError(f"request {request!r}: relation: must be '<='; FlowShim fills demands")


class UtilisationShim(_Repair):
    """Repair of a min-MLU flow: every demand's split meets its volume, and the utilisation is recomputed.

    Parameters
    ----------
    theta : hashable
        Id of the request whose only column is the maximum link utilisation. Its coefficient in each row is
        minus the capacity of the link times the column's cost. The upper bound of a row is 0, or minus the
        load that is on the link already. A row without a coefficient is a dead link.

    Examples
    --------
    >>> from copter import ContinualProgram, UtilisationShim, make_solver
    >>> program = ContinualProgram()
    >>> program.add_resources(["a", "b"], upper=[0.0, 0.0])
    >>> program.add_request("theta", costs=[1.0], usage={"a": [-1.0], "b": [-3.0]}, upper=2.0)
    >>> program.add_request("demand", [0.0, 0.0], {"a": [1, 0], "b": [0, 1]}, total=2.0, relation="==")
    >>> flows = UtilisationShim().round(program, make_solver("copter").solve(program))
    >>> round(flows.extras["mlu"], 4)
    0.5
    """

    def __init__(self, theta: Hashable = THETA) -> None:
        super().__init__()
        self.theta = theta

    @suggests
    def round(self, program: ContinualProgram, solution: Solution) -> Flows:
        """Return flows near the solution that serve every demand; their objective is the utilisation.

        The objective is infinite if all columns of a demand use a dead link.

        Parameters
        ----------
        program : ContinualProgram
            The program, not edited since the solve.
        solution : Solution
            Its solution.

        Raises
        ------
        CopterError
            If the solution has no allocation (:class:`copter.errors.NoAllocationError`), if the program was
            edited since the solve, or if it has no request with the id `theta`.
        """
        check_roundable(program, solution)
        bound = solution.certificate.bound
        return self._served(program, solution.nonzeros, solution.y, bound, solution.gap_denominator)

    def repair(self, program: ContinualProgram, last: Flows | None) -> Flows:
        """Return the split of the last flows for the present demands and links; the fallback of a round.

        Parameters
        ----------
        program : ContinualProgram
            The program in its present state.
        last : Flows, optional
            Flows for this program at an earlier time, or None. A demand without a split takes the first
            column without a dead link.

        Raises
        ------
        CopterError
            For the reasons given in :meth:`round`.
        """
        store = program.store
        x = NOTHING if last is None else unchanged(store, last.nonzeros, last.clock)
        return self._served(program, x, np.zeros(store.rows.size), -math.inf, 1.0)

    def _served(self, program: ContinualProgram, x: SparseX, y: Floats, lower: float, size: float) -> Flows:
        """Return flows near an allocation that serve every demand. `lower`: bound on their cost."""
        begin, store = perf_counter(), program.store
        if self.theta not in program:
            raise CopterError(f"the program needs a request {self.theta!r}, whose column is the utilisation")
        slot = program.slot_of[self.theta]
        capacity = -column(store, slot, 0) / float(store.effective_costs(slot)[0])
        requests = store.live_requests()
        requests = requests[requests != slot]
        bad = ~store.requests.exact[requests]
        if bad.any():
            request = _request_at(program, int(requests[bad.argmax()]))
            raise CopterError(f"request {request!r}: relation: must be '=='; the shim serves demands exactly")
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
    """Return objective - bound, relative to the larger absolute value; infinite without a bound."""
    if not np.isfinite(bound):
        return np.inf
    return (objective - bound) / (max(abs(objective), abs(bound), size) or 1.0)


def _request_at(program: ContinualProgram, slot: int) -> Hashable:
    return program.request_ids[int(np.flatnonzero(program.request_slots == slot)[0])]


def _resource_at(program: ContinualProgram, slot: int) -> Hashable:
    return program.resource_ids[int(np.flatnonzero(program.resource_slots == slot)[0])]
