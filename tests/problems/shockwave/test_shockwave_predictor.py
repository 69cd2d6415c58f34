"""Prediction of regimes: the three rules against hand-computed posteriors, and Figure 5's comparison."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from copter.problems.shockwave import Pattern, pattern_of, prediction_errors, read_jobs
from copter.problems.shockwave.predictor import RULES, _bayesian, _restatement, observe
from support.shockwave_cases import jobs as some_jobs
from support.shockwave_cases import needs_data, state, static, trace_path
from support.shockwave_reference import finish_time_fairness, outlook

FOUR = Pattern(100.0, (16, 32, 64, 128), (4.0, 3.0, 2.0, 1.0))


def test_restatement_is_the_published_rule():
    assert _restatement(FOUR, [0.0]).tolist() == [25, 25, 25, 25]
    # Two regimes are over with 10 and 30 epochs: S = (100 - 40) / (4 - 2).
    assert _restatement(FOUR, [10.0, 30.0, 5.0]).tolist() == [10, 30, 30, 30]
    # Within a regime nothing is updated, until it lasts longer than it should.
    assert _restatement(FOUR, [20.0]).tolist() == [25, 25, 25, 25]
    assert _restatement(FOUR, [40.0]).tolist() == [40, 20, 20, 20]


def test_bayesian_counts_every_epoch():
    # Dir(25 + 40, 25, 25, 25), mean 100/140 of it; the first has been seen to last 40 at least.
    mean = 100 * np.array([65, 25, 25, 25]) / 140
    assert _bayesian(FOUR, [40.0]) == pytest.approx(mean)
    assert _bayesian(FOUR, [10.0, 0.0])[0] == 10.0


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


@needs_data
@pytest.mark.data
@pytest.mark.parametrize("count", [120, 220, 460, 900])
def test_restatement_beats_the_other_rules_on_the_authors_traces(count):
    errors = prediction_errors(read_jobs(trace_path(count)))
    restated = errors["restatement"]
    # The paper reports 6% for the regimes' durations on average over training.
    assert restated.regime.mean() < 0.08
    for other in ("bayesian", "greedy"):
        assert restated.regime.mean() < errors[other].regime.mean()
        assert restated.run_time.mean() < errors[other].run_time.mean()
