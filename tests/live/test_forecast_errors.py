"""The measurement of estimated starts, on a small trace: what makes estimates wrong, and what does not."""

import numpy as np
import pytest
from live_forecasts import FIRST_DAY, TENANT, compare, figures, scenario_of

from copter.problems.cluster.traces.philly import TracedJob


@pytest.fixture(scope="module")
def scenario():
    rng, begin = np.random.default_rng(1), 86_400.0 * FIRST_DAY
    trace = [
        TracedJob(
            begin + 1200.0 * k, float(rng.uniform(600.0, 20_000.0)), int(rng.choice([8, 32, 64])), TENANT
        )
        for k in range(70)
    ]
    others = [TracedJob(begin, 600.0, 8, "other"), TracedJob(begin - 1.0, 600.0, 8, TENANT)]
    found = scenario_of([*trace, *others, TracedJob(begin, 600.0, 1000, TENANT)])
    assert len(found.jobs) == 70
    return found


def test_errors_come_from_run_times(scenario):
    right = figures(compare(scenario, "fcfs", "true"))
    assert right["jobs"] > 40 and right["without"] == right["error_p90"] == 0.0
    assert figures(compare(scenario, "fcfs", "default"))["error_p50"] > 1000.0


@pytest.mark.long
def test_errors_come_from_later_jobs_that_come_first(scenario):
    delayed = figures(compare(scenario, "queue", "true"))  # small and short jobs come first
    assert delayed["error_p90"] > 1000.0 and delayed["too_early"] > delayed["too_late"]
