"""The relaxation of a round by column generation: the number of servers of each class with each pattern.

Let d_k be the number of waiting tasks of kind k and w_k the value of each.  Servers with equal free capacity
and GPU model form a class c of n_c servers.  The columns p are the patterns of tasks that fit on a server of
a class, with a_kp tasks of each kind k.

    maximise    sum_p (sum_k w_k a_kp) y_p
    subject to  sum_p a_kp y_p <= d_k                       every kind, price v_k
                sum over the patterns p of c of y_p <= n_c  every class
                y >= 0.

Kinds are resources of the program, and classes its requests.  Patterns with a positive reduced value are
added (:mod:`copter.solvers.generation`).  The best pattern of a class at the prices has the value phi_c(w -
v) (:mod:`copter.problems.placement.rounds.mixes`), and the value of any placement is at most

    D(v) = sum_k d_k v_k + sum_c n_c phi_c(w - v).

At the best prices this bound is at most the optimum of the linear relaxation with fractional tasks, because
fractional tasks can also use capacity into which no whole task fits.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy import sparse

from copter.arrays import Flags, Floats, Ints
from copter.clock import over
from copter.compile.kernels import kernel
from copter.problems.placement.occupancy import Fleet, Free, take
from copter.problems.placement.rounds.mixes import NODES, Mixes, best_mixes
from copter.program.program import ContinualProgram
from copter.solution import Solution
from copter.solvers.registry import repeatable_solver

_TOLERANCE = 1e-3
"""Tolerance of the solver."""
_MOST_NODES = 100 * NODES
"""Number of nodes of the search on a server whose bound prevents the proof of the gap, at most."""
_ENOUGH_COLUMNS = 2
"""New columns have in total at most this many times the waiting tasks of each kind."""
_NEGLIGIBLE = 1e-3
"""If a task's gain is below this share of its value, its price is set to its value."""


class Found(NamedTuple):
    """Tasks with places: `kinds`, `servers` and `gpus` (t,) of each task; GPUs as a bit set."""

    kinds: Ints
    servers: Ints
    gpus: Ints

    @classmethod
    def of(cls, mixes: Mixes, servers: Ints) -> Found:
        """Return the tasks of the patterns of some servers."""
        return cls(mixes.kinds, np.repeat(servers, np.diff(mixes.begins)), mixes.gpus)

    def and_(self, others: Found) -> Found:
        """Return the concatenation with other tasks."""
        return Found(*(np.concatenate(pair) for pair in zip(self, others, strict=True)))


class _States(NamedTuple):
    """Classes of servers with equal free capacity and GPU model.

    `number` (c,): id of each class in the program, ascending. `servers` (n,): servers, class after class.
    `begins` (c + 1,): position of each class in `servers`.
    """

    number: Ints
    servers: Ints
    begins: Ints

    @property
    def sizes(self) -> Ints:
        """Number of servers of each class."""
        return np.diff(self.begins)

    @property
    def first(self) -> Ints:
        """One server of each class."""
        return self.servers[self.begins[:-1]]


class _Columns(NamedTuple):
    """Patterns in ascending order of their class.

    `owner` (p,): number of the class. `begins` (p + 1,). `kinds`, `gpus` (t,): kind and bit set of GPUs of
    the tasks, pattern after pattern.
    """

    owner: Ints
    begins: Ints
    kinds: Ints
    gpus: Ints

    def where(self, keep: Flags) -> _Columns:
        """Return the patterns for which a mask is True."""
        sizes = np.diff(self.begins)
        tasks = np.repeat(keep, sizes)
        return _Columns(self.owner[keep], _begins(sizes[keep]), self.kinds[tasks], self.gpus[tasks])

    def and_(self, others: _Columns) -> _Columns:
        """Return these and other patterns; within each class, the other patterns come last."""
        owner = np.concatenate([self.owner, others.owner])
        sizes = np.concatenate([np.diff(self.begins), np.diff(others.begins)])
        order = np.argsort(owner, kind="stable")
        tasks = _ranges(_begins(sizes)[:-1][order], sizes[order])
        kinds, gpus = np.concatenate([self.kinds, others.kinds]), np.concatenate([self.gpus, others.gpus])
        return _Columns(owner[order], _begins(sizes[order]), kinds[tasks], gpus[tasks])

    def counts(self, kinds: int) -> sparse.csr_array:
        """Return the number of tasks of each kind in each pattern; (p, kinds)."""
        counts = sparse.csr_array(
            (np.ones(self.kinds.size), self.kinds.copy(), self.begins.copy()), shape=(self.owner.size, kinds)
        )
        counts.sum_duplicates()
        return counts

    def worth(self, values: Floats) -> Floats:
        """Return the sum of the tasks' values for each pattern; `values` (kinds,)."""
        sums = np.concatenate([[0.0], np.cumsum(values[self.kinds])])
        return sums[self.begins[1:]] - sums[self.begins[:-1]]


