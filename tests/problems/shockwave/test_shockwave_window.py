"""Program (11) and its relaxation: data by hand, certificates, cvxpy, and window after window by copter."""

from itertools import islice

import cvxpy as cp
import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from copter.problems.shockwave import (
    Mode,
    Regime,
    RegimeJob,
    build_window,
    dual_bound,
    snapshot,
    solve_waterfilling,
)
from copter.problems.shockwave.course import _busy_rounds, clarabel_relaxation
from copter.problems.shockwave.program import RelaxationProgram
from copter.problems.shockwave.window import _FLOOR, Window
from support.amounts import examples
from support.shockwave_cases import now, state, windows
from support.shockwave_reference import Outlook, window_of

SPEEDS_UP = RegimeJob("up", 0.0, 1, Mode.GNS, (Regime(16, 4, 60.0), Regime(32, 8, 30.0)))
SLOWS_DOWN = RegimeJob("down", 0.0, 1, Mode.ACCORDION, (Regime(16, 8, 30.0), Regime(32, 4, 60.0)))


def test_utility_goes_through_the_regimes_in_order():
    window = build_window(now([state(SPEEDS_UP), state(SLOWS_DOWN)], 4), rounds=10, predictor="oracle")
    # 240 s, two rounds, in each regime.
    for rounds, up, down in ((0, 0, 0), (1, 2, 4), (2, 4, 8), (3, 8, 10), (4, 12, 12), (9, 12, 12)):
        expected = np.array([up, down]) / 12 + _FLOOR
        assert window.utility(np.full(2, float(rounds))) == pytest.approx(expected)
    # What slows down is concave already; what speeds up is replaced by the chord.
    assert window.relaxed_utility(np.array([1.0, 1.0])) == pytest.approx(np.array([3, 4]) / 12 + _FLOOR)
    assert window.segment_rounds == pytest.approx([4.0, 2.0, 2.0])
    assert window.most_rounds == pytest.approx([4.0, 4.0])
    assert window.remaining == pytest.approx([480.0, 480.0])


@given(window=windows(), seed=st.integers(0, 99))
@settings(deadline=None)
def test_the_majorant_is_concave_and_tight_at_its_ends(window, seed):
    rng = np.random.default_rng(seed)
    top = window.most_rounds
    assert (top <= window.rounds + 1e-9).all()
    assert (top[window.gpus > window.capacity] == 0).all()
    a, b = rng.random(len(window)) * top, rng.random(len(window)) * top
    middle = window.relaxed_utility(0.5 * (a + b))
    assert (middle >= 0.5 * (window.relaxed_utility(a) + window.relaxed_utility(b)) - 1e-12).all()
    assert (window.relaxed_utility(a) >= window.utility(a) - 1e-12).all()
    assert window.relaxed_utility(top) == pytest.approx(window.utility(top))
    for j in range(len(window)):
        gains = window.segment_gain[window.segment_start[j] : window.segment_start[j + 1]]
        assert (np.diff(gains) < 0).all()


def certified(window):
    """Water-filling, checked: feasible, and as good as its bound but for rounding."""
    relaxed = solve_waterfilling(window)
    assert (relaxed.rounds >= -1e-12).all() and (relaxed.rounds <= window.most_rounds + 1e-9).all()
    assert window.gpus @ relaxed.rounds <= window.capacity * window.rounds * (1 + 1e-9)
    assert relaxed.objective == pytest.approx(window.relaxed_objective(relaxed.rounds))
    # Run times that cancel leave rounding of theirs behind, however small the objective.
    size = max(
        abs(relaxed.objective), 1e-3, 0.01 * window.makespan_weight * float(window.remaining.max(initial=0.0))
    )
    assert relaxed.bound - relaxed.objective <= 1e-7 * size
    assert relaxed.bound >= relaxed.objective - 1e-9 * size
    return relaxed


