"""Exact solution of the relaxation by water-filling, fast and without a solver.

For an upper bound h on all remaining run times, each job has at least lo_j = (R_j - h) / D rounds.  At a
price mu of a GPU in a round, job j fills its segments in order, each until its marginal value is the price,

    z_q = clip( w_j / (N M mu g_j) - u_q / gain_q, 0, rounds_q ),     y_j = max(lo_j, sum_q z_q),

where u_q is the utility at the start of the segment, and mu is the price at which all GPU time is used.  One
more round for a job that is forced by lo_j loses alpha_j = (mu g_j - its marginal value) / D per second of
run time.  So at the best h, the alpha_j add up to lambda / Z_0 (or h has its least value, at which a job has
all rounds of the window).  When all GPU time is used, the other part of H is the constant
W = (sum_j g_j R_j - D M T) / M.  So h is at least W, and the price of this bound is lambda / Z_0 minus the
sum of the alpha_j.

Source: KKT conditions of the relaxation in :mod:`.relaxation`; this method is usual for Eisenberg-Gale
programs with one good.
"""

from __future__ import annotations

import time

import numpy as np

from copter.arrays import Floats
from copter.problems.shockwave.relaxation import Relaxation, answer, dual_bound
from copter.problems.shockwave.window import Window

_STEPS = 100
_CLOSE = 1e-13
_CERTAIN = 1e-9


class _Filling:
    """Segments of a window, for the rounds of each job at a price."""

    def __init__(self, window: Window) -> None:
        self.window = window
        start, length, gain = window.segment_start, window.segment_rounds, window.segment_gain
        self.count = len(window)
        self.owner = np.repeat(np.arange(self.count), np.diff(start))
        first = start[:-1].clip(max=max(len(length) - 1, 0))
        done = np.cumsum(length * gain) - length * gain
        self.utility = window.base[self.owner] + done - (done[first][self.owner] if len(length) else 0.0)
        before = np.cumsum(length) - length
        self.before = before - (before[first][self.owner] if len(length) else 0.0)
        self.worth = (window.scale * window.weights / window.gpus)[self.owner]
        self.most = window.most_rounds
        self.budget = float(window.capacity * window.rounds)

    def rounds(self, mu: float, least: Floats) -> Floats:
        """Return the rounds of each job at a price of a GPU in a round."""
        window = self.window
        z = np.clip(self.worth / mu - self.utility / window.segment_gain, 0.0, window.segment_rounds)
        return np.maximum(np.bincount(self.owner, z, self.count), least)

    def price(self, least: Floats) -> tuple[float, Floats]:
        """Return the price at which all GPU time is used, and the rounds at this price."""
        gpus = self.window.gpus
        low, high = 0.0, float((self.worth * self.window.segment_gain / self.utility).max(initial=0.0))
        if not high > 0:
            return 0.0, least
        low = high * 1e-18
        if float(gpus @ self.rounds(low, least)) <= self.budget:
            return 0.0, self.rounds(low, least)
        for _ in range(_STEPS):
            middle = float(np.sqrt(low * high))
            if float(gpus @ self.rounds(middle, least)) > self.budget:
                low = middle
            else:
                high = middle
            if high - low <= _CLOSE * high:
                break
        return high, self.rounds(high, least)

    def leftover(self, rounds: Floats) -> Floats:
        """Share remaining GPU time among jobs that can use it, which are indifferent at the price."""
        left = self.budget - float(self.window.gpus @ rounds)
        room = float(self.window.gpus @ (self.most - rounds))
        return rounds + (self.most - rounds) * min(1.0, max(left, 0.0) / room) if room > 0 else rounds

    def marginal(self, rounds: Floats) -> Floats:
        """Return each job's value of one round less: the slope of the welfare just below `rounds`."""
        window = self.window
        result = np.zeros(self.count)
        inside = (self.before < rounds[self.owner]) | (self.before == 0.0)
        # Segments are in order, so the last segment that has begun overwrites the previous ones.
        picked = np.flatnonzero(inside)
        last = np.full(self.count, -1, np.int64)
        last[self.owner[picked]] = picked
        has = last >= 0
        q = last[has]
        utility = self.utility[q] + window.segment_gain[q] * np.maximum(rounds[has] - self.before[q], 0.0)
        result[has] = window.scale * window.weights[has] * window.segment_gain[q] / utility
        return result


