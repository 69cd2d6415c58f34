"""PlanShim: integral rounds of jobs from a relaxation's fractional rounds, with a certified gap.

A plan gives each of N jobs some of T rounds.  A running job j holds all of its g_j GPUs, and there are M GPUs
in a round.  A table has the value of n rounds for each job, whose regimes follow in order.  The objective is
the sum of these values minus a weight times H = max(sum_j g_j r_j / M, max_j r_j), a lower bound on the
makespan, where r_j is the remaining run time.

1. Counts: the integral part of every job's rounds, then single rounds by value per GPU while GPU time is
   left.  Such counts are made for several bounds on the longest remaining run time, each of which gives the
   long jobs a least number of rounds, and from the counts of the last plan, if there is one.  The best counts
   are used.
2. Rounds are filled one after the other: first jobs that need every remaining round, then jobs that determine
   the makespan, longest first, then by urgency u_j (x_jt + s x_jt x_j,t-1).  The second term, s times as
   large as the first, penalises scattered rounds, each of which costs a restart (section 7).  Jobs that do
   not fit wait.
3. No GPU idles while an incomplete job fits.
4. Local improvement until a time limit: in a round, one job makes room for other jobs, by the best exchange.

The gap is the distance to the smaller of two bounds: the relaxation's bound, and the bound of the tables at
the relaxation's prices. The second bound is often much tighter, because it excludes values between whole
rounds.

Source: Shockwave, appendices G.3 and H; ``copter bench shockwave`` measures the exchanges.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from copter.arrays import Flags, Floats, Ints
from copter.problems.shockwave.tables import PlanProblem, best_price, gains, normal_prices

SCATTER = 1.0  # s, the penalty on scattered rounds
_SWEEPS = 100  # largest number of sweeps over all rounds for improvements; a few are usually enough
_PARTNERS, _LEVELS, _GAIN = 8, 24, 1e-12
_PIECE = 256  # number of jobs that are searched at once; the first jobs usually fill the room


@dataclass(frozen=True)
class Plan:
    """A feasible plan.

    `objective`: value of the plan, maximised. `bound`: upper bound on the objective of any plan. `gap`:
    (bound - objective) / size, where size is the magnitude of the objective's terms; 0 if all are 0.
    `exchanges`: number of improvements of step 4.
    """

    runs: Flags
    objective: float
    bound: float
    gap: float
    exchanges: int
    seconds: float


class PlanShim:
    """Shim that makes an integral plan from a relaxation's fractional rounds.

    `time_limit`: seconds after which step 4 stops; steps 1 to 3 always complete. `scatter`: s.
    """

    def __init__(self, time_limit: float = 1.0, scatter: float = SCATTER) -> None:
        if not (time_limit >= 0 and scatter >= 0):
            raise ValueError(f"time_limit = {time_limit}, scatter = {scatter}: must be at least 0")
        self.time_limit, self.scatter = time_limit, scatter

    def plan(
        self,
        problem: PlanProblem,
        rounds: Floats,
        *,
        bound: float = np.inf,
        prices: tuple[float, float, Floats] | None = None,
        urgency: Floats | None = None,
        running: Flags | None = None,
        critical: float = 0.0,
        last: Ints | None = None,
    ) -> Plan:
        """Return a feasible plan near the fractional `rounds`.

        `rounds`: fractional rounds of each job. `bound`: bound of the relaxation. `prices`: dual prices of
        the relaxation: of a GPU in a round, and of the rows of H. `urgency`: jobs with larger values run
        earlier. `running`: jobs that ran in the last round. `critical`: number in [0, 1]; jobs with more
        remaining run time than (1 - critical) H run early, if H has a weight. `last`: remaining rounds of
        each job in the last plan; 0 for a new job.
        """
        if not 0 <= critical <= 1:
            raise ValueError(f"critical = {critical}: must be in [0, 1]")
        begin = time.perf_counter()
        mu, work, jobs = normal_prices(problem, prices)
        state = self._state(problem, urgency, running)
        counts = _counts(problem, rounds, work, jobs, last)
        state.place(counts, critical if problem.makespan_weight > 0 else 0.0)
        state.fill(work, jobs)
        exchanges = state.improve(work, jobs, begin + self.time_limit)
        objective = problem.objective(state.counts)
        sharp = min(bound, best_price(problem, mu, work, jobs)[1])
        gap = (sharp - objective) / max(problem.size(state.counts), abs(sharp)) if sharp > objective else 0.0
        return Plan(state.runs, objective, sharp, gap, exchanges, time.perf_counter() - begin)

    def arrange(
        self,
        problem: PlanProblem,
        counts: Ints,
        rounds: Flags | None = None,
        *,
        prices: tuple[float, float, Floats] | None = None,
        urgency: Floats | None = None,
        running: Flags | None = None,
        critical: float = 0.0,
    ) -> Flags | None:
        """Apply steps 2 and 3 to counts that may grow but not shrink.

        `rounds`: a packing of the counts, which is used if step 2 finds none. `prices`, `urgency`, `running`,
        `critical`: as for :meth:`plan`. The result is None if no packing into the rounds was found.
        """
        _, work, jobs = normal_prices(problem, prices)
        state = self._state(problem, urgency, running)
        state.place(counts, critical if problem.makespan_weight > 0 else 0.0)
        if (state.counts != counts).any():
            state = self._state(problem, urgency, running)
            if rounds is not None:
                for j, t in np.argwhere(rounds).tolist():
                    state.run(j, t)
            elif not state.pack(counts):
                return None
        state.fill(work, jobs)
        return state.runs

    def _state(self, problem: PlanProblem, urgency: Floats | None, running: Flags | None) -> _State:
        count = len(problem.gpus)
        early = np.zeros(count) if urgency is None else urgency
        ran = np.zeros(count, bool) if running is None else running
        return _State(problem, early, ran, 1.0 + self.scatter)


def _counts(problem: PlanProblem, rounds: Floats, work: float, jobs: Floats, last: Ints | None) -> Ints:
    """Return the whole rounds of each job: the best for several bounds on the longest remaining run time.

    If each job were rounded separately, the makespan would depend on which of the long jobs is rounded down.
    The counts of the last plan are a candidate too, so that that plan's exchanges need not be found again.
    """
    rows, most = np.arange(len(problem.gpus)), problem.most
    if not len(rows):
        return most
    whole = np.minimum(np.floor(rounds + 1e-6), most).astype(np.int64)
    worth = np.minimum.accumulate(np.diff(problem.value, axis=1), axis=1) / problem.gpus[:, None]
    job, step = np.nonzero(np.arange(problem.rounds) < most[:, None])
    ranked = np.lexsort((step, -worth[job, step]))
    job, step = job[ranked], step[ranked]
    starts = [] if last is None else [np.minimum(last, most).astype(np.int64)]
    for level in _levels(problem, whole, jobs):
        least = np.minimum((problem.remaining > level).sum(axis=1), most)
        starts.append(np.where(jobs > 0, least, np.maximum(whole, least)))
    best, best_value = np.zeros(len(rows), np.int64), -np.inf
    for counts in starts:
        if int(np.dot(counts, problem.gpus)) > problem.capacity * problem.rounds:
            continue
        _top_up(problem, counts, job, step)
        value = problem.objective(counts)
        if value > best_value:
            best, best_value = counts, value
    return best if np.isfinite(best_value) else whole


def _levels(problem: PlanProblem, whole: Ints, jobs: Floats) -> Floats:
    """Return the bounds to try: remaining run times of jobs with a price in H, with 0 to 2 more rounds."""
    rows = np.arange(len(whole))
    forced = rows[jobs > 0]
    now = float(problem.remaining[rows, whole].max())
    if not forced.size or not problem.makespan_weight > 0:
        return np.array([np.inf])
    steps = [problem.remaining[forced, np.clip(whole[forced] + k, 0, problem.rounds)] for k in (0, 1, 2)]
    candidates = np.unique(np.append(np.concatenate(steps), now))
    if candidates.size > _LEVELS:
        candidates = candidates[np.linspace(0, candidates.size - 1, _LEVELS).astype(int)]
    return np.append(candidates, np.inf)


def _top_up(problem: PlanProblem, counts: Ints, job: Ints, step: Ints) -> None:
    """Give single rounds in order while GPU time is left; a job's rounds are given in sequence."""
    left = problem.capacity * problem.rounds - int(np.dot(counts, problem.gpus))
    further = step >= counts[job]
    job, step = job[further], step[further]
    # In one operation, give all rounds before the first that does not fit; then give single rounds.
    fit = int(np.searchsorted(np.cumsum(problem.gpus[job]), left, side="right"))
    left -= int(problem.gpus[job[:fit]].sum())
    counts += np.bincount(job[:fit], minlength=len(counts))
    job, step = job[fit:], step[fit:]
    small = problem.gpus[job] <= left
    for j, n in zip(job[small].tolist(), step[small].tolist(), strict=True):
        if left <= 0:
            break
        if counts[j] == n and problem.gpus[j] <= left:
            counts[j] += 1
            left -= int(problem.gpus[j])


