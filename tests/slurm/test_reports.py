"""Reports of jobs as files: what the scheduler reads is what the job wrote, and nothing else harms it."""

import os
import time
from dataclasses import replace

import pytest

from copter.slurm.decide import Decider
from copter.slurm.read import SlurmNode, Snapshot, jobs_in
from copter.slurm.reporting import write_report
from copter.slurm.reports import Reports
from support.slurm_answers import job_fields

COMMENT = "copter: gpus=1..4 kind=adaptive work=1000 batch_size=64"


@pytest.fixture
def job(tmp_path, monkeypatch):
    """Return a running job, as whose process the test writes reports."""
    for name, value in {"SLURM_JOB_ID": "7", "SLURM_NTASKS": "2"}.items():
        monkeypatch.setenv(name, value)
    fields = {"job_id": 7, "job_state": "RUNNING", "priority": 9, "nodes": "n1", "comment": COMMENT}
    fields |= {"tres_per_node": "gres:gpu:2", "gres_detail": ["gpu:a100:2(IDX:0-1)"], "tasks": 2}
    (made,) = jobs_in({"jobs": [job_fields(current_working_directory=str(tmp_path), **fields)]})
    return made


def write(folder, **changes):
    fields = {"progress": 30.0, "running_seconds": 9.0, "local_batch": 32, "step_seconds": 0.5, "steps": 8}
    return write_report(**fields | changes, folder=folder)


def test_a_report_is_read_once(job, tmp_path):
    reports = Reports()
    assert reports.next(job) is None
    assert write(tmp_path).name == "copter-report-7.json"
    report = reports.next(job)
    assert (report.progress, report.batch_size, report.times[0].count) == (30.0, 64, 8)
    assert reports.next(job) is None
    write(tmp_path, progress=40.0)
    assert reports.next(job).progress == 40.0


def test_the_policy_gets_what_was_reported(job, tmp_path):
    decider, nodes = Decider("sia", {"round_seconds": 1.0}, None), (SlurmNode("n1", "a100", 4, ""),)
    write(tmp_path, squared_norm=1.0, variance=64.0)
    decider.use(decider.look(Snapshot(200.0, (job,), nodes, {}))())
    known = decider.world.jobs["7"]
    assert known.progress == 30.0 and known.noise == pytest.approx(64.0 * 64.0)
    assert known.learned.reports["a100"].total == 8


def test_a_report_of_an_earlier_run_is_left_out(job, tmp_path):
    write(tmp_path)
    assert Reports().next(replace(job, began=time.time() + 60.0)) is None


def test_tasks_of_an_array_have_reports_of_their_own(tmp_path, monkeypatch):
    for name, value in {"SLURM_JOB_ID": "9", "SLURM_ARRAY_JOB_ID": "7", "SLURM_ARRAY_TASK_ID": "3"}.items():
        monkeypatch.setenv(name, value)
    assert write(tmp_path, processes=4).name == "copter-report-7_3.json"


@pytest.mark.parametrize(
    "spoil",
    [
        lambda path: path.write_text("{"),
        lambda path: path.write_text('{"progress": -1}'),
        lambda path: path.write_text("[1]"),
        lambda path: path.write_bytes(b" " * 100_000),
        lambda path: path.symlink_to("/etc/passwd"),
        os.mkfifo,
        os.mkdir,
    ],
)
def test_what_is_no_report_is_left_out(job, tmp_path, spoil):
    spoil(tmp_path / "copter-report-7.json")
    assert Reports().next(job) is None