class PatternRelaxation:
    """The program of the relaxation, which is kept from round to round.

    `values` (kinds,): value of a task of each kind. `program`: its resources are the indices of kinds, and
    its requests the numbers of classes.
    """

    def __init__(self, fleet: Fleet, values: Floats) -> None:
        self.program = ContinualProgram()
        self.solver = repeatable_solver("copter", tolerance=_TOLERANCE)
        self._fleet, self._values = fleet, values
        self._kinds = list(range(values.size))
        self.program.add_resources(self._kinds, upper=0.0)
        self._numbers: dict[bytes, int] = {}
        self._next = 0
        nothing = np.empty(0, np.int64)
        self._columns = _Columns(nothing, np.zeros(1, np.int64), nothing, nothing)
        self._held: list[_Columns] = []

    def begin(self, free: Free, demand: Ints, servers: Ints, price: Floats) -> None:
        """Change the program to that of a round, and keep useful columns of the last round.

        `free`: free capacity, which must not change during the round. `demand` (kinds,): number of waiting
        tasks. `servers` (n,): servers of the round.
        """
        self.extend()
        self._free, self._demand = free, demand
        self.program.update_resources(self._kinds, upper=demand.astype(np.float64))
        self._states = self._alike(servers)
        number, count = self._states.number, self._states.sizes.astype(np.float64)
        before = np.unique(self._columns.owner)
        self._columns = self._columns.where(np.isin(self._columns.owner, number))
        useful = self._useful(self._columns, self._columns.worth(self._values - price))
        useful = np.isin(self._columns.owner, self._columns.owner[useful])
        self._columns = self._columns.where(useful)
        gone = np.setdiff1d(before, self._columns.owner)
        if gone.size:
            self.program.remove_requests(gone.tolist())
        stays = np.isin(number, self._columns.owner)
        if stays.any():
            self.program.update_requests(number[stays].tolist(), totals=count[stays])

    def _useful(self, columns: _Columns, score: Floats) -> Flags:
        """Return a mask of the best columns of positive score that together cover twice the demand."""
        order = np.argsort(-score, kind="stable")
        useful = np.zeros(score.size, np.bool_)
        _choose(columns, order[score[order] > 0.0], _ENOUGH_COLUMNS * self._demand, useful)
        return useful

    def _alike(self, servers: Ints) -> _States:
        """Group servers by free capacity and GPU model; a class that existed before keeps its number."""
        free, model = self._free, self._fleet.model
        rows = np.column_stack([free.cpu[servers], free.memory[servers], model[servers], free.gpus[servers]])
        keys = np.ascontiguousarray(rows).view(np.dtype((np.void, rows.shape[1] * rows.itemsize))).ravel()
        _, first, group, count = np.unique(keys, return_index=True, return_inverse=True, return_counts=True)
        names, known = keys[first].tolist(), self._numbers
        self._numbers = {name: known.get(name, self._next + one) for one, name in enumerate(names)}
        self._next += first.size
        numbers = np.array(list(self._numbers.values()), np.int64)
        order = np.argsort(numbers)
        of_group = np.argsort(order)[group]  # rank of the number of each server's class
        return _States(numbers[order], servers[np.argsort(of_group, kind="stable")], _begins(count[order]))

    def offer(self, found: Found) -> None:
        """Add the patterns of a placement, one for each class."""
        place = np.full(self._fleet.model.size, -1, np.int64)
        place[self._states.first] = self._states.number
        owner = place[found.servers]
        order = np.argsort(owner, kind="stable")[np.count_nonzero(owner < 0) :]
        owners, sizes = np.unique(owner[order], return_counts=True)
        self._add(_Columns(owners, _begins(sizes), found.kinds[order], found.gpus[order]))

    def improve(self, price: Floats, enough: float) -> tuple[int, float]:
        """Find patterns with a positive reduced value at some prices; return their number and the bound.

        :meth:`extend` adds them. If a round ends before that call, the program is still the one that was
        solved.

        `price` (kinds,): not negative. `enough`: if the bound may reach this value, servers are searched with
        more nodes, up to a limit.
        """
        values, states = self._values, self._states
        price = settled(values, price)
        gain = values - price
        mixes = best_mixes(self._free, self._fleet, states.first, gain, self._demand)
        paid = float(self._demand @ price)
        nodes, room = NODES, enough - paid - states.sizes @ mixes.value
        while (
            0.0 <= room < (loss := states.sizes * (mixes.bound - mixes.value)).sum()
            and nodes < _MOST_NODES
            and not over()
        ):
            nodes *= 10
            least = np.argsort(loss, kind="stable")
            # Search servers again, so that the losses of all others sum to at most half of the remaining gap.
            again = least[np.cumsum(loss[least]) > 0.5 * room]
            more = best_mixes(self._free, self._fleet, states.first[again], gain, self._demand, nodes)
            mixes.bound[again] = np.minimum(mixes.bound[again], more.bound)
        known = np.zeros(states.number.size)
        owner = np.searchsorted(states.number, self._columns.owner)
        np.maximum.at(known, owner, self._columns.worth(gain))
        columns = _Columns(states.number, mixes.begins, mixes.kinds, mixes.gpus)
        new = self._useful(columns, states.sizes * (mixes.value - known * (1.0 + 1e-6)))
        self._held.append(columns.where(new))
        return int(np.count_nonzero(new)), paid + float(states.sizes @ mixes.bound)

    def extend(self) -> None:
        """Add the patterns that :meth:`improve` found since the last call."""
        for columns in self._held:
            self._add(columns)
        self._held.clear()

    def prices(self, solution: Solution) -> Floats:
        """Return the dual price of each kind; (kinds,)."""
        return np.array([max(solution.price[kind], 0.0) for kind in self._kinds])

    def _add(self, new: _Columns) -> None:
        """Add columns to the program as new or changed requests."""
        if not new.owner.size:
            return
        there = np.unique(self._columns.owner)
        self._columns = self._columns.and_(new)
        ids = np.unique(new.owner)
        columns = self._columns.where(np.isin(self._columns.owner, ids))
        known = np.isin(ids, there)
        for which, verb in ((~known, "add"), (known, "update")):
            its = columns.where(np.isin(columns.owner, ids[which]))
            if not its.owner.size:
                continue
            numbers, sizes = np.unique(its.owner, return_counts=True)
            costs, usage = -its.worth(self._values), its.counts(self._values.size).T.tocsc()
            if verb == "add":
                totals = self._states.sizes[np.searchsorted(self._states.number, numbers)]
                self.program.add_requests(numbers.tolist(), costs, sizes, usage, totals=totals.astype(float))
            else:
                self.program.update_requests(numbers.tolist(), costs=costs, sizes=sizes, usage=usage)

    def rounded(self, solution: Solution, free: Free, left: Ints) -> Found:
        """Give servers the patterns of a solution: integral parts first, then the largest fractional parts.

        `free`: free capacity, from which the placed tasks are subtracted. `left` (kinds,): number of tasks,
        from which the placed tasks are subtracted.
        """
        x, program = solution.x.arrays(), self.program
        number = np.empty(int(program.request_slots.max(initial=0)) + 1, np.int64)
        number[program.request_slots] = np.array(program.request_ids, np.int64)
        owner = number[x.slot]
        column = np.searchsorted(self._columns.owner, owner) + x.column
        whole = np.floor(x.value + 1e-6)
        part = x.value - whole
        rest = np.argsort(-part, kind="stable")
        rest = rest[part[rest] > 1e-6]
        chosen = np.concatenate([np.repeat(np.arange(whole.size), whole.astype(np.int64)), rest])
        state = np.searchsorted(self._states.number, owner[chosen])
        size = int(np.diff(self._columns.begins)[column[chosen]].sum())
        out = Found(*(np.empty(size, np.int64) for _ in range(3)))
        placed = _give(
            free,
            self._fleet,
            self._states,
            self._states.begins.copy(),
            state,
            self._columns,
            column[chosen],
            left,
            out,
        )
        return Found(*(array[:placed] for array in out))