# What hypothesis once found: the only valued jobs do not quite fit, and a third of weight 0 is not forced.
FOUND = Window(
    names=tuple(f"j{k}" for k in range(7)),
    gpus=np.array([1, 1, 4, 1, 1, 1, 1]),
    weights=np.array([0.0, 0.0, 0.2, 0.0, 0.0, 0.2, 0.0]),
    base=np.full(7, 1e-6),
    remaining=np.array([0.0, 60.0, 522.5, 0.0, 0.0, 312.0, 0.0]),
    total_seconds=np.array([0.0, 60.0, 522.5, 0.0, 0.0, 312.0, 0.0]),
    segment_start=np.array([0, 0, 1, 2, 2, 2, 3, 3]),
    segment_rounds=np.array([0.5, 522.5 / 120, 2.6]),
    segment_gain=np.array([12 / 7, 4.5 / 20.9, 60 / 169]),
    regime_start=np.array([0, 0, 3, 5, 5, 5, 6, 6]),
    regime_rounds=np.array([1 / 6, 1 / 6, 1 / 6, 3.4375, 522.5 / 120 - 3.4375, 2.6]),
    regime_gain=np.array([12 / 7, 12 / 7, 12 / 7, 0.2, 3 / 11, 60 / 169]),
    rounds=5,
    capacity=4,
    round_seconds=120.0,
    lam=0.0,
)


@given(window=windows(most=8, rounds=5))
@example(window=FOUND)
@settings(deadline=None, max_examples=examples(60))
def test_waterfilling_is_certified_and_feasible(window):
    certified(window)


def degenerate(seed):
    """Windows where things coincide: equal run times, tiny segments, budgets just used up, no weights."""
    rng = np.random.default_rng(seed)
    count, horizon = int(rng.integers(1, 9)), int(rng.integers(1, 8))
    capacity = int(rng.integers(1, 9))
    gpus = rng.integers(1, capacity + 2, count)
    outlooks, total, done = [], [], rng.choice([0.0, 1.0, 7.5], count)
    for k in range(count):
        kinds = int(rng.integers(0, 4))
        epochs = rng.choice([0.5, 1.0, 2.0, 6.0, 1e-3, 1e-6], kinds)
        seconds = rng.choice([20.0, 60.0, 100.0, 120.0, 240.0], kinds)
        left = float(epochs @ seconds)
        outlooks.append(Outlook(epochs, seconds, left, left + float(rng.choice([0.0, 300.0]))))
        total.append(done[k] + float(epochs.sum()) + float(rng.choice([0.5, 1e-3])))
    if rng.random() < 0.4:
        needed = sum(g * o.remaining_seconds for g, o in zip(gpus.tolist(), outlooks, strict=True)) / 120.0
        capacity = max(1, round(needed / horizon * rng.choice([0.5, 0.9, 1.0])))
    weights = rng.choice([0.0, 0.0, 0.2, 1.0, 20.0], count) * 10.0 ** rng.choice([0.0, rng.uniform(-6, 6)])
    return window_of(
        [f"j{k}" for k in range(count)],
        gpus,
        weights,
        done,
        np.array(total),
        outlooks,
        rounds=horizon,
        capacity=capacity,
        round_seconds=120.0,
        lam=float(rng.choice([0.0, 1e-6, 0.1, 3.0, 1e3, 1e6])),
    )


@pytest.mark.parametrize("block", range(4))
def test_waterfilling_is_certified_where_things_coincide(block):
    for seed in range(100 * block, 100 * (block + 1)):
        certified(degenerate(seed))


@pytest.mark.parametrize("setting", [{"lam": -1.0}, {"lam": np.inf}, {"rounds": 0}])
def test_impossible_windows_are_refused(setting):
    with pytest.raises(ValueError, match="must be (finite and not negative|positive)"):
        build_window(snapshot(4, 4, seed=0), **setting)


@given(window=windows(), seed=st.integers(0, 99))
@settings(deadline=None)
def test_the_bound_holds_for_any_prices_and_any_rounds(window, seed):
    rng = np.random.default_rng(seed)
    prices = rng.random(len(window) + 1) * rng.integers(0, 2, len(window) + 1)
    if prices.sum() > 0:
        prices *= window.makespan_weight / prices.sum()
    else:
        prices[0] = window.makespan_weight
    bound = dual_bound(window, float(rng.random()) * window.scale, float(prices[0]), prices[1:])
    for _ in range(20):
        rounds = rng.random(len(window)) * window.most_rounds
        rounds *= min(1.0, window.capacity * window.rounds / max(float(window.gpus @ rounds), 1e-9))
        assert window.relaxed_objective(rounds) <= bound + 1e-9 * max(abs(bound), 1e-6)


