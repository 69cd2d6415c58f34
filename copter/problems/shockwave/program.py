"""Relaxation as a continual program of copter's core: edited from window to window, with warm starts.

Every job with useful rounds is a request with a column for each of its segments (z_q <= rounds_q).  Its term
is -w log(base + gain'z), with base and gains in units of the first gain.  So only weight, offset and bounds
change while a job stays in the same regimes.  The rows are

    sum_j g_j y_j <= M T,        h + sum_j g_j y_j / M >= W,        h + y_j >= r_j,

in rounds, where y_j is the sum of job j's columns, g_j its GPUs and h the amount of H above its least value.
A job whose remaining run time cannot exceed the least value needs no row, so there are few rows.  The solver
starts from the last window's plan, because the best rounds of most jobs hardly change.

The solver certifies the program.  The answer is certified again, for the window, by
:func:`copter.problems.shockwave.relaxation.answer`.  If the gap of this second certificate is too large
relative to the terms of the objective of (11), the solve continues with a smaller tolerance.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Hashable, Iterable
from dataclasses import replace
from itertools import repeat

import numpy as np

from copter.arrays import Ints
from copter.clock import over
from copter.problems.shockwave.relaxation import Relaxation, answer
from copter.problems.shockwave.window import Window
from copter.program.program import ContinualProgram
from copter.solvers.proximal.solver import ProximalPoint
from copter.terms.convex import LogTerm

_CAPACITY, _WORK, _H = "capacity", "work", "h"
_RANGE = 1e-3, 1e3
_MARGIN, _TIGHTER, _LEAST_TOLERANCE = 0.5, 0.1, 1e-11


class RelaxationProgram:
    """Solver of the relaxation for successive windows, each with a warm start; call it with a window.

    `tolerance`: certified gap, relative to the terms of the objective. `threads`: threads of the solver;
    default: the solver's choice. `program`: an empty program to use, for example one whose columns are in
    other processes.
    """

    def __init__(
        self, tolerance: float = 1e-5, threads: int | None = None, program: ContinualProgram | None = None
    ) -> None:
        self.tolerance = tolerance
        self.solver = ProximalPoint(threads=threads)
        self.program = ContinualProgram() if program is None else program
        self.program.add_resource(_CAPACITY, 0.0)
        self.program.add_resource(_WORK, np.inf)
        self.program.add_request(_H, [0.0], {_WORK: 1.0}, upper=1.0)
        self._images: dict[str, bytes] = {}
        self._sizes: dict[str, int] = {}
        self._gpus: dict[str, int] = {}
        self._rows: dict[str, None] = {}  # in a fixed order: a set's would change the last digits
        self._capacity = 0
        self._size, self._magnified = 0.0, 1.0
        self._iterations, self._warm = 0, False

    def __call__(self, window: Window) -> Relaxation:
        """Return the solved relaxation of a window; its `model_seconds` are the time of the edits."""
        begin = time.perf_counter()
        own = np.flatnonzero(np.diff(window.segment_start) > 0)
        worth = float(window.weights[own].sum()) * window.scale
        if not own.size or not (worth > 0 or window.makespan_weight > 0):
            used = float(window.gpus @ window.most_rounds)  # any use of the GPUs has the same objective
            share = min(1.0, window.capacity * window.rounds / max(used, 1.0))
            return answer(window, window.most_rounds * share, 0.0, 0.0, np.zeros(len(window)), begin)
        # The unit of the objective is the magnitude of its terms in the last window, so that the solver's gap
        # is that of (11).
        natural = worth or window.makespan_weight * window.round_seconds
        unit = 1.0 / min(max(self._size or natural, _RANGE[0] * natural), _RANGE[1] * natural)
        names = [window.names[j] for j in own.tolist()]
        self._edit(window, own, names, unit)
        edited = time.perf_counter() - begin
        tolerance, warm, self._iterations = _MARGIN * self.tolerance / self._magnified, self._warm, 0
        while True:
            self.solver.tolerance = tolerance
            relaxed = self._solve(window, own, names, unit, begin)
            wanted = self.tolerance * relaxed.size
            if relaxed.bound - relaxed.objective <= wanted or tolerance <= _LEAST_TOLERANCE or over():
                break
            tolerance *= _TIGHTER
        self._size = relaxed.size
        self._warm = True
        return replace(
            relaxed,
            seconds=time.perf_counter() - begin,
            model_seconds=edited,
            iterations=self._iterations,
            warm_started=warm,
        )

    # ---- edits -----------------------------------------------------------------------------------

    def _edit(self, window: Window, own: Ints, names: list[str], unit: float) -> None:
        """Edit the program so that it is that of a window."""
        program, seconds, capacity = self.program, window.round_seconds, window.capacity
        work = float(window.gpus @ window.remaining) / capacity
        least = max(*_least_run_times(window), 0.0)
        excess = (window.remaining - least) / seconds
        now = set(names)
        if capacity != self._capacity:  # the usage of every job depends on the capacity
            self._drop(list(self._sizes))
            self._capacity = capacity
        self._drop([name for name in self._sizes if name not in now])
        needed = own[excess[own] > 1e-12]
        rows = {window.names[j]: float(excess[j]) for j in needed.tolist()}
        fresh = {name: None for name in rows if name not in self._rows}
        for name in fresh:
            program.add_resource((_H, name), np.inf)
        self._rows |= fresh
        lower = [rows.get(name, -np.inf) for name in self._rows]
        program.update_resources(_CAPACITY, upper=float(capacity * window.rounds))
        each = [_WORK, *((_H, name) for name in self._rows)]
        program.update_resources(each, lower=[(work - least) / seconds, *lower])
        costs = [window.makespan_weight * seconds * unit]
        # without any rounds of jobs, H need not exceed the largest lower bound of its rows
        most = 1.0 + 2.0 * max((work - least) / seconds, *lower, 0.0)
        if fresh:
            usage: dict[Hashable, float] = {_WORK: 1.0} | {(_H, name): 1.0 for name in self._rows}
            program.update_request(_H, costs=costs, usage=usage, upper=most)
        else:
            program.update_request(_H, costs=costs, upper=most)
        self._edit_jobs(window, own, names, unit, fresh)

    def _edit_jobs(
        self, window: Window, own: Ints, names: list[str], unit: float, fresh: Collection[str]
    ) -> None:
        """Add jobs, replace columns of jobs with other segments or a new row, and update all jobs."""
        program, first = self.program, window.segment_start[own]
        weight = window.weights[own] * (window.scale * unit)
        offset = window.base[own] / window.segment_gain[first]
        sizes = window.segment_start[own + 1] - first
        images = window.segment_gain / np.repeat(window.segment_gain[first], sizes)
        had = np.fromiter(map(self._sizes.get, names, repeat(0)), np.int64, own.size)
        gpus = window.gpus[own]
        moved = (had != sizes) | (
            np.fromiter(map(self._gpus.get, names, repeat(0)), np.int64, own.size) != gpus
        )
        if fresh:
            moved |= np.fromiter(map(fresh.__contains__, names), np.bool_, own.size)
        ask = moved | (sizes > 1)  # a job with one segment has the image 1
        for k in np.flatnonzero(ask).tolist():
            name, part = names[k], slice(int(first[k]), int(first[k] + sizes[k]))
            image = images[part]
            if not moved[k] and self._images[name] == image.tobytes():
                continue
            self._images[name], self._sizes[name] = image.tobytes(), int(sizes[k])
            self._gpus[name] = int(gpus[k])
            term = LogTerm(float(weight[k]), float(offset[k]), image)
            if not moved[k]:
                program.update_request(name, term=term)
                continue
            usage: dict[Hashable, float] = {_CAPACITY: gpus[k], _WORK: gpus[k] / window.capacity}
            if name in self._rows:
                usage[(_H, name)] = 1.0
            change = program.update_request if had[k] else program.add_request
            change(
                name, costs=np.zeros(image.size), usage=usage, upper=window.segment_rounds[part], term=term
            )
        program.update_requests(
            names, upper=window.segment_rounds, terms={"weight": weight, "offset": offset}
        )

    def _drop(self, names: Iterable[str]) -> None:
        gone = list(names)
        self.program.remove_requests(gone)
        for name in gone:
            del self._images[name], self._sizes[name], self._gpus[name]
            if name in self._rows:
                del self._rows[name]
                self.program.remove_resources((_H, name))

    # ---- answer ----------------------------------------------------------------------------------

    def _solve(self, window: Window, own: Ints, names: list[str], unit: float, begin: float) -> Relaxation:
        """Solve the program, and certify rounds and prices for the window."""
        program, seconds = self.program, window.round_seconds
        solution = self.solver.solve(program)
        self._magnified = max(1.0, abs(solution.objective))
        self._iterations += solution.iterations
        slots = np.fromiter(map(program.slot_of.__getitem__, names), np.int64, own.size)
        x, rounds = solution.nonzeros, np.zeros(len(window))
        rounds[own] = np.bincount(x.slot, x.value, program.store.requests.size)[slots]
        rounds = np.minimum(rounds, window.most_rounds)
        budget = float(window.capacity * window.rounds)
        rounds *= min(1.0, budget / max(float(window.gpus @ rounds), 1e-300))
        mu = max(solution.price[_CAPACITY], 0.0) / unit
        work = max(-solution.price[_WORK], 0.0) / (unit * seconds)
        jobs = np.zeros(len(window))
        if self._rows:
            for j, name in zip(own.tolist(), names, strict=True):
                if name in self._rows:
                    jobs[j] = max(-solution.price[(_H, name)], 0.0) / (unit * seconds)
        rest = window.makespan_weight - work - float(jobs.sum())
        if rest > 0:  # the price of the least value of H, which is due to one job or to all jobs together
            together, alone = _least_run_times(window)
            if together > alone:
                work += rest
                mu += rest * seconds / window.capacity
            else:
                jobs[int((window.remaining - seconds * window.most_rounds).argmax())] += rest
        return replace(answer(window, rounds, mu, work, jobs, begin), solution=solution)


def _least_run_times(window: Window) -> tuple[float, float]:
    """Return the least run times after the window: that of all jobs together, and of the longest job."""
    work = float(window.gpus @ window.remaining) / window.capacity
    left = window.remaining - window.round_seconds * window.most_rounds
    return work - window.round_seconds * window.rounds, float(left.max())
