"""Prediction of regimes: rules by hand, and forecasts of many jobs against the rules for one."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from copter.problems.shockwave import (
    PREDICTORS,
    Mode,
    Pattern,
    Regime,
    RegimeJob,
    pattern_of,
)
from copter.problems.shockwave.forecast import budgets, forecast
from copter.problems.shockwave.predictor import observe
from support.shockwave_cases import jobs as some_jobs
from support.shockwave_cases import state, static
from support.shockwave_reference import RULES, bayesian, finish_time_fairness, outlook, restatement

FOUR = Pattern(100.0, (16, 32, 64, 128), (4.0, 3.0, 2.0, 1.0))


def test_restatement_is_the_published_rule():
    assert restatement(FOUR, [0.0]).tolist() == [25, 25, 25, 25]
    # Two regimes are over with 10 and 30 epochs: S = (100 - 40) / (4 - 2).
    assert restatement(FOUR, [10.0, 30.0, 5.0]).tolist() == [10, 30, 30, 30]
    # Within a regime nothing is updated, until it lasts longer than it should.
    assert restatement(FOUR, [20.0]).tolist() == [25, 25, 25, 25]
    assert restatement(FOUR, [40.0]).tolist() == [40, 20, 20, 20]


def test_bayesian_counts_every_epoch():
    # Dir(25 + 40, 25, 25, 25), mean 100/140 of it; the first has been seen to last 40 at least.
    mean = 100 * np.array([65, 25, 25, 25]) / 140
    assert bayesian(FOUR, [40.0]) == pytest.approx(mean)
    assert bayesian(FOUR, [10.0, 0.0])[0] == 10.0


@given(jobs=some_jobs(), share=st.floats(0.0, 1.0), rule=st.sampled_from(sorted(RULES)))
def test_expected_epochs_add_up_and_respect_what_was_seen(jobs, share, rule):
    for job in jobs:
        pattern, seen = pattern_of(job), observe(job, share * job.epochs)
        assert seen.sum() == pytest.approx(share * job.epochs)
        expected = RULES[rule](pattern, seen)
        assert expected.sum() == pytest.approx(job.epochs)
        counts = np.zeros(len(pattern))
        counts[: len(seen)] = seen[: len(pattern)]
        assert (expected >= counts - 1e-9).all()
        begun = min(len(seen), len(pattern))
        assert expected[: begun - 1] == pytest.approx(seen[: begun - 1])


def test_finish_time_fairness_by_hand():
    job = static("a", 1000.0)
    # Age 700, 600 s left at contention 3, of 1000 s at contention 3.
    half = state(job, run=400.0, waited=300.0, contention=3.0)
    assert finish_time_fairness(half, outlook(half)) == pytest.approx((700 + 600 * 3) / 3000)
    fresh = state(job)
    assert finish_time_fairness(fresh, outlook(fresh)) == 1.0
    with pytest.raises(ValueError, match="predictor"):
        outlook(fresh, "nobody")


BACK_TO_THE_FIRST = RegimeJob(
    "back",
    0.0,
    1,
    Mode.GNS,
    (Regime(16, 4, 60.0), Regime(32, 8, 30.0), Regime(64, 9, 20.0), Regime(16, 1, 60.0)),
)
ALTERNATES = RegimeJob(
    "alternates", 0.0, 2, Mode.ACCORDION, tuple(Regime(16 + 16 * (k % 2), 3, 9.0) for k in range(7))
)


def check(states, predictor):
    seen = forecast(states, predictor)
    for k, one in enumerate(states):
        alone = outlook(one, predictor)
        assert seen.epochs[k] == pytest.approx(one.epochs, abs=1e-9)
        assert seen.remaining_seconds[k] == pytest.approx(alone.remaining_seconds, abs=1e-6)
        assert seen.total_seconds[k] == pytest.approx(alone.total_seconds)
        assert seen.fairness[k] == pytest.approx(finish_time_fairness(one, alone))
        # Regimes that are over have nothing left; from the ongoing one on, both list the same.
        width = seen.left.shape[1]
        count = len(alone.epochs)
        start = next(
            s
            for s in range(width - count + 1)
            if np.allclose(seen.left[k, s : s + count], alone.epochs, atol=1e-9)
            and np.allclose(seen.epoch_seconds[k, s : s + count], alone.epoch_seconds)
        )
        assert np.abs(np.delete(seen.left[k], range(start, start + count))).max(initial=0.0) <= 1e-9


@given(jobs=some_jobs(most=6), shares=st.lists(st.floats(0.0, 1.0), min_size=6, max_size=6), data=st.data())
@settings(deadline=None)
@pytest.mark.parametrize("predictor", PREDICTORS)
def test_all_at_once_is_one_by_one(predictor, jobs, shares, data):
    waited = [data.draw(st.floats(0.0, 1e4)) for _ in jobs]
    contention = data.draw(st.floats(1.0, 6.0))
    check(
        [
            state(job, share * job.seconds, wait, contention)
            for job, share, wait in zip(jobs, shares, waited, strict=False)
        ],
        predictor,
    )


@pytest.mark.parametrize("predictor", PREDICTORS)
def test_at_the_ends_of_regimes_and_past_those_of_the_pattern(predictor):
    for job in (BACK_TO_THE_FIRST, ALTERNATES, static("a", 500.0)):
        runs = np.append(job.seconds_by_regime, 0.5 * job.seconds)
        check([state(job, float(run), 10.0, 2.0) for run in runs], predictor)


def test_a_job_that_would_be_late_ends_first():
    """Power 100 in place of k for who is behind and has less than a round left, up to a thousand times."""
    jobs = {
        "late, ends": state(static("a", 1000.0), run=950.0, waited=1500.0, contention=2.0),
        "late": state(static("b", 1000.0), run=500.0, waited=1500.0, contention=2.0),
        "early, ends": state(static("c", 1000.0), run=950.0, waited=100.0, contention=2.0),
        "very late, ends": state(static("d", 1000.0), run=950.0, waited=9000.0, contention=2.0),
    }
    seen = forecast(list(jobs.values()))
    rho = np.array(
        [
            (one.run_seconds + one.waited_seconds + 2 * r) / 2000.0
            for one, r in zip(jobs.values(), (50.0, 500.0, 50.0, 50.0), strict=True)
        ]
    )
    assert seen.fairness == pytest.approx(rho)
    plain = budgets(seen, 5.0)
    assert plain == pytest.approx(rho**5)
    found = budgets(seen, 5.0, ending=100.0, round_seconds=120.0)
    assert found[0] == pytest.approx(min(rho[0] ** 100, 1000 * plain.max()))
    assert found[[1, 2]] == pytest.approx(plain[[1, 2]])
    assert found[3] == pytest.approx(1000 * plain.max())
    # Nothing ends within a shorter round, and a power below k changes nothing.
    assert budgets(seen, 5.0, ending=100.0, round_seconds=50.0) == pytest.approx(plain)
    assert budgets(seen, 5.0, ending=2.0, round_seconds=120.0) == pytest.approx(plain)


def test_gns_pattern_ends_at_the_largest_batch_size():
    job = RegimeJob("a", 0, 1, Mode.GNS, (Regime(10, 11, 60.0), Regime(20, 9, 40.0), Regime(10, 1, 60.0)))
    assert pattern_of(job).batch_sizes == (10, 20)
