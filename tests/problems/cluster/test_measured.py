"""Measured profiles: interpolation by hand on a small folder, and run times of Pollux' shipped results."""

import json

import numpy as np
import pytest

from copter.errors import InputError
from copter.problems.cluster.cluster import Configuration
from copter.problems.cluster.traces.pollux import read_pollux_measurements
from support.real_data import DATA

ARTIFACT = DATA / "cluster" / "petuum_adaptdl_osdi21-artifact" / "simulator"


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
        ("placements.csv", "placement,local_bsz,step_time,sync_time\n1,0,1,0\n", "line 2, local_bsz"),
        (
            "placements.csv",
            "placement,local_bsz,step_time,sync_time\n2,4,1,0\n",
            "must have an entry for one GPU",
        ),
        ("placements.csv", "placement,local_bsz,step_time,sync_time\n1,4,0,0\n", "must be positive"),
        ("validation-8.csv", "progress,grad_sqr\n1,1\n", "grad_var"),
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


@pytest.mark.data
@pytest.mark.skipif(not ARTIFACT.is_dir(), reason="needs Pollux' artifact")
def test_jobs_that_did_not_wait_ran_as_long_as_in_the_shipped_results():
    profiles = read_pollux_measurements(ARTIFACT)
    shipped = json.loads((ARTIFACT / "results-jobload" / "tiresias-0.5" / "summary.json").read_text())["jcts"]
    # GPUs and batch size of the shipped workloads; they fill whole nodes, so that placements do not differ.
    tuned = [("ncf", 1, 32768), ("yolov3", 4, 64), ("cifar10", 16, 4096), ("bert", 16, 384)]
    for model, gpus, batch in tuned:
        names = {
            (path.stem, job)
            for path in (ARTIFACT / "workloads-0.5").glob("*.csv")
            for job, _, application, *rest in (line.split(",") for line in path.read_text().split()[1:])
            if application == model and rest == [str(gpus), str(batch)]
        }
        shortest = min(shipped[workload][job] for workload, job in names)
        profile = profiles[model].at_fixed_batch(batch)
        ours = profile.clock(Configuration(-(-gpus // 4), gpus, "t4"))[-1] + profile.restart_seconds
        # Theirs are whole seconds.
        assert ours == pytest.approx(shortest, rel=0.01, abs=2.0)
