"""Jobs of real processes: results, stops, resizes, orders, reports and deaths."""

import json
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from copter.live.backends.base import STOPPED
from copter.live.training.group import local_name
from copter.live.training.plan import Batch
from copter.problems.cluster.estimation.gradients import NoiseEstimator
from copter.problems.cluster.profiles.throughput import adascale_gain
from support import paced_digits
from support.training_job import INITIAL_BATCH
from support.training_runs import Job, Service, kill, orders, replay, until

pytestmark = pytest.mark.cluster


@pytest.fixture
def service():
    service = Service()
    yield service
    service.close()


@pytest.fixture
def job(tmp_path, service):
    job = Job(tmp_path, service.url)
    yield job
    job.end()


def figures(job):
    """Those in the latest checkpoint."""
    return json.loads(job.checkpoint()["copter"].tobytes())


def by_step(job, ranks, number=None):
    return list(zip(*(job.trace(rank, number) for rank in range(ranks)), strict=True))


def test_any_number_of_processes_learns_what_one_does(service, tmp_path):
    """Bit by bit what a twin learns that sums in the same order; from one number to another, to rounding."""
    models = []
    for gpus, batch in [((1,), (24, 0)), ((2,), (6, 1)), ((2, 2), (6, 0))]:
        one = Job(tmp_path / f"{sum(gpus)}", service.url)
        one.folder.mkdir()
        try:
            assert one.start(gpus, Batch(*batch, 1.0)).wait() == [0] * len(gpus), one.log()
        finally:
            one.end()
        models.append(np.load(one.folder / "model.npy"))
        twin, _ = replay(by_step(one, sum(gpus)))
        assert np.array_equal(models[-1], twin) and len(one.trace()) == 20
    assert models[1] == pytest.approx(models[0], rel=1e-12)
    assert models[2] == pytest.approx(models[0], rel=1e-12)


def test_a_job_that_is_stopped_and_resized_sees_every_example_once(job):
    job.start((2, 2), Batch(6, 0, 1.0), work=1e6).after(20, ranks=4)
    assert job.terminate().wait() == [STOPPED] * 2 and job.outcome().outcome == "stopped"
    job.start((3,), Batch(8, 1, 1.0), work=1e6).after(20, ranks=3)
    assert job.terminate().wait() == [STOPPED]
    assert job.start((1,), work=figures(job)["progress"] + 30).wait() == [0], job.log()
    runs = [by_step(job, ranks, number) for number, ranks in ((1, 4), (2, 3), (3, 1))]
    twin, _ = replay([step for run in runs for step in run])
    assert np.array_equal(np.load(job.folder / "model.npy"), twin)
    assert len(runs[2]) == 30  # at the initial batch size, a step is worth one


def test_noise_and_progress_are_those_of_the_gradients_of_all(job, service):
    assert job.start((2, 2), Batch(12, 1, 3.0), work=60).wait() == [0, 0], job.log()
    steps = by_step(job, 4)
    _, gathered = replay(steps)
    estimator, progress = NoiseEstimator(INITIAL_BATCH), 0.0
    for (gradients, local_batch), ranks in zip(gathered, steps, strict=True):
        known = estimator.noise_scale
        gain = float(adascale_gain(known, INITIAL_BATCH, 96)) if np.isfinite(known) else np.nan
        assert np.isinf(known) or ranks[0]["factor"] == pytest.approx(3.0 if np.isnan(known) else gain)
        progress += 4.0 if np.isinf(known) else 1.0 if np.isnan(known) else gain
        estimator.observe(gradients, local_batch)
    last = service.reports[-1]
    assert last["squared_norm"] == pytest.approx(estimator.squared_norm)
    assert last["variance"] == pytest.approx(estimator.variance)
    assert last["progress"] == pytest.approx(progress) and progress >= 60 and last["batch_size"] == 96
    assert last["saved_progress"] == last["progress"]
    assert service.tokens == {"Bearer a token"}


def test_a_new_batch_is_everybodys_from_the_same_step_on(job, service):
    new = [5, 2, 2.0]
    service.answer = lambda posts: (200, orders(batch=new if len(posts) == 2 else None))
    job.start((3,), Batch(8, 0, 1.0), work=1e6)
    until(lambda: job.trace() and len(job.trace()[-1]["seen"]) == 3)
    assert job.terminate().wait() == [STOPPED]
    shapes = [np.array(one["seen"]).shape for one in job.trace()]
    change = shapes.index((3, 5))
    assert 0 < change and set(shapes[:change]) == {(1, 8)} and set(shapes[change:]) == {(3, 5)}
    replay(by_step(job, 3))  # all others as well
    counts = {}
    for report in service.reports:
        for times in report["times"]:
            counts[times["local_batch"]] = counts.get(times["local_batch"], 0) + times["count"]
    assert counts == {8: change - 1, 5: len(shapes) - change}


@pytest.mark.parametrize("answer", [(200, orders(stop=True)), (410, {})])
def test_the_service_can_stop_a_run(job, service, answer):
    service.answer = lambda posts: answer
    assert job.start((2,), Batch(12, 0, 1.0), work=1e6).wait() == [STOPPED]
    assert figures(job)["steps"] == len(job.trace())


def test_without_a_service_the_lease_is_over(tmp_path):
    job = Job(tmp_path).start((2,), Batch(12, 0, 1.0), work=1e6, lease_seconds=0.5)
    assert job.wait() == [STOPPED]
    assert figures(job)["steps"] == len(job.trace())
    assert "reports fail" in job.log()


@pytest.mark.long
def test_a_process_that_dies_takes_the_run_with_it(job):
    job.start((1, 2), Batch(8, 0, 1.0), work=1e6).after(5, ranks=3)
    kill(job.trace(2)[0]["pid"], signal.SIGKILL)
    assert job.wait() == [1, 1]
    assert "SIGKILL" in job.outcome(1).reason and job.outcome(1).outcome == "failed"
    assert job.outcome(0).outcome == "failed" and "process 2 has ended" in job.log(0)


def test_a_job_that_is_done_is_done(job, service):
    assert job.start((1,), work=5).wait() == [0]
    assert job.start((2,), Batch(12, 0, 1.0), work=5).wait() == [0], job.log()
    assert job.trace() == [] and service.reports[-1]["progress"] == 5


def test_a_run_told_to_stop_before_all_have_come_is_stopped(job):
    job.start((1, 1), Batch(12, 0, 1.0), agents=[0])
    until(lambda: local_name(job.run.folder).strip("\0") in Path("/proc/net/unix").read_text())
    assert job.terminate().wait() == [STOPPED]
    assert not job.trace() and not job.log()


def test_a_script_runs_by_itself(tmp_path):
    command = [sys.executable, str(paced_digits.EXAMPLES / "digits.py"), "--work", "30", "--say-every", "10"]
    said = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True).stdout
    assert said.startswith("step 0: loss 2.") and "step 20" in said and said.endswith("are read correctly\n")
