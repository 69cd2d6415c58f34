"""Runs as actors of a Ray with two nodes on this machine: what users see of them, and when things fail."""

from __future__ import annotations

import os
import signal

import pytest

pytest.importorskip("ray")

import ray
from backend_contract import WaitingBackend
from live_runs import Runs, pids, until_ended, until_gone, until_said, worker

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


@pytest.fixture
def nodes():
    return "n1", "n2"


@pytest.fixture
def backend(make):
    return make()


@pytest.fixture
def again(make, backend):
    def end_and_make():
        backend.close()
        assert not ray.is_initialized()
        return make()

    return end_and_make


class TestRay(WaitingBackend):
    pass


@pytest.mark.long
def test_an_agent_that_is_killed_is_a_run_that_is_lost(make, runs):
    backend = make()
    run = runs.make({"n1": 1}, worker())
    backend.start(run)
    until_said(backend, run)
    os.kill(pids(run)[0], signal.SIGKILL)
    assert until_ended(backend, run) == RunState("lost", "its actor ended or never existed", by_itself=True)


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
    until_gone(backend, *agents)
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
