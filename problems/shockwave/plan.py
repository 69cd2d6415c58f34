"""PlanShim: which jobs run in which round, from a relaxation's fractional rounds, with a certified gap.

A plan gives each of N jobs whole rounds among T; a job that runs holds all of its GPUs, and a round has so
many. What n rounds are worth to a job is a table (regimes in order are in it), less a weight times the
lower bound on the makespan H = max(sum_j g_j r_j / M, max_j r_j) of the run time r_j that is left.

1. Counts: the whole part of every job's rounds, then single rounds by value a GPU while GPU time is left; for
   several bounds on the longest run time left, each of which gives the long jobs a least number of rounds.
   The counts of the last plan are another start, if there is one; the best counts are taken.
2. Rounds are filled one after the other: jobs that need every round left, then those that the makespan hangs
   on, longest first, then by urgency u_j (x_jt + s x_jt x_j,t-1): the second term, s times as large as the
   first, penalises scattered rounds, each of which costs a restart (section 7).  What does not fit waits.
3. No GPU idles while a job that is not complete by then fits.
4. Local improvement until a time limit: in a round one job makes room for others, the best exchange first.

The gap is measured against the smaller of the relaxation's bound and of the bound that the tables themselves
have at the relaxation's prices: with values between whole rounds out of reach, it is often much tighter.

Source: Shockwave, appendices G.3 and H; the exchange is measured in ``copter bench shockwave``.
"""

from __future__ import annotations

import time
from dataclasses import dataclass

import numpy as np

from copter.arrays import Flags, Floats, Ints
from copter.problems.shockwave.tables import PlanProblem, best_price, gains, normal_prices

SCATTER = 1.0  # s, the penalty on scattered rounds
_SWEEPS = 100  # times that all rounds are looked through for improvements, at most; a few do
_PARTNERS, _LEVELS, _GAIN = 8, 24, 1e-12


@dataclass(frozen=True)
class Plan:
    """A feasible plan.

    `objective`: to be maximised. `bound`: no plan has a larger objective. `gap`: (bound - objective) / size,
    the magnitudes that the objective adds up; 0 for two zeros. `exchanges`: improvements of step 4.
    """

    runs: Flags
    objective: float
    bound: float
    gap: float
    exchanges: int
    seconds: float


