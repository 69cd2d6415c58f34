"""Overestimate, then measure: linear beyond what ran, the truth up to it."""

import numpy as np
import pytest

from copter.problems.cluster import Cluster, Configuration, GpuType, JobSubmission, Scenario, Simulator
from copter.problems.cluster.estimation.estimators import _LinearBeyond, make_estimator
from copter.problems.cluster.profiles.analytic import Scaling, TrainingProfile
from copter.problems.sia import Sia

CLUSTER = Cluster([GpuType("A", 4, 4), GpuType("B", 8, 1)])
TRUTH = TrainingProfile("m", 10.0, 3e4, {"A": 1.0, "B": 3.0}, Scaling(16, (1, 20), 0.1, (0.3, 0.8)), levels=2)


def test_a_job_that_never_ran_seems_to_have_no_use_for_more_than_its_fair_share():
    seen = _LinearBeyond(TRUTH, {}, 3)
    for shape in CLUSTER.configurations:
        one = TRUTH.curve(Configuration(1, 1, shape.type))[0]
        assert seen.curve(shape)[0] == pytest.approx(one * min(shape.gpus, 3))


def test_it_is_the_truth_up_to_what_ran_and_linear_beyond():
    seen = _LinearBeyond(TRUTH, {"A": 4}, 1)

    for level in range(2):
        goodput = dict(zip(CLUSTER.configurations, seen.goodput(CLUSTER.configurations, level), strict=True))
        true = dict(zip(CLUSTER.configurations, TRUTH.goodput(CLUSTER.configurations, level), strict=True))
        for one in CLUSTER.configurations:
            base = Configuration(1, 4, "A") if one.type == "A" else Configuration(1, 1, "B")
            expected = true[one] if one.gpus <= base.gpus else true[base] * one.gpus / base.gpus
            assert goodput[one] == pytest.approx(expected)
            assert seen.curve(one)[level] == pytest.approx(expected)  # both ways to ask agree


def test_a_job_that_runs_is_measured():
    scenario = Scenario(CLUSTER, [JobSubmission("a", 0.0, "", "m")], {"m": TRUTH})
    simulator = Simulator(scenario, Sia(), estimator=make_estimator("overestimate"))
    known = []
    for _ in simulator.run():
        known += [job.seen.measured.copy() for job in simulator.jobs.values()]
    assert known[0] == {}
    largest = [max(one.values(), default=0) for one in known]
    assert (np.diff(largest) >= 0).all() and largest[-1] >= 4


def test_an_unknown_estimator_is_named():
    with pytest.raises(ValueError, match="'psychic'.*oracle, bootstrap.*overestimate"):
        make_estimator("psychic")
