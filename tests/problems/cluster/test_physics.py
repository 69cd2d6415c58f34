"""How a job runs within its user's limits and its kind; services."""

import pytest

from copter.problems.cluster.cluster import Cluster, Configuration, GpuType
from copter.problems.cluster.jobs import batch_choice, job_profile
from copter.problems.cluster.profiles.goodput import BatchLimits, GoodputProfile, TypeModel
from copter.problems.cluster.profiles.tables import Replica, ReplicaProfile, ServiceProfile
from copter.problems.cluster.profiles.throughput import ThroughputParameters
from copter.problems.cluster.workload import JobSubmission

MODEL = TypeModel(ThroughputParameters(0.05, 0.002, 0.02, 0.001, 0.1, 0.002, 2.0), 64)
ADAPTIVE = GoodputProfile("m", 30.0, [100.0], [500.0], {"t4": MODEL}, BatchLimits(32, 4096))
LINEAR = ReplicaProfile("m", 30.0, 100.0, {"t4": (1, 1.0)})
CONFIGURATIONS = Cluster([GpuType("t4", 4, 4), GpuType("v100", 8, 2)]).configurations


def _submission(**fields):
    return JobSubmission("j", 0.0, "", "m", **fields)


@pytest.mark.parametrize("application", [ADAPTIVE, LINEAR])
def test_a_job_runs_within_the_limits_on_its_gpus(application):
    profile = job_profile(_submission(min_gpus=2, max_gpus=8), application, "adaptive")
    columns, values = profile.row(CONFIGURATIONS, 0)
    assert CONFIGURATIONS.gpus[columns].tolist() == [2, 4, 8]
    whole = application.goodput(CONFIGURATIONS, 0)
    assert values == pytest.approx(whole[columns])
    for column, configuration in enumerate(CONFIGURATIONS):
        inside = configuration.type == "t4" and 2 <= configuration.gpus <= 8
        assert profile.curve(configuration)[0] == pytest.approx(whole[column] if inside else 0.0)
    fixed = profile.at_fixed_batch()
    assert fixed.curve(Configuration(1, 1, "t4"))[0] == 0 < fixed.curve(Configuration(1, 2, "t4"))[0]


def test_a_service_runs_where_it_answers_in_time():
    replicas = {"t4": Replica(2, 10.0, 0.3), "v100": Replica(1, 30.0, 0.05)}
    service = ServiceProfile("s", 5.0, 3600.0, replicas, demand=35.0, bound=0.5)
    # 35 requests a second are four replicas of two t4, or two v100.
    runs = {CONFIGURATIONS[int(k)] for k in service.row(CONFIGURATIONS, 0)[0]}
    assert {c.gpus for c in runs if c.type == "t4"} == {8, 12, 16}
    assert {c.gpus for c in runs if c.type == "v100"} == {2, 4, 8, 16}
    assert service.clock(Configuration(2, 8, "t4"))[-1] == 3600.0
    strict = ServiceProfile("s", 5.0, 3600.0, replicas, demand=35.0, bound=0.1)
    assert strict.curve(Configuration(4, 16, "t4"))[0] == 0.0
    assert strict.curve(Configuration(1, 2, "v100"))[0] == 1.0
    with pytest.raises(ValueError, match="bound = 0.01 s"):
        ServiceProfile("s", 5.0, 3600.0, replicas, demand=35.0, bound=0.01)
    with pytest.raises(ValueError, match="demand"):
        ServiceProfile("s", 5.0, 3600.0, replicas, demand=0.0, bound=0.5)


def test_a_job_trains_with_the_batch_of_its_level_where_there_is_one():
    two = GoodputProfile("m", 30.0, [100.0, 200.0], [5.0, 5e5], {"t4": MODEL}, BatchLimits(32, 4096))
    eight = Configuration(2, 8, "t4")
    assert batch_choice(two, eight, 10.0) == two.best_batch(eight, 0)
    assert batch_choice(two, eight, 150.0) == two.best_batch(eight, 1) != two.best_batch(eight, 0)
    assert batch_choice(two.with_gpus(1, 4), eight, 10.0) is None
    assert batch_choice(LINEAR, eight, 10.0) is None
