"""Measured and built-in profiles, pipelines, services, and jobs within their users' limits."""

import numpy as np
import pytest

from copter.errors import InputError
from copter.problems.cluster.cluster import Cluster, Configuration, GpuType
from copter.problems.cluster.jobs import batch_choice, job_profile
from copter.problems.cluster.profiles.goodput import BatchLimits, GoodputProfile, TypeModel
from copter.problems.cluster.profiles.tables import Replica, ReplicaProfile, ServiceProfile
from copter.problems.cluster.profiles.throughput import ThroughputParameters
from copter.problems.cluster.traces.pollux import read_pollux_measurements
from copter.problems.cluster.workload import JobSubmission


@pytest.fixture
def folder(tmp_path):
    model = tmp_path / "job"
    model.mkdir()
    rows = ["placement,local_bsz,step_time,sync_time"]
    # One GPU: 0.1 s and 0.01 s an example; two on a node 0.1 s more, on two nodes 0.3 s more.
    for placement, sync in (("1", 0.0), ("2", 0.1), ("11", 0.3), ("22", 0.4), ("13", 0.6), ("31", 0.4)):
        rows += [f"{placement},{size},{0.1 + 0.01 * size + sync},{sync}" for size in (4, 8, 16)]
    (model / "placements.csv").write_text("\n".join(rows) + "\n")
    for size, variance in ((8, 1.0), (16, 3.0)):
        lines = ["progress,grad_sqr,grad_var", f"100,1.0,{variance}", f"200,0.5,{variance}"]
        (model / f"validation-{size}.csv").write_text("\n".join(lines) + "\n")
    return tmp_path


def test_steps_and_gradients_are_interpolated(folder):
    profile = read_pollux_measurements(folder)["job"]
    assert (profile.initial_batch, profile.max_batch, profile.n_levels, profile.work) == (8, 16, 2, 200.0)
    assert profile.times.seconds(1, 1, 6) == pytest.approx(0.16)
    # Two accumulated passes without synchronisation, and one with it.
    assert profile.times.seconds(1, 2, 8, 2) == pytest.approx(0.28 + 2 * 0.18)
    # Four GPUs on two nodes were measured in three shapes, whose times are averaged.
    assert profile.times.seconds(2, 4, 4) == pytest.approx(0.14 + (0.4 + 0.6 + 0.4) / 3)
    # Three GPUs on two nodes lie half-way between two and four.
    assert profile.times.seconds(2, 3, 4) == pytest.approx(0.14 + (0.3 + 1.4 / 3) / 2)
    assert profile.times.seconds(3, 12, 4) == np.inf
    # At a batch of 12 the variance is 2: a step is worth (2 + 1) / (2 / 1.5 + 1).
    assert profile.gradients.gain(np.array([8.0, 12.0]))[0] == pytest.approx([1.0, 3 / (2 / 1.5 + 1)])


def test_a_fixed_batch(folder):
    profile = read_pollux_measurements(folder)["job"]
    fixed = profile.at_fixed_batch(16)
    assert fixed is profile.at_fixed_batch(16)
    gain = profile.gradients.gain(np.array([16.0]))[:, 0]
    assert fixed.curve(Configuration(1, 2, "t4")) == pytest.approx(gain / 0.28)
    # One GPU has to accumulate to see the variance of the gradient.
    assert fixed.curve(Configuration(1, 1, "t4")) == pytest.approx(gain / (2 * 0.18))
    with pytest.raises(ValueError, match="batch_size = 17"):
        profile.at_fixed_batch(17)


@pytest.mark.parametrize(
    "name, text, message",
    [
        ("placements.csv", "placement,local_bsz,step_time,sync_time\n1x,4,1,0\n", "line 2, placement"),
        (
            "placements.csv",
            "placement,local_bsz,step_time,sync_time\n2,4,1,0\n",
            "must have an entry for one GPU",
        ),
        ("placements.csv", "placement,local_bsz,step_time,sync_time\n1,4,0,0\n", "must be positive"),
        ("validation-8.csv", "progress,grad_sqr,grad_var\n2,1,1\n1,1,1\n", "ascending"),
        ("validation-x.csv", "progress,grad_sqr,grad_var\n2,1,1\n", "must be a batch size"),
    ],
)
def test_what_is_wrong_in_a_file_is_named(folder, name, text, message):
    (folder / "job" / name).write_text(text)
    with pytest.raises(InputError, match=message):
        read_pollux_measurements(folder)
    with pytest.raises(InputError, match="<model>/placements.csv: does not exist"):
        read_pollux_measurements(folder / "job" / "nowhere")


MODEL = TypeModel(ThroughputParameters(0.05, 0.002, 0.02, 0.001, 0.1, 0.002, 2.0), 64)
ADAPTIVE = GoodputProfile("m", 30.0, [100.0], [500.0], {"t4": MODEL}, BatchLimits(32, 4096))
LINEAR = ReplicaProfile("m", 30.0, 100.0, {"t4": (1, 1.0)})
CONFIGURATIONS_LIMITS = Cluster([GpuType("t4", 4, 4), GpuType("v100", 8, 2)]).configurations


def _submission(**fields):
    return JobSubmission("j", 0.0, "", "m", **fields)


@pytest.mark.parametrize("application", [ADAPTIVE, LINEAR])
def test_a_job_runs_within_the_limits_on_its_gpus(application):
    profile = job_profile(_submission(min_gpus=2, max_gpus=8), application, "adaptive")
    columns, values = profile.row(CONFIGURATIONS_LIMITS, 0)
    assert CONFIGURATIONS_LIMITS.gpus[columns].tolist() == [2, 4, 8]
    whole = application.goodput(CONFIGURATIONS_LIMITS, 0)
    assert values == pytest.approx(whole[columns])
    for column, configuration in enumerate(CONFIGURATIONS_LIMITS):
        inside = configuration.type == "t4" and 2 <= configuration.gpus <= 8
        assert profile.curve(configuration)[0] == pytest.approx(whole[column] if inside else 0.0)
    fixed = profile.at_fixed_batch()
    assert fixed.curve(Configuration(1, 1, "t4"))[0] == 0 < fixed.curve(Configuration(1, 2, "t4"))[0]


def test_a_service_runs_where_it_answers_in_time():
    replicas = {"t4": Replica(2, 10.0, 0.3), "v100": Replica(1, 30.0, 0.05)}
    service = ServiceProfile("s", 5.0, 3600.0, replicas, demand=35.0, bound=0.5)
    # 35 requests a second are four replicas of two t4, or two v100.
    runs = {CONFIGURATIONS_LIMITS[int(k)] for k in service.row(CONFIGURATIONS_LIMITS, 0)[0]}
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


def test_batch_sizes_are_the_users():
    limited = job_profile(_submission(max_batch_size=64), ADAPTIVE, "adaptive")
    assert limited.best_batch(Configuration(4, 16, "t4"), 0).batch_size == 64
    fixed = job_profile(_submission(batch_size=256, max_batch_size=64), ADAPTIVE, "strong-scaling")
    assert fixed.best_batch(Configuration(4, 16, "t4"), 0).batch_size == 256
    assert job_profile(_submission(max_batch_size=64), LINEAR, "adaptive") is LINEAR
