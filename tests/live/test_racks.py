"""Jobs that must be in one rack: where they run, why they wait, and which are refused."""

import pytest

from copter.live.admission import RefusedError
from copter.live.files import ClusterFile, JobFileError, checked, read_toml
from copter.live.replay import play_again
from copter.problems.cluster.cluster import Cluster, GpuType
from copter.problems.cluster.placement import placer_for
from copter.problems.cluster.profiles.tables import CountProfile
from copter.problems.cluster.registry import make_policy
from copter.problems.cluster.simulation.simulator import Simulator
from copter.problems.cluster.workload import JobSubmission, Scenario
from support.live_cases import (
    ELASTIC,
    RIGID,
    asked,
    look,
    make_service,
    named,
    said,
    step,
    would_start,
    write_cluster,
)

T4 = {"type": "t4", "gpus_per_node": 2, "nodes": 6, "nodes_per_rack": 3}
A100 = {"type": "a100", "gpus_per_node": 4, "nodes": 3, "nodes_per_rack": [1, 2]}


@pytest.fixture(params=["queue", "backfill"])
def service(tmp_path, request):
    made = make_service(tmp_path, cluster=ClusterFile(gpus=(T4,)), policy=request.param)
    yield made
    made.close()


def submit(service, name, gpus, **fields):
    service.admission.submit(named(RIGID, name, gpus=gpus, **{"one_rack": True} | fields))


def nodes(service, name):
    place = service.record.state.jobs[name].place
    return None if place is None else [node for node, _ in place]


def test_a_job_runs_in_one_rack_or_waits_and_says_why(service):
    submit(service, "a", 4)
    submit(service, "b", 4)
    step(service)
    assert sorted([nodes(service, "a"), nodes(service, "b")]) == [[0, 1], [3, 4]]
    job = named(RIGID, "c", gpus=4, one_rack=True)
    words = "GPUs are free, but not in one rack: at most 2 t4 in a rack are not given to any job"
    assert words in " ".join(would_start(service, service.admission.dry_run(job)))
    submit(service, "c", 4)
    submit(service, "elsewhere", 4, one_rack=False)
    service.admission.hold("elsewhere")
    step(service)
    assert nodes(service, "c") is None
    answer = asked(service, "c")
    assert said(answer, words) is not None
    counts_types_only = service.rounds.policy.name == "backfill"
    assert (said(answer, "free in one rack") is not None) == counts_types_only
    service.admission.release("elsewhere")
    service.admission.cancel("c")
    step(service, 100.0)
    step(service, 100.0)
    assert nodes(service, "elsewhere") == [2, 5]
    service.backend.end("a.1")
    look(service)
    submit(service, "d", 4)
    step(service, 100.0)
    assert nodes(service, "d") == [0, 1]
    service.close()
    service.close = lambda: None  # the fixture closes it too
    assert play_again(service.folder)[1] == []


def test_a_job_that_no_rack_can_hold_is_refused_with_the_limit(tmp_path):
    service = make_service(tmp_path, cluster=ClusterFile(gpus=(T4, A100)), policy="queue")
    submit(service, "most", 8)
    with pytest.raises(
        RefusedError, match="one_rack: the job needs at least 9 GPUs.*racks have 6 t4, 8 a100"
    ):
        submit(service, "more", 9)
    with pytest.raises(RefusedError, match="one_rack: .* 7 GPUs.*racks have 6 t4$"):
        submit(service, "seven", 7, types=["t4"])
    submit(service, "anywhere", 9, one_rack=False)
    step(service)
    assert service.record.state.jobs["most"].target == ("a100", ((1, 4), (2, 4)))
    service.close()


def test_an_elastic_job_grows_to_a_rack_at_most(tmp_path):
    service = make_service(tmp_path, cluster=ClusterFile(gpus=(T4,)), policy="sia")
    service.admission.submit(named(ELASTIC, "one", one_rack=True))
    service.admission.submit(named(ELASTIC, "other", min_gpus=1))
    for name, most in (("one", 6), ("other", 12)):
        columns, _ = service.record.state.jobs[name].row(service.record.state.cluster.configurations)
        assert max(service.record.state.cluster.configurations[k].gpus for k in columns) == most
    with pytest.raises(RefusedError, match="one_rack.* 8 GPUs"):
        service.admission.submit(named(ELASTIC, "more", one_rack=True, min_gpus=8))
    service.close()


def test_other_racks_after_a_reload_move_a_job(tmp_path):
    path = write_cluster(tmp_path / "cluster.toml", T4 | {"nodes": 4, "nodes_per_rack": 4})
    file = read_toml(path, ClusterFile)
    service = make_service(tmp_path / "live", cluster=file, source=path, policy="queue")
    for name, gpus in (("a", 2), ("b", 4)):
        submit(service, name, gpus)
        step(service)
    assert nodes(service, "b") == [1, 2]
    write_cluster(path, T4 | {"nodes": 4, "nodes_per_rack": [2, 2]})
    assert service.reload() == ["type 't4': nodes_per_rack has changed"]
    step(service)
    assert nodes(service, "b") == [2, 3]
    with pytest.raises(RefusedError, match="racks have 4 t4"):
        submit(service, "c", 6)
    service.close()
    assert play_again(tmp_path / "live")[1] == []


@pytest.mark.parametrize("racks", [0, [], [2, 2], [3, 4], [6, 0], 1.5, "3"])
def test_racks_that_are_refused(racks):
    with pytest.raises(JobFileError, match=r"file: gpus\.0.*nodes_per_rack"):
        checked({"gpus": [T4 | {"nodes_per_rack": racks}]}, ClusterFile, "file")


def test_jobs_of_a_simulation_are_in_one_rack():
    cluster = Cluster([GpuType("t4", 2, 5, (3, 2))])
    profile = CountProfile("x", 1.0, 500.0, [2, 4, 6], {"t4": [1.0] * 3})
    jobs = [
        JobSubmission(f"job{k}", 100.0 * k, "", "x", "rigid", gpus, one_rack=rack)
        for k, (gpus, rack) in enumerate(
            [(2, False), (4, True), (6, False), (4, True), (6, True), (2, True)] * 3
        )
    ]
    policy = make_policy("queue")
    simulator = Simulator(Scenario(cluster, jobs, {"x": profile}), policy, placer=placer_for(policy)).play()
    one_rack, across = {job.name for job in jobs if job.one_rack}, 0
    for segment in simulator.segments:
        racks = {node >= 3 for node, _ in segment.place}
        assert len(racks) == 1 or segment.job not in one_rack
        across += len(racks) > 1
    assert across and len(simulator.job_results()) == len(jobs) and not simulator.rejected
