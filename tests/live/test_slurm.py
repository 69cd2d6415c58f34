"""Runs as jobs of a real Slurm on this machine: what users see of them, and what is left when things fail."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
import time
from pathlib import Path

import pytest
from backend_contract import WaitingBackend
from live_runs import Runs, state, until_ended, until_said, worker

from copter.live.backends import base, slurm
from copter.live.backends.base import BackendError, RunRefusedError
from copter.live.backends.slurm import SlurmBackend
from support.slurm_cluster import SlurmCluster, why_not

pytestmark = pytest.mark.cluster

HOSTS = ("a100-1", "a100-2", "t4-1", "t4-2")


@pytest.fixture(scope="module")
def cluster():
    if why_not():
        pytest.skip(f"no Slurm here: {why_not()}")
    folder = Path(tempfile.mkdtemp(prefix="slurm-"))  # pytest's own are too long for a socket
    with SlurmCluster(folder, {"a100": (2, 4), "t4": (2, 4)}) as cluster:
        yield cluster
    shutil.rmtree(folder)


@pytest.fixture
def backend(cluster, monkeypatch):
    monkeypatch.setattr(base, "LATE_SECONDS", 0.5)
    yield SlurmBackend("test", HOSTS)
    cluster.clear()


@pytest.fixture
def runs(tmp_path):
    return Runs(tmp_path)


@pytest.fixture
def nodes():
    return HOSTS[:2]


@pytest.fixture
def again():
    return lambda: SlurmBackend("test", HOSTS)


def ask(*command):
    return subprocess.run(command, capture_output=True, text=True, check=True, timeout=30).stdout


class TestSlurm(WaitingBackend):
    pass


@pytest.mark.long
def test_a_run_waits_for_busy_nodes_and_the_jobs_of_others_are_left_alone(backend, runs):
    foreign = ask(
        "sbatch",
        "--output=/dev/null",
        "--parsable",
        "-wa100-1",
        "--mem=100",
        "--gres=gpu:a100:3",
        "--wrap=sleep 600",
    ).strip()
    other = SlurmBackend("other", HOSTS)
    theirs = runs.make({"a100-2": 4}, worker())
    other.start(theirs)
    until_said(other, theirs)
    run = runs.make({"a100-1": 2}, worker())
    backend.start(run)
    time.sleep(4.0)  # longer than Slurm takes to start a job
    assert state(backend, run).waiting
    ask("scancel", foreign)
    until_said(backend, run)
    backend.kill(run)
    assert until_ended(backend, run).outcome == "lost"
    assert state(other, theirs).outcome is None


@pytest.mark.long
def test_a_node_that_is_taken_away_is_down_and_its_run_lost(backend, cluster, runs):
    run = runs.make({"a100-1": 1, "a100-2": 1}, worker())
    backend.start(run)
    until_said(backend, run)
    ask("scontrol", "update", "nodename=a100-2", "state=down", "reason=smoke | fire")
    try:
        assert backend.down() == {"a100-2": "Slurm state down: smoke | fire"}
        # Its daemon still runs, and Slurm sent SIGTERM to all processes: the first that ends says how it was.
        until_ended(backend, run)
        with pytest.raises(BackendError, match="run job.2: sbatch: "):
            backend.start(runs.make({"nobody": 1}, worker()))
    finally:
        ask("scontrol", "update", "nodename=a100-2", "state=resume")
        cluster.wait_for_nodes("idle", "a100-2")


@pytest.mark.long
def test_a_node_whose_daemon_was_killed_is_down_and_its_run_lost(backend, cluster, runs):
    run = runs.make({"a100-2": 1}, worker())
    backend.start(run)
    until_said(backend, run)
    cluster.kill_node("a100-2")
    try:
        assert until_ended(backend, run) == slurm.RunState("lost", "a node failed")
        assert "Not responding" in backend.down()["a100-2"]
    finally:
        cluster.start_node("a100-2")
        cluster.wait_for_nodes("idle", "a100-2")


@pytest.mark.long
def test_a_run_is_found_again_after_service_and_controller_were_gone(backend, cluster, runs, monkeypatch):
    monkeypatch.setattr(slurm, "COMMAND_SECONDS", 2.0)
    run = runs.make({"a100-1": 1}, worker())
    backend.start(run)
    until_said(backend, run)
    cluster.stop_controller()
    try:
        for call in (backend.down, lambda: backend.states([run]), lambda: backend.stop(run)):
            with pytest.raises(BackendError, match="s(info|queue)"):
                call()
        with pytest.raises(BackendError):
            backend.start(runs.make({"a100-1": 1}, worker()))
    finally:
        cluster.start_controller()
        cluster.wait_for_nodes("idle", "t4-1", "t4-2")
    later = SlurmBackend("test", HOSTS)
    assert state(later, run) == slurm.RunState()
    later.stop(run)
    assert until_ended(later, run).outcome == "stopped"


@pytest.mark.long
def test_a_run_whose_answer_was_lost_is_not_submitted_twice(backend, runs, monkeypatch):
    run, real = runs.make({"a100-1": 1}, worker()), SlurmBackend._call

    def deaf(self, *command, **given):
        done = real(self, *command, **given)
        if command[0] == "sbatch":
            raise BackendError("sbatch did not answer within 10 s")
        return done

    monkeypatch.setattr(SlurmBackend, "_call", deaf)
    backend.start(run)
    SlurmBackend("test", HOSTS).start(run)
    assert ask("squeue", "--noheader", "--format=%j").split() == ["copter-test-job.1"]


@pytest.mark.parametrize("options", [{"partition": "nowhere"}, {"time": "soon"}])
def test_what_slurm_does_not_take_is_refused(backend, runs, options):
    with pytest.raises(RunRefusedError, match="run job.1: sbatch: "):
        backend.start(runs.make({"a100-1": 1}, worker(), options=options))


@pytest.mark.parametrize(
    "options", [{"account": "x", "partition": "closed"}, {"partition": "closed", "time": "61"}]
)
def test_a_job_that_would_wait_for_ever_has_failed(backend, runs, options):
    run = runs.make({"a100-1": 1}, worker(), options=options)
    backend.start(run)
    ended = until_ended(backend, run)
    assert ended.outcome == "failed" and ended.reason.startswith("Slurm will never start it: ")


@pytest.mark.long
def test_a_job_that_cannot_start_its_agents_says_why(cluster, runs):
    backend = SlurmBackend("test", HOSTS, python="/nowhere/python")
    run = runs.make({"a100-1": 1}, worker())
    backend.start(run)
    ended = until_ended(backend, run)
    assert ended.outcome == "lost" and "/nowhere/python" in (run.folder / "slurm-0.txt").read_text()


@pytest.mark.long
def test_a_job_in_which_no_agent_begins_is_lost(cluster, runs, tmp_path):
    asleep = tmp_path / "asleep"
    asleep.write_text("#!/bin/sh\nsleep 600\n")
    asleep.chmod(0o755)
    backend = SlurmBackend("test", HOSTS, python=str(asleep), begin_seconds=1.0)
    run = runs.make({"a100-1": 1}, worker())
    backend.start(run)
    ended = until_ended(backend, run)
    assert ended.reason == "no agent began within 1 s of the start of its Slurm job"
    assert ended.outcome == "lost" and until_ended(backend, run).outcome == "lost"
    cluster.clear()


@pytest.mark.long
def test_a_run_is_told_some_time_before_its_limit(cluster, runs):
    backend = SlurmBackend("test", HOSTS, checkpoint_seconds=59, options={"time": "1"})
    run = runs.make({"a100-1": 1}, worker())
    backend.start(run)
    assert until_ended(backend, run).outcome == "stopped"


def test_commands_that_are_not_there_or_do_not_answer(tmp_path, monkeypatch):
    backend = SlurmBackend("test", HOSTS)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(BackendError, match="sinfo cannot be called"):
        backend.down()
    (tmp_path / "sinfo").write_text("#!/bin/sh\nexec /bin/sleep 60\n")
    os.chmod(tmp_path / "sinfo", 0o755)
    monkeypatch.setattr(slurm, "COMMAND_SECONDS", 0.05)
    with pytest.raises(BackendError, match="sinfo did not answer within 0.05 s"):
        backend.down()
