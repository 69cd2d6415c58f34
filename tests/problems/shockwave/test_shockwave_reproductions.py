"""What `copter reproduce shockwave-...` measures: on small instances."""

import pytest

from copter.bench.reproduction import Effort
from copter.problems.shockwave import Shockwave, read_jobs, read_published, replay
from copter.problems.shockwave.reproductions import predictions
from support.shockwave_cases import DATA, needs_data, result_path, trace_path

AUTHORS = {"rounds": 20, "power": 12.0}
"""Settings of the authors' run on 32 GPUs."""


def by_place(figures):
    return {(figure.row, figure.column): figure.ours for figure in figures}


@needs_data
@pytest.mark.data
def test_the_last_round_rule_makes_short_plans_fair():
    """T = 20 and k = 12: as printed four times as many unfair jobs as the authors', with the rule as few."""
    jobs = read_jobs(trace_path(120))
    authors = read_published(result_path("shockwave"), jobs).metrics
    printed, ours = (
        replay(jobs, 32, Shockwave(reactive=False, ending=ending, **AUTHORS)).metrics
        for ending in (0.0, 100.0)
    )
    assert printed.unfair_fraction > 3.0 * authors.unfair_fraction
    assert ours.unfair_fraction < authors.unfair_fraction + 0.02 and ours.worst_ftf < authors.worst_ftf
    assert ours.average_jct < 0.95 * printed.average_jct


@needs_data
@pytest.mark.data
def test_predictions_on_the_traces():
    effort = Effort(data=DATA, quick=True)
    errors = by_place(predictions(effort, gpus=[32]))
    mean = {rule: errors[f"on average: {rule}", "regimes"] for rule in ("restatement", "bayesian", "greedy")}
    assert mean["restatement"] < mean["bayesian"] < mean["greedy"]
