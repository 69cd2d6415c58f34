"""Virtual clusters, and the models that their jobs train."""

import numpy as np
import pytest

from copter.problems.afs.models import _BEST_COUNTS, stand_ins
from copter.problems.afs.traces import (
    _generate_virtual_cluster,
    make_scenario,
    virtual_cluster,
)
from copter.problems.afs.traces import testbed as paper_cluster
from copter.problems.cluster import Simulator, make_policy

CURVES = stand_ins()


def test_stand_ins_are_fastest_with_the_gpus_of_table_4():
    for curve in CURVES:
        assert curve.speedup.argmax() == _BEST_COUNTS[curve.name] - 1
        assert (np.diff(curve.speedup) > 0).all()
        assert (curve.speedup <= curve.counts).all()


def test_jobs_take_the_time_of_the_trace_on_the_gpus_of_the_trace():
    """Alone on the testbed, rigid, without resize costs."""
    trace = _generate_virtual_cluster(np.random.default_rng(1), jobs=12, gpu_load=0.001)
    scenario = make_scenario(trace, paper_cluster(), CURVES, np.random.default_rng(2), restart_seconds=0.0)
    jobs = Simulator(scenario, make_policy("srtf")).play().job_results()
    assert [job.jct for job in jobs] == pytest.approx([job.seconds for job in trace])
    assert [job.tuned_gpus for job in scenario.jobs] == [job.gpus for job in trace]


def test_without_data_a_virtual_cluster_is_generated():
    assert len(virtual_cluster(paper_cluster(), 0, None, jobs=7).jobs) == 7


def test_generated_load_is_the_one_asked_for():
    trace = _generate_virtual_cluster(np.random.default_rng(3), jobs=3000, gpu_load=0.5)
    service = sum(job.seconds * job.gpus for job in trace)
    assert service / trace[-1].time / 64 == pytest.approx(0.5, rel=0.1)
