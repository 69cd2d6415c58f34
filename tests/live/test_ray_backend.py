"""Runs as actors of a Ray with two nodes on this machine: what users see of them, and when things fail."""

from __future__ import annotations

import os
import signal
import sys

import pytest

pytest.importorskip("ray")

import ray
from live_runs import STUBBORN, Runs, pids, state, until_ended, until_gone, until_said, worker

from copter.live.backends import base
from copter.live.backends.base import BackendError, RunState
from copter.live.backends.on_ray import RayBackend

pytestmark = pytest.mark.cluster

SMALL = {"num_cpus": 4, "num_gpus": 4, "object_store_memory": 100_000_000}


class Clusters:
    """The cluster of the tests: two nodes, started anew only after a test has ended its head."""

    def __init__(self):
        self.running = None

    def start(self):
        from ray.cluster_utils import Cluster

        if self.running is None:
            self.running = Cluster(
                initialize_head=True, head_node_args=SMALL | {"node_name": "n1", "include_dashboard": False}
            )
            self.running.add_node(**SMALL, node_name="n2", node_ip_address="127.0.0.2")
        return self.running

    def end(self):
        ray.shutdown()
        if self.running is not None:
            self.running.shutdown()
            self.running = None


@pytest.fixture(scope="module")
def clusters(ray_of_this_process):
    ray_of_this_process.end()
    made = Clusters()
    yield made
    made.end()
    ray_of_this_process.end()


@pytest.fixture
def cluster(clusters):
    return clusters.start()


@pytest.fixture
def make(cluster, monkeypatch):
    monkeypatch.setattr(base, "LATE_SECONDS", 0.5)
    made = []

    def make(*hosts):
        made.append(RayBackend("test", hosts or ("n1", "n2"), address=cluster.address))
        return made[-1]

    yield make
    for backend in made:
        backend.close()


@pytest.fixture
def runs(tmp_path):
    return Runs(tmp_path)


def test_runs_complete_stop_and_are_killed(make, runs):
    backend = make()
    assert backend.down() == {}
    run = runs.make({"n2": 3, "n1": 1}, worker(0.0))
    backend.start(run)
    said = until_said(backend, run)
    assert [[line.split()[:3] for line in lines] for lines in said] == [
        [["0", "0", "4"], ["0", "1", "4"], ["0", "2", "4"]],
        [["1", "3", "4"]],
    ]
    assert len({line.split()[3] for line in said[0]}) == 3
    assert until_ended(backend, run) == RunState("completed")

    first, second = runs.make({"n1": 4}, worker()), runs.make({"n1": 1}, (sys.executable, "-c", STUBBORN))
    backend.start(first)
    until_said(backend, first)
    backend.start(second)  # waits for the first
    assert state(backend, second) == RunState(waiting=True)
    backend.stop(first)
    assert until_ended(backend, first) == RunState("stopped")
    until_said(backend, second)
    agents = pids(second)
    backend.kill(second)
    until_gone(*agents)
    assert until_ended(backend, second).outcome == "lost"
    assert state(backend, second).outcome == "lost"


@pytest.mark.long
def test_a_run_is_found_again_by_a_later_service(make, runs):
    backend = make()
    run, once = runs.make({"n1": 1, "n2": 1}, worker()), runs.make({"n1": 2, "n2": 2}, worker(0.0), once=True)
    backend.start(run)
    backend.start(run)  # asked twice
    until_said(backend, run)
    backend.close()
    assert not ray.is_initialized()
    later = make()
    assert state(later, run) == RunState()
    later.stop(run)
    assert until_ended(later, run) == RunState("stopped")
    later.start(once)
    assert [len(lines) for lines in until_said(later, once)] == [1, 0]
    assert until_ended(later, once) == RunState("completed")


@pytest.mark.long
def test_a_failed_process_ends_the_run_and_its_code_is_told(make, runs):
    backend = make()
    run = runs.make({"n1": 1, "n2": 1}, ("sh", "-c", 'test "$COPTER_NODE" = 0 && exit 3; sleep 600'))
    backend.start(run)
    ended = until_ended(backend, run)
    assert (ended.outcome, ended.reason) == ("failed", "process 0 on the node ended with exit code 3")
    until_gone(*pids(run))


@pytest.mark.long
def test_an_agent_that_is_killed_is_a_run_that_is_lost(make, runs):
    backend = make()
    run = runs.make({"n1": 1}, worker())
    backend.start(run)
    until_said(backend, run)
    os.kill(pids(run)[0], signal.SIGKILL)
    assert until_ended(backend, run) == RunState("lost", "its actor ended or never existed", by_itself=True)


@pytest.mark.long
def test_a_waiting_run_that_is_stopped_never_begins(make, runs):
    backend = make()
    busy = runs.make({"n1": 4}, worker())
    backend.start(busy)
    until_said(backend, busy)
    for end in (backend.stop, backend.kill):
        run = runs.make({"n1": 1}, worker())
        backend.start(run)
        end(run)
        assert until_ended(backend, run).outcome == "lost"
        assert not list(run.folder.glob("log-*"))
    backend.kill(busy)


@pytest.mark.long
def test_a_command_is_not_read_by_a_shell(make, runs):
    words = ("a b", "$(touch broken)", "'\"", "x\ny", "; exit 1", "$HOME", "*")
    backend = make()
    run = runs.make({"n1": 1}, (sys.executable, "-c", "import sys; print(repr(sys.argv[1:]))", *words))
    backend.start(run)
    assert until_ended(backend, run) == RunState("completed")
    assert (run.folder / "log-0.txt").read_text() == f"{list(words)!r}\n"


@pytest.mark.long
def test_nodes_that_are_not_there_or_too_small(make, runs):
    backend = make("n1", "n9")
    assert backend.down() == {"n9": "unknown to Ray"}
    with pytest.raises(BackendError, match="run job.1: node n9: unknown to Ray"):
        backend.start(runs.make({"n9": 1}, worker()))
    with pytest.raises(BackendError, match="run job.2: node n1 has 4 GPU, not 5"):
        backend.start(runs.make({"n1": 5}, worker()))


@pytest.mark.long
def test_a_node_that_dies_is_down_and_its_run_lost(cluster, make, runs):
    node = cluster.add_node(**SMALL, node_name="n3", node_ip_address="127.0.0.3")
    backend = make("n1", "n2", "n3")
    run = runs.make({"n1": 1, "n3": 1}, worker())
    backend.start(run)
    until_said(backend, run)
    agents = pids(run)
    cluster.remove_node(node, allow_graceful=False)
    ended = until_ended(backend, run)
    assert ended.outcome == "lost" and ended.reason.startswith("node n3: Ray lost it: ")
    until_gone(*agents)
    assert list(backend.down()) == ["n3"]


@pytest.mark.long
def test_a_head_that_ends_does_not_end_the_service(clusters, cluster, make, runs):
    backend = make()
    run = runs.make({"n2": 1}, worker())
    backend.start(run)
    until_said(backend, run)
    cluster.head_node.kill_gcs_server()
    for _ in range(2):
        with pytest.raises(BackendError, match="no Ray cluster answers"):
            backend.states([run])
    assert not ray.is_initialized()
    clusters.end()