def by_rounds(window):
    """The relaxation with a variable for each job, segment and round, as the paper writes it, by cvxpy."""
    count, horizon = len(window), window.rounds
    segments = len(window.segment_rounds)
    owner = np.repeat(np.arange(count), np.diff(window.segment_start))
    runs = cp.Variable((segments, horizon), nonneg=True)
    gather = np.zeros((count, segments))
    gather[owner, np.arange(segments)] = 1.0
    per_round = gather @ runs
    total = cp.sum(per_round, axis=1)
    utility = window.base + gather @ cp.multiply(window.segment_gain, cp.sum(runs, axis=1))
    left = (window.remaining - window.round_seconds * total) / 1000
    h = cp.Variable()
    valued = np.flatnonzero(window.weights > 0)
    scale = float(window.weights.max())
    welfare = cp.sum(cp.multiply(window.weights[valued] / scale, cp.log(utility[valued])))
    kappa = window.makespan_weight * 1000 / (window.scale * scale)
    constraints = [
        per_round <= 1,
        window.gpus @ per_round <= window.capacity,
        cp.sum(runs, axis=1) <= window.segment_rounds,
        h >= left,
        h >= window.gpus @ left / window.capacity,
    ]
    problem = cp.Problem(cp.Maximize(welfare - kappa * h), constraints)
    problem.solve(solver=cp.CLARABEL, equilibrate_enable=False)
    return problem.value * window.scale * scale


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("lam", [0.0, 0.3, 10.0])
def test_three_solutions_agree(seed, lam):
    window = build_window(snapshot(24, 8, seed=seed), rounds=6, lam=lam, power=3.0)
    exact, reference = solve_waterfilling(window), clarabel_relaxation(window)
    assert reference.objective == pytest.approx(exact.objective, rel=1e-6)
    assert reference.bound == pytest.approx(exact.bound, rel=1e-6)
    assert exact.bound == pytest.approx(exact.objective, rel=1e-9)
    # One row for all rounds instead of a row for each loses nothing.
    assert by_rounds(window) == pytest.approx(exact.objective, rel=1e-5)


CLOSE = 1e-5


def check(window, relaxed):
    """Feasible, certified, and as good as water-filling says."""
    exact = solve_waterfilling(window)
    scale = abs(exact.objective)
    assert (relaxed.rounds >= 0).all() and (relaxed.rounds <= window.most_rounds * (1 + 1e-12)).all()
    assert float(window.gpus @ relaxed.rounds) <= window.capacity * window.rounds * (1 + 1e-12)
    assert relaxed.objective == pytest.approx(window.relaxed_objective(relaxed.rounds), rel=1e-12)
    assert relaxed.bound - relaxed.objective <= CLOSE * scale + 1e-12
    assert relaxed.objective <= exact.bound + 1e-9 * scale + 1e-15
    assert relaxed.bound >= exact.objective - 1e-9 * scale - 1e-15


@given(sequence=st.lists(windows(most=8, rounds=5), min_size=1, max_size=4))
@settings(deadline=None, max_examples=examples(40))
def test_any_windows_one_after_another(sequence):
    """Jobs of the same name come, go and change all they have, the cluster too."""
    solve = RelaxationProgram(CLOSE)
    for window in sequence:
        check(window, solve(window))


@pytest.mark.parametrize(("jobs", "gpus"), [(40, 8), (150, 32), (30, 64)])
def test_rounds_of_a_busy_cluster(jobs, gpus):
    solve = RelaxationProgram(CLOSE)
    for busy in islice(_busy_rounds(jobs, gpus, seed=3), 5):
        window = build_window(busy)
        check(window, solve(window))
        assert len(solve.program) == 1 + np.count_nonzero(np.diff(window.segment_start))


def test_a_window_without_jobs():
    window = build_window(now([], 4))
    relaxed = solve_waterfilling(window)
    assert relaxed.rounds.size == 0 and relaxed.bound == relaxed.objective == 0.0