def settled(values: Floats, price: Floats) -> Floats:
    """Return the prices, raised to the value for kinds whose gain is a negligible share of the value."""
    return np.where(values - price < _NEGLIGIBLE * values, np.maximum(values, price), price)


def _begins(sizes: Ints) -> Ints:
    return np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)


def _ranges(begins: Ints, sizes: Ints) -> Ints:
    """Return the concatenation of ranges of given begins and sizes."""
    total = int(sizes.sum())
    return np.arange(total) + np.repeat(begins - (np.cumsum(sizes) - sizes), sizes)


@kernel
def _choose(columns: _Columns, order: Ints, wanted: Ints, chosen: Flags) -> None:
    """Choose, in a given order, the columns that have a task whose kind is still wanted."""
    for one in order:
        for task in range(columns.begins[one], columns.begins[one + 1]):
            chosen[one] = chosen[one] or wanted[columns.kinds[task]] > 0
        if chosen[one]:
            for task in range(columns.begins[one], columns.begins[one + 1]):
                wanted[columns.kinds[task]] -= 1


@kernel
def _give(
    free: Free,
    fleet: Fleet,
    states: _States,
    following: Ints,
    state: Ints,
    columns: _Columns,
    column: Ints,
    left: Ints,
    out: Found,
) -> int:
    """Give the next server of a class a column while it has tasks; return the number of placed tasks."""
    placed = 0
    for one in range(state.size):
        its = state[one]
        if following[its] == states.begins[its + 1]:
            continue
        server = states.servers[following[its]]
        following[its] += 1
        for task in range(columns.begins[column[one]], columns.begins[column[one] + 1]):
            kind, gpus = columns.kinds[task], columns.gpus[task]
            if left[kind] > 0:
                left[kind] -= 1
                take(free, fleet, kind, server, gpus, 1)
                out.kinds[placed], out.servers[placed], out.gpus[placed] = kind, server, gpus
                placed += 1
    return placed