def solve_waterfilling(window: Window) -> Relaxation:
    """Solve the relaxation exactly, with prices that certify it."""
    begin = time.perf_counter()
    filling = _Filling(window)
    if float(window.gpus @ filling.most) <= filling.budget:
        return _all(window, filling, begin)
    floor = float(window.gpus @ window.remaining) / window.capacity - window.round_seconds * window.rounds
    low = max(_least_run_time(filling), floor)
    mu, rounds, alpha = _best_run_time(filling, low, max(_longest(window), floor))
    work = max(window.makespan_weight - float(alpha.sum()), 0.0)
    left = window.remaining - window.round_seconds * rounds
    if work > 0 and float(left.max()) > floor * (1 + 1e-12):
        # The longest job has every round of the window, so its price in h costs the other jobs nothing.
        alpha[int(left.argmax())] += work
        work = 0.0
    # The price of GPU time includes its saving in the other part of H.
    mu += work * window.round_seconds / window.capacity
    relaxed = answer(window, rounds, mu, work, alpha, begin)
    if relaxed.bound - relaxed.objective <= _CERTAIN * relaxed.size:
        return relaxed
    # If GPU time is used up at the end of a segment, many prices of GPU time are possible; alpha determines
    # the price.
    highest = float((filling.worth * window.segment_gain / filling.utility).max())
    price = _least_bound(window, work, alpha, highest)
    better = answer(window, rounds, price, work, alpha, begin)
    return better if better.bound < relaxed.bound else relaxed


def _longest(window: Window) -> float:
    return float(window.remaining.max(initial=0.0))


def _least_run_time(filling: _Filling) -> float:
    """Return the least h that GPU time allows; below it there is no plan."""
    low, high = 0.0, _longest(filling.window)
    for _ in range(_STEPS):
        middle = 0.5 * (low + high)
        if _possible(filling, middle):
            high = middle
        else:
            low = middle
        if high - low <= _CLOSE * max(high, filling.window.round_seconds):
            break
    return high


def _slopes(filling: _Filling, h: float) -> tuple[float, Floats, Floats]:
    """Return, for an h, the price of GPU time, the rounds of each job, and the alpha_j."""
    window, none = filling.window, np.zeros(filling.count)
    least = np.clip((window.remaining - h) / window.round_seconds, 0.0, filling.most)
    mu, rounds = filling.price(least)
    if mu <= 0:
        return mu, filling.leftover(rounds), none
    # A job that has the least rounds without being forced loses nothing.  Its marginal value cannot show
    # this: at the end of a segment, rounding errors decide whether it is that of this or of the next segment.
    lost = np.maximum(mu * window.gpus - filling.marginal(rounds), 0.0) / window.round_seconds
    return mu, filling.leftover(rounds), np.where(least > filling.rounds(mu, none), lost, 0.0)


def _best_run_time(filling: _Filling, low: float, high: float) -> tuple[float, Floats, Floats]:
    """Return what `_slopes` returns at the best h in an interval: the alpha_j add up to lambda / Z_0."""
    kappa, seconds = filling.window.makespan_weight, filling.window.round_seconds
    mu, rounds, alpha = _slopes(filling, low)
    if float(alpha.sum()) <= kappa:
        return mu, rounds, alpha
    over = alpha
    # At the upper end no job is forced; it may be the answer, but bisection would never reach it.
    mu, rounds, alpha = _slopes(filling, high)
    for _ in range(_STEPS):
        middle = 0.5 * (low + high)
        at = _slopes(filling, middle)
        if float(at[2].sum()) > kappa:
            low, over = middle, at[2]
        else:
            high, (mu, rounds, alpha) = middle, at
        if high - low <= _CLOSE * max(high, seconds):
            break
    # The slopes jump where a job enters another segment; all values between the two sides of the jump are
    # valid.
    jump = float(over.sum() - alpha.sum())
    if jump > 0:
        alpha = alpha + (over - alpha) * min(1.0, max(kappa - float(alpha.sum()), 0.0) / jump)
    return mu, rounds, alpha


def _least_bound(window: Window, work: float, alpha: Floats, high: float) -> float:
    """Return the price with the least bound, by ternary search and at kinks nearby; the bound is convex."""
    beta = alpha + work * window.gpus / window.capacity
    kinks = np.unique(beta * window.round_seconds / window.gpus)
    low, high = 0.0, max(high, float(kinks.max(initial=0.0)))

    def bound(mu: float) -> float:
        return dual_bound(window, mu, work, alpha)

    for _ in range(_STEPS):
        third = (high - low) / 3.0
        if bound(low + third) <= bound(high - third):
            high -= third
        else:
            low += third
    near = kinks[np.argsort(abs(kinks - low))[:3]]
    return min([low, high, *near.tolist()], key=bound)


def _possible(filling: _Filling, h: float) -> bool:
    window = filling.window
    least = (window.remaining - h) / window.round_seconds
    if (least > filling.most + 1e-12).any():
        return False
    return float(window.gpus @ np.maximum(least, 0.0)) <= filling.budget


def _all(window: Window, filling: _Filling, begin: float) -> Relaxation:
    """Return the answer in which every job has all rounds that it can use."""
    rounds = filling.most
    left = np.maximum(window.remaining - rounds * window.round_seconds, 0.0)
    alpha = np.zeros(len(window))
    work = window.makespan_weight
    if left.size and left.max() > float(window.gpus @ left) / window.capacity:
        alpha[int(left.argmax())], work = window.makespan_weight, 0.0
    return answer(window, rounds, 0.0, work, alpha, begin)
