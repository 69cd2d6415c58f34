"""TrafficEngineering: a network's demands as a continual program.

    max-flow    maximise  sum of flows             min-mlu    minimise  theta
                subject to                                    subject to
                flows of a demand <= its volume               flows of a demand == its volume
                flows on a link <= its capacity               flows on a link <= capacity * theta

A pair of nodes with a demand is a request whose columns are its paths; a link is a resource.  Requests are
named by the number of their pair in the path set, resources by the number of the link.  Every event is a bulk
edit:

- For a new demand, columns are added.  If a demand drifts or disappears, its volume changes and its columns
  stay, because they cost little and demands return.
- If a capacity changes, or a link fails or returns, max-flow changes the bounds of rows.  In min-MLU,
  capacities are the coefficients of theta, so the column of theta is replaced.  Theta has no coefficient in
  the row of a failed link, which closes every path over the link.  A demand without any other path is *cut*
  (its volume is 0) until it has a path again.

Source: thesis section 5.1.2; program (11) there is max-flow.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from copter.arrays import Floats, Ints
from copter.compile.kernels import kernel
from copter.errors import EditError
from copter.problems.traffic import Objective
from copter.problems.traffic.paths import PathSet
from copter.problems.traffic.state import TrafficState
from copter.problems.traffic.topology import Topology
from copter.program.program import ContinualProgram
from copter.rounds.events import EventDomain, event
from copter.rounds.record import Move, binding_of, moves_between
from copter.shims.flow import THETA, Flows, FlowShim, UtilisationShim
from copter.solution import Allocation, Solution
from copter.solvers.base import takes_start

if TYPE_CHECKING:
    from copter.solvers.base import Solver

_PAIRS_AT_ONCE = 32_768
"""Number of demands added in one call, so that its temporary arrays are small relative to the program."""
_FEW = 0.001
"""Largest share of changed demands for which the solver itself finds a start."""
_OVER = 1e-9
"""Largest relative excess of a link or a demand in an answer."""
_SMALL = 1_000
"""Number of columns up to which no start is made, because making it takes as long as solving."""


@dataclass(frozen=True)
class TrafficRound:
    """Result of a round.

    Attributes
    ----------
    solution : Solution or None
        The solver's solution; None if the flows of the last round were repaired instead.
    flows : Flows
        Flows that are feasible on every link and for every demand.
    x : Allocation
        These flows by number of the pair: flow on each of its paths.
    before : Allocation, optional
        Flows of the previous round.
    """

    solution: Solution | None
    flows: Flows
    x: Allocation
    before: Allocation | None = field(default=None, repr=False)

    def __getstate__(self) -> dict[str, Any]:
        return vars(self) | {"solution": None, "before": None, "moves": self.moves, "binding": self.binding}

    @property
    def objective(self) -> float:
        """Cost of the flows in the program's terms."""
        return self.flows.objective

    @property
    def gap(self) -> float:
        """Certified gap of the flows."""
        return self.flows.gap

    @cached_property
    def moves(self) -> tuple[Move, ...]:
        """Paths with more or less flow than in the previous round, by number of the pair."""
        return moves_between(self.before, self.x)

    @cached_property
    def binding(self) -> dict[Hashable, float]:
        """Links that are binding in the solver's solution, with their prices."""
        return binding_of(self.solution)