class PlanShim:
    """Makes whole rounds of a relaxation's.

    `deadline`: seconds after which no more improvement is looked for; steps 1 to 3 always end. `scatter`: s.
    """

    def __init__(self, deadline: float = 1.0, scatter: float = SCATTER) -> None:
        if not (deadline >= 0 and scatter >= 0):
            raise ValueError(f"deadline = {deadline}, scatter = {scatter}: must not be negative")
        self.deadline, self.scatter = deadline, scatter

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
        """Return the feasible plan near ``rounds``.

        `rounds`: fractional rounds of each job. `bound`: the bound of the relaxation. `prices`: the prices of
        the relaxation: a GPU's round, the rows of H. `urgency`: larger runs earlier. `running`: jobs that ran
        last. `critical`: in [0, 1]: jobs with more run time left than (1 - critical) H run early, if H is
        worth anything. `last`: rounds of each job in what is left of the last plan; 0 for a new one.
        """
        if not 0 <= critical <= 1:
            raise ValueError(f"critical = {critical}: must be in [0, 1]")
        begin = time.perf_counter()
        mu, work, jobs = normal_prices(problem, prices)
        state = self._state(problem, urgency, running)
        counts = _counts(problem, rounds, work, jobs, last)
        state.place(counts, critical if problem.makespan_weight > 0 else 0.0)
        state.fill(work, jobs)
        exchanges = state.improve(work, jobs, begin + self.deadline)
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
        """Return the steps 2 and 3 for counts that are to stay as they are, or grow.

        `rounds`: a way to pack them, if no other is found. `prices`, `urgency`, `running`, `critical`: as
        :meth:`plan` takes them. Result: None if no way was found to pack them into the rounds.
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
    """Whole rounds of each job: the best of those for some bounds on the run time that any job has left.

    Rounding every job on its own would leave the makespan to whichever of the long ones is rounded down.  The
    rounds of the last plan compete with them: exchanges found then need not be found again.
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
    """Bounds to try: run times that forced jobs can be left with, within a round of what they have now."""
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
    """Give single rounds in order while GPU time is left, each job's in turn."""
    left = problem.capacity * problem.rounds - int(np.dot(counts, problem.gpus))
    further = step >= counts[job]
    job, step = job[further], step[further]
    # All those before the first that does not fit at once, the others one by one.
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
    """A plan in the making: runs by job and round, GPUs free by round."""

    def __init__(self, problem: PlanProblem, urgency: Floats, running: Flags, stay: float) -> None:
        self.problem, self.urgency, self.running, self.stay = problem, urgency, running, stay
        count = len(problem.gpus)
        self.runs = np.zeros((count, problem.rounds), bool)
        self.counts = np.zeros(count, np.int64)
        self.free = np.full(problem.rounds, problem.capacity, np.int64)
        self.most = problem.most

    def place(self, counts: Ints, critical: float) -> None:
        """Fill the rounds in turn; a job that does not fit any more keeps fewer rounds.

        A plan is seldom followed to its end.  That is why the longest jobs do not wait for the last round
        that would do: their margin covers what H knows nothing of, restarts, packing, and jobs to come.
        """
        left, ran = counts.copy(), self.running.copy()
        problem, horizon, rows = self.problem, self.problem.rounds, np.arange(len(counts))
        gpus = problem.gpus
        for t in range(horizon):
            seconds = problem.remaining[rows, self.counts]
            long = np.where(seconds > (1.0 - critical) * problem.makespan(seconds), seconds, 0.0)
            eager = self.urgency * np.where(ran, self.stay, 1.0)
            order = np.lexsort((-gpus, -eager, -long, left < horizon - t))
            ran[:] = False
            for j in order[left[order] > 0].tolist():
                if gpus[j] <= self.free[t]:
                    self.run(j, t)
                    left[j] -= 1
                    ran[j] = True
                    if not self.free[t]:
                        break

    def pack(self, counts: Ints) -> bool:
        """Return the jobs with most GPUs first, each in the rounds with most GPUs free; whether all fit."""
        for j in np.lexsort((-counts, -self.problem.gpus)).tolist():
            for t in np.argsort(-self.free, kind="stable")[: counts[j]].tolist():
                if self.problem.gpus[j] > self.free[t]:
                    return False
                self.run(j, t)
        return True

    def run(self, j: int, t: int) -> None:
        """Give a job a round."""
        self.runs[j, t] = True
        self.counts[j] += 1
        self.free[t] -= self.problem.gpus[j]

    def _stop(self, j: int, t: int) -> None:
        self.runs[j, t] = False
        self.counts[j] -= 1
        self.free[t] += self.problem.gpus[j]

    def fill(self, work: float, jobs: Floats) -> None:
        """No GPU idles while a job that is not complete by then fits.

        The most valuable a GPU comes first, then jobs that have all the rounds that they need, but later.
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
        """Exchange one job's round for the rounds of others, while the objective grows and time is left."""
        exchanges = 0
        problem = self.problem
        worth = gains(problem, work, jobs)
        rows = np.arange(len(self.counts))
        improved, sweeps = bool(len(rows)), 0
        while improved and sweeps < _SWEEPS and time.perf_counter() < until:
            improved, sweeps = False, sweeps + 1
            more = np.where(
                self.counts < self.most, worth[rows, np.minimum(self.counts, problem.rounds - 1)], -np.inf
            )
            if not (more > 0).any():
                break
            less = np.where(self.counts > 0, worth[rows, np.maximum(self.counts - 1, 0)], np.inf)
            wanted = np.argsort(-more / problem.gpus, kind="stable")
            for t in range(problem.rounds):
                if time.perf_counter() >= until:
                    break
                pick = self._exchange(t, more, less, wanted)
                if pick is None:
                    continue
                out, into = pick
                before = problem.objective(self.counts)
                self._stop(out, t)
                for j in into:
                    self.run(j, t)
                if problem.objective(self.counts) <= before + _GAIN * problem.size(self.counts):
                    for j in into:
                        self._stop(j, t)
                    self.run(out, t)
                    continue
                exchanges += 1
                improved = True
                for j in (out, *into):
                    n = int(self.counts[j])
                    more[j] = worth[j, n] if n < self.most[j] else -np.inf
                    less[j] = worth[j, n - 1] if n > 0 else np.inf
        if exchanges:
            self.fill(work, jobs)
        return exchanges

    def _exchange(self, t: int, more: Floats, less: Floats, wanted: Ints) -> tuple[int, list[int]] | None:
        """Return the exchange in a round that gains most at the prices: a job out, and those that come in."""
        gpus = self.problem.gpus
        idle = wanted[~self.runs[wanted, t] & (more[wanted] > 0)]
        inside = np.flatnonzero(self.runs[:, t])
        if not idle.size or not inside.size:
            return None
        best: tuple[float, int, list[int]] = (0.0, -1, [])
        cheap = inside[np.argsort(less[inside] / gpus[inside], kind="stable")[:_PARTNERS]]
        for out in cheap.tolist():
            room, gain, into = int(self.free[t] + gpus[out]), -float(less[out]), []
            for j in idle[gpus[idle] <= room][: 4 * _PARTNERS].tolist():
                if gpus[j] <= room:
                    room -= int(gpus[j])
                    gain += float(more[j])
                    into.append(j)
                    if not room:
                        break
            if into and gain > best[0]:
                best = (gain, out, into)
        return None if best[1] < 0 else (best[1], best[2])