class _State:
    """A plan under construction: runs by job and round, and free GPUs by round."""

    def __init__(self, problem: PlanProblem, urgency: Floats, running: Flags, stay: float) -> None:
        self.problem, self.urgency, self.running, self.stay = problem, urgency, running, stay
        count = len(problem.gpus)
        self.runs = np.zeros((count, problem.rounds), bool)
        self.counts = np.zeros(count, np.int64)
        self.free = np.full(problem.rounds, problem.capacity, np.int64)
        self.most = problem.most

    def place(self, counts: Ints, critical: float) -> None:
        """Fill the rounds in turn; a job that does not fit in the remaining rounds gets fewer.

        A plan is seldom followed to its end.  Therefore the longest jobs do not wait for their last feasible
        rounds: the margin covers restarts, packing and future jobs, which H does not include.
        """
        left, ran = counts.copy(), self.running.copy()
        problem, horizon, rows = self.problem, self.problem.rounds, np.arange(len(counts))
        gpus = problem.gpus
        for t in range(horizon):
            seconds = problem.remaining[rows, self.counts]
            long = np.where(seconds > (1.0 - critical) * problem.makespan(seconds), seconds, 0.0)
            eager = self.urgency * np.where(ran, self.stay, 1.0)
            order = np.lexsort((-gpus, -eager, -long, left < horizon - t))
            order = order[left[order] > 0]
            chosen, free = [], int(self.free[t])
            for j, size in zip(order.tolist(), gpus[order].tolist(), strict=True):
                if size <= free:
                    chosen.append(j)
                    free -= size
                    if not free:
                        break
            self.run(chosen, t)
            left[chosen] -= 1
            ran[:] = False
            ran[chosen] = True

    def pack(self, counts: Ints) -> bool:
        """Pack jobs by descending GPUs, each into the rounds with most free GPUs; return whether all fit."""
        for j in np.lexsort((-counts, -self.problem.gpus)).tolist():
            for t in np.argsort(-self.free, kind="stable")[: counts[j]].tolist():
                if self.problem.gpus[j] > self.free[t]:
                    return False
                self.run(j, t)
        return True

    def run(self, jobs: int | list[int], t: int) -> None:
        """Give round `t` to a job, or to several different jobs."""
        self.runs[jobs, t] = True
        self.counts[jobs] += 1
        self.free[t] -= self.problem.gpus[jobs].sum()

    def _stop(self, jobs: int | list[int], t: int) -> None:
        self.runs[jobs, t] = False
        self.counts[jobs] -= 1
        self.free[t] += self.problem.gpus[jobs].sum()

    def fill(self, work: float, jobs: Floats) -> None:
        """Fill idle GPUs while an incomplete job fits.

        Jobs come in order of the value of the round per GPU.  Then come jobs that already have all rounds
        that they need, but later ones.
        """
        worth = gains(self.problem, work, jobs) / self.problem.gpus[:, None]
        rows = np.arange(len(self.counts))
        for t in range(self.problem.rounds):
            while self.free[t] > 0:
                fits = ~self.runs[:, t] & (self.problem.gpus <= self.free[t])
                more = fits & (self.counts < self.most)
                if more.any():
                    now = worth[rows, np.minimum(self.counts, self.problem.rounds - 1)]
                    self.run(int(np.argmax(np.where(more, now, -np.inf))), t)
                    continue
                later = np.flatnonzero(fits & self.runs[:, t + 1 :].any(axis=1))
                if not later.size:
                    break
                j = int(later[np.argmax(self.urgency[later])])
                self._stop(j, int(np.flatnonzero(self.runs[j])[-1]))
                self.run(j, t)

    def improve(self, work: float, jobs: Floats, until: float) -> int:
        """Exchange one job's round for rounds of others while that pays; return the number of exchanges."""
        problem, rows, exchanges = self.problem, np.arange(len(self.counts)), 0
        worth = gains(problem, work, jobs)
        value, least = problem.objective(self.counts), _GAIN * problem.size(self.counts)
        improved, sweeps = bool(len(rows)), 0
        while improved and sweeps < _SWEEPS and time.perf_counter() < until:
            improved, sweeps = False, sweeps + 1
            more = np.where(
                self.counts < self.most, worth[rows, np.minimum(self.counts, problem.rounds - 1)], -np.inf
            )
            if not (more > 0).any():
                break
            less = np.where(self.counts > 0, worth[rows, np.maximum(self.counts - 1, 0)], np.inf)
            wanted = _Wanted(problem.gpus, more)
            for t in range(problem.rounds):
                if time.perf_counter() >= until:
                    break
                out, into = self._exchange(t, more, less, wanted)
                if not into:
                    continue
                self._stop(out, t)
                self.run(into, t)
                changed = problem.objective(self.counts)
                if changed <= value + least:
                    self._stop(into, t)
                    self.run(out, t)
                    continue
                value, improved = changed, True
                exchanges += 1
                for j in (out, *into):
                    n = int(self.counts[j])
                    more[j] = worth[j, n] if n < self.most[j] else -np.inf
                    less[j] = worth[j, n - 1] if n > 0 else np.inf
        if exchanges:
            self.fill(work, jobs)
        return exchanges

    def _exchange(self, t: int, more: Floats, less: Floats, wanted: _Wanted) -> tuple[int, list[int]]:
        """Return the exchange in a round with the largest gain at the prices: a job out, and jobs in."""
        gpus = self.problem.gpus
        inside = np.flatnonzero(self.runs[:, t])
        cheap = inside[np.argsort(less[inside] / gpus[inside], kind="stable")[:_PARTNERS]]
        best, best_out, best_into = 0.0, -1, list[int]()
        for out in cheap.tolist():
            room, gain, into, seen = int(self.free[t] + gpus[out]), -float(less[out]), list[int](), 0
            for j, size in wanted.fitting(room):
                if self.runs[j, t] or not more[j] > 0:
                    continue
                if size <= room:
                    room -= size
                    gain += float(more[j])
                    into.append(j)
                seen += 1
                if not room or seen == 4 * _PARTNERS:
                    break
            if into and gain > best:
                best, best_out, best_into = gain, out, into
        return best_out, best_into


class _Wanted:
    """Jobs by the descending value of their next round per GPU, as at the start of a sweep."""

    def __init__(self, gpus: Ints, more: Floats) -> None:
        self._order = np.argsort(-more / gpus, kind="stable")
        self._gpus = gpus[self._order]
        self._pieces: dict[tuple[int, int], list[tuple[int, int]]] = {}

    def fitting(self, room: int) -> Iterator[tuple[int, int]]:
        """Yield the jobs that need at most `room` GPUs, with their GPUs."""
        for begin in range(0, len(self._order), _PIECE):
            piece = self._pieces.get((room, begin))
            if piece is None:
                order, sizes = self._order[begin : begin + _PIECE], self._gpus[begin : begin + _PIECE]
                fits = sizes <= room
                piece = list(zip(order[fits].tolist(), sizes[fits].tolist(), strict=True))
                self._pieces[room, begin] = piece
            yield from piece