class TrafficEngineering(TrafficState, EventDomain):
    """Demands over path sets, as a program that is edited in place; a domain of :class:`copter.Rounds`.

    Parameters
    ----------
    paths : PathSet
        Pairs that may have demands, and their paths.
    program : ContinualProgram, optional
        Empty program; default: a new one.

    Attributes
    ----------
    volume, capacity, up : ndarrays
        State of the network; see :class:`copter.problems.traffic.state.TrafficState`, which has the events.
    """

    def __init__(
        self,
        topology: Topology,
        paths: PathSet,
        objective: Objective = "max-flow",
        *,
        program: ContinualProgram | None = None,
    ) -> None:
        super().__init__(topology, paths, objective)
        self.program = ContinualProgram() if program is None else program
        if len(self.program) or self.program.resource_ids:
            raise EditError("traffic", "program", len(self.program), "must be empty")
        self.shim = FlowShim() if objective == "max-flow" else UtilisationShim()
        self._set_primal_repair()
        self._served = np.ones(paths.n_pairs, np.bool_)
        self._present = np.zeros(paths.n_pairs, np.bool_)
        self._moved = 0
        self._last: TrafficRound | None = None
        self._pair_of_slot: Ints | None = None
        self._unit = _theta_unit(self.capacity)
        self._theta: float | None = None
        bounds = self.capacity if objective == "max-flow" else np.zeros(topology.n_links)
        for link, bound in enumerate(bounds.tolist()):
            self.program.add_resource(link, bound)
        if objective == "min-mlu":
            cost, limit = [1.0 / self._unit], self._theta_limit()
            self.program.add_request(THETA, cost, self._theta_usage(), upper=limit)
            self._cut()

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state)
        self._set_primal_repair()

    def _set_primal_repair(self) -> None:
        """Set the program's primal repair to that of the shim; pickle omits it."""
        if isinstance(self.shim, FlowShim):
            self.program.primal_repair = self.shim.primal_repair

    # ---- demands ---------------------------------------------------------------------------------

    @event
    def remove_demands(self, pairs: ArrayLike) -> None:
        """Remove demands and their columns from the program.

        For a temporary absence, set a demand's volume to 0 instead.

        Parameters
        ----------
        pairs : (k,) array_like of int
            Numbers of pairs, without duplicates.

        Raises
        ------
        EditError
            If a pair has no demand; the error names the pair, and nothing is changed.
        """
        which = self._which(pairs, self.paths.n_pairs, "pair")
        absent = ~self._present[which]
        if absent.any():
            name = self.pair_name(int(which[absent][0]))
            raise EditError(name, "pair", int(which[absent][0]), "must have a demand")
        self.program.remove_requests(which.tolist())
        self._present[which], self.volume[which] = False, 0.0
        self._moved += which.size
        self._pair_of_slot = None
        self._limit_theta()

    @property
    def demands(self) -> Ints:
        """Numbers of the pairs in the program."""
        return np.flatnonzero(self._present)

    @property
    def cut(self) -> Ints:
        """Pairs whose demands min-MLU excludes, because each of their paths has a link that is down."""
        return np.flatnonzero(self._present & ~self._served & (self.volume > 0))

    def _volumes_changed(self, pairs: Ints) -> None:
        self._moved += pairs.size
        self._set_totals(pairs[self._present[pairs]])
        self._add(pairs[~self._present[pairs]])
        if pairs.size:
            self._limit_theta()

    def _add(self, pairs: Ints) -> None:
        flow = self.objective == "max-flow"
        for begin in range(0, pairs.size, _PAIRS_AT_ONCE):
            some = pairs[begin : begin + _PAIRS_AT_ONCE]
            part = self.paths.take(some)
            self.program.add_requests(
                some.tolist(),
                np.full(part.n_paths, -1.0 if flow else 0.0),
                part.counts,
                part.incidence(self.topology.n_links),
                totals=self._totals(some),
                relation="<=" if flow else "==",
            )
        self._present[pairs] = True
        if pairs.size:
            self._pair_of_slot = None

    def _totals(self, pairs: Ints) -> Floats:
        return np.where(self._served[pairs], self.volume[pairs], 0.0)

    def _set_totals(self, pairs: Ints) -> None:
        if pairs.size:
            self.program.update_requests(pairs.tolist(), totals=self._totals(pairs))

    # ---- links -----------------------------------------------------------------------------------

    def _links_changed(self, links: Ints) -> None:
        if not links.size:
            return
        self._moved = len(self.program)
        if self.objective == "max-flow":
            self.program.update_resources(links.tolist(), upper=self.effective_capacity[links])
            return
        begin = None if self._theta is None else {0: self._theta * self._unit}
        cost, limit = [1.0 / self._unit], self._theta_limit()
        self.program.update_request(THETA, costs=cost, usage=self._theta_usage(), upper=limit, start=begin)
        self._cut()

    # ---- parts of min-MLU only -------------------------------------------------------------------

    def _theta_usage(self) -> dict[Hashable, Any]:
        capacity = self.effective_capacity
        alive = np.flatnonzero(capacity)
        return dict(zip(alive.tolist(), (-capacity[alive] / self._unit).tolist(), strict=True))

    def set_other_loads(self, loads: Floats) -> None:
        """Set the load of each link by demands that are not in the program, for min-MLU."""
        self.program.update_resources(list(range(loads.size)), upper=-loads)
        self.program.update_request(THETA, upper=self._theta_limit(float(loads.max(initial=0.0))))

    def _theta_limit(self, load: float = 0.0) -> float:
        """Return a value above any optimal theta: all demands, and the other load, on the smallest link."""
        capacity = self.effective_capacity
        least = float(capacity[capacity > 0].min(initial=np.inf))
        return self._unit * max(1.0, 2.0 * (float(self.volume.sum()) + load) / least)

    def _limit_theta(self) -> None:
        if self.objective == "min-mlu":
            self.program.update_request(THETA, upper=self._theta_limit())

    def _cut(self) -> None:
        """Find the demands without a path, and set the totals of demands for which this changed."""
        served = _has_path(
            self.paths.first, self.paths.pointer, self.paths.link, self.effective_capacity <= 0
        )
        changed = np.flatnonzero((served != self._served) & self._present)
        self._served = served
        self._set_totals(changed)
        self._limit_theta()

    # ---- a round ---------------------------------------------------------------------------------

    def solve(self, solver: Solver) -> Solution:
        """Solve the program from the solver's last flows, made feasible."""
        self.offer(solver)
        return solver.solve(self.program)

    def offer(self, solver: Solver) -> None:
        """Set a warm solver's start to its last flows, made feasible (max-flow).

        With the solver's last prices, these flows are often accurate enough, and the first pricing pass
        confirms it.  If few demands have changed since the last round, the solver itself finds a start.

        Parameters
        ----------
        solver : Solver
            Solver; a solver without starts is left unchanged.

        Raises
        ------
        CopterError
            If the program has requests or resources that the shim cannot repair.
        """
        if self._moved <= _FEW * len(self.program) or self.program.store.n_variables <= _SMALL:
            return
        if isinstance(self.shim, FlowShim) and takes_start(solver):
            start = solver.start(self.program)
            if start is not None:
                flows = self.shim.near(self.program, *start)
                solver.start_from(self.program, flows.nonzeros, start[1])

    def round(self, solution: Solution) -> TrafficRound:
        """Return feasible flows near a solution of the present program; change nothing."""
        return self._answer(self.shim.round(self.program, solution), solution)

    def fallback(self) -> TrafficRound:
        """Return the last flows as far as links and demands permit; change nothing."""
        last = None if self._last is None else self._last.flows
        return self._answer(self.shim.repair(self.program, last), None)

    def accept(self, done: TrafficRound) -> None:
        """Replace the last flows."""
        self._last, self._moved = done, 0
        if self.objective == "min-mlu" and np.isfinite(done.flows.objective):
            self._theta = done.flows.objective

    def _answer(self, flows: Flows, solution: Solution | None) -> TrafficRound:
        before = None if self._last is None else self._last.x
        return TrafficRound(solution, flows, Allocation.of(self.program, flows.nonzeros), before)

    def figures(self, answer: TrafficRound) -> dict[str, float]:
        """Return the figures of a round for reports."""
        return {
            **answer.flows.extras,
            "overload": self.overload(self.link_loads(answer.flows)),
        }

    def violations(self, answer: TrafficRound) -> Iterator[str]:
        """Yield the violations of flows, computed from the paths only."""
        found = self.check(self.path_flows(answer.flows))
        if found.excess > _OVER * max(1.0, float(self.volume.max(initial=0.0))):
            yield f"a demand is exceeded by {found.excess:g}"
        if self.objective == "max-flow" and found.overload > _OVER:
            yield f"a link carries {found.overload:g} too much"
        lack = found.lack - float(self.volume[self.cut].sum())
        if self.objective == "min-mlu" and lack > _OVER * max(1.0, float(self.volume.sum())):
            yield f"demands with a path lack {lack:g}"

    def events(self, rng: np.random.Generator) -> Iterator[tuple[Any, ...]]:
        """Yield random changes of volumes and capacities, and links that fail and return."""
        pairs = rng.choice(self.paths.n_pairs, 6, replace=False)
        yield "set_volumes", rng.uniform(0, 3, 6) * (rng.random(6) < 0.8), pairs
        down = np.flatnonzero(~self.up)
        if down.size:
            yield "restore_links", down[: int(rng.integers(1, 1 + down.size))]
        if rng.random() < 0.4:
            yield "fail_links", rng.choice(self.topology.n_links, 2, replace=False)
        if rng.random() < 0.2:
            links = rng.choice(self.topology.n_links, 3, replace=False)
            yield "set_capacities", rng.uniform(0, 4, 3), links

    def path_flows(self, flows: Flows) -> Floats:
        """Return the flow on each path of the path set.

        Parameters
        ----------
        flows : Flows
            Flows of the program with the present demands.

        Returns
        -------
        (paths,) ndarray
        """
        x, owner = flows.nonzeros, self._owners()
        spread = np.zeros(self.paths.n_paths)
        pair = owner[x.slot]
        spread[self.paths.first[pair[pair >= 0]] + x.column[pair >= 0]] = x.value[pair >= 0]
        return spread

    def link_loads(self, flows: Flows) -> Floats:
        """Return the flow on each link, shape (E,)."""
        return flows.load[self.program.resource_slots]

    def _owners(self) -> Ints:
        """Return the pair of each request slot, -1 for theta and free slots; cached until demands change."""
        if self._pair_of_slot is None:
            ids, slots = self.program.request_ids, self.program.request_slots
            first = 0 if self.objective == "max-flow" else 1  # theta was added first
            self._pair_of_slot = np.full(self.program.store.requests.size, -1)
            self._pair_of_slot[slots[first:]] = np.array(ids[first:], np.int64)
        return self._pair_of_slot


def _theta_unit(capacity: Floats) -> float:
    """Return the unit of theta: its coefficients are capacities / unit, and its cost is 1 / unit.

    With a unit between a thousandth of the capacities and the capacities, steps move theta about as fast as
    the flows, in any unit of flow. Warm rounds of copter on 5,000 demands of Kdl (capacity 1,000) with
    failing links took 1.2-2.0 s with 1/32 of the capacities as the unit, and 4-8 s with 1/1000. The cold
    round on 2,000 demands took 1.6 s with 1/32, and 7 s with the whole capacities.
    """
    some = capacity[capacity > 0]
    return float(some.mean()) / 32.0 if some.size else 1.0


@kernel(allocates=True)
def _has_path(first, pointer, link, down):  # type: ignore[no-untyped-def]
    """Return whether each pair has a path without a link that is down."""
    served = np.zeros(first.size - 1, np.bool_)
    for pair in range(first.size - 1):
        for path in range(first[pair], first[pair + 1]):
            blocked = False
            for k in range(pointer[path], pointer[path + 1]):
                if down[link[k]]:
                    blocked = True
                    break
            if not blocked:
                served[pair] = True
                break
    return served
