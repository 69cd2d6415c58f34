"""Reload of the cluster's file: what is used without a restart, and what is refused and changes nothing."""

import asyncio
import os
import sqlite3

import pytest
from test_recovery import again

from copter.live.admission import RefusedError
from copter.live.ahead import Answer
from copter.live.events import Decided, Opened, Reloaded
from copter.live.files import ClusterFile, JobFileError, checked, read_toml
from copter.live.forecast import question_of
from copter.live.replay import simulate
from copter.live.views import events_view
from support.live_cases import (
    ELASTIC,
    RIGID,
    act_while_deciding,
    events,
    http_of,
    look,
    make_service,
    named,
    report,
    step,
    write_cluster,
)

T4 = {"type": "t4", "gpus_per_node": 4, "nodes": 2}
FOUR = named(RIGID, "four", gpus=4, preemptible=True)


@pytest.fixture
def path(tmp_path):
    return write_cluster(tmp_path / "cluster.toml", T4)


@pytest.fixture(params=["sia", "queue"])
def service(tmp_path, path, request):
    return start(tmp_path, path, policy=request.param)


def start(tmp_path, path, backend=None, clock=None, **more):
    file = read_toml(path, ClusterFile)
    return make_service(tmp_path / "live", backend, clock, cluster=file, source=path, **more)


def places(service):
    return {name: job.place for name, job in service.record.state.jobs.items()}


def submit(service, *names, **fields):
    for name in names:
        service.admission.submit(named(FOUR, name, **fields))


def test_jobs_of_a_node_that_was_removed_are_stopped_and_move(service, path):
    submit(service, "a")
    step(service)
    submit(service, "b")
    step(service)
    (last,) = [name for name, place in places(service).items() if place == ((1, 4),)]
    (first,) = {"a", "b"} - {last}
    service.backend.ignores_stop = True
    write_cluster(path, T4 | {"nodes": 1})
    assert service.reload() == ["type 't4': nodes is 1, and was 2"]
    look(service)
    assert service.backend.stopped == [f"{last}.1"] and service.record.state.jobs[last].place is None
    step(service)
    assert places(service) == {first: ((0, 4),), last: None}
    service.backend.end(f"{last}.1", "stopped")
    service.backend.end(f"{first}.1")
    look(service)
    step(service)
    assert places(service) == {last: ((0, 4),)} and f"{last}.2" in service.backend.runs
    again(service, source=path)


def test_jobs_use_a_type_that_was_added(service, path):
    submit(service, "a", "b", "rigid")
    if service.rounds.policy.name == "sia":
        service.admission.submit(named(ELASTIC, "elastic"))
    step(service)
    write_cluster(path, T4, {"type": "h100", "gpus_per_node": 8, "nodes": 2})
    assert service.reload() == ["type 'h100' is new: nodes = 2, gpus_per_node = 8"]
    submit(service, "only", types=["h100"], gpus=8)
    for _ in range(3):
        step(service, 60.0)
    jobs = service.record.state.jobs
    assert all(job.allocation is not None for job in jobs.values())
    assert jobs["only"].allocation.type == "h100"
    if "elastic" in jobs:
        service.admission.report("elastic", jobs["elastic"].run.number, report())
        step(service)
    write_cluster(path, {"type": "h100", "gpus_per_node": 8, "nodes": 2})
    with pytest.raises(RefusedError, match="must keep the numbers of its GPUs"):
        service.reload()
    for run in list(service.backend.runs):
        service.backend.end(run)
    look(service)
    assert service.reload() == ["type 't4' is gone"]
    submit(service, "last")
    for _ in range(2):
        step(service, 60.0)
    assert jobs["last"].allocation.type == "h100"
    again(service, source=path)


def test_settings_are_used_at_once_and_keep_the_policy(service, path):
    submit(service, "a")
    step(service)
    policy = service.rounds.policy
    service.backend.ignores_stop = True
    write_cluster(path, T4, grace_seconds=5.0, decision_seconds=7.0)
    said = ["grace_seconds is 5.0, and was 60.0", "decision_seconds is 7.0, and was the default"]
    assert service.reload() == said and service.rounds.decision_seconds == 7.0
    step(service)
    assert service.rounds.policy is policy and len(events(service, Opened)) == 1
    service.admission.cancel("a")
    look(service)
    assert not service.backend.killed
    look(service, 6.0)
    assert service.backend.killed == ["a.1"]
    assert service.reload() == [] and len(events(service, Reloaded)) == 1
    again(service, source=path)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("gpus = [", ("TOML",)),
        ("gpus = []", ("gpus",)),
        ('gpus = [{ type = "t4", gpus_per_node = 4, nodes = 0 }]', ("gpus.0.nodes",)),
        ('backend = "slurm"\ngpus = [{ type = "t4", gpus_per_node = 4 }]', ("backend", "no such field")),
        (
            'gpus = [{ type = "t4", gpus_per_node = 4 }]\noptions = { python = "x" }',
            ("options: cannot change", "restart"),
        ),
        ('gpus = [{ type = "t4", gpus_per_node = 4 }]\npace = {}', ("pace: cannot change", "restart")),
        (
            'gpus = [{ type = "t4", gpus_per_node = 4, nodes = 2, hosts = ["n1", "n2"] }]',
            ("node t4-0 must stay host 't4-0'", "'a'", "drain"),
        ),
        (
            'gpus = [{ type = "v100", gpus_per_node = 1 }, { type = "t4", gpus_per_node = 4, nodes = 2 }]',
            ("node t4-0 must keep the numbers of its GPUs", "'a'"),
        ),
        (
            "[[gpus]]\ntype = 't4'\ngpus_per_node = 4\nhosts = ['n1']\n"
            "[[gpus]]\ntype = 'h100'\ngpus_per_node = 4\nhosts = ['n1']\n",
            ("host 'n1': must occur once",),
        ),
        (None, ("No such file",)),
        (os.mkfifo, ("not a regular file",)),
        ("gpus = " + "[" * 3000, ("must be a TOML file",)),
        ("max_jobs = " + "9" * 5000, ("must be a TOML file",)),
        (b"\xff\xfe", ("must be a TOML file",)),
    ],
)
@pytest.mark.parametrize("deciding", [False, True])
def test_what_is_refused_changes_nothing(service, path, text, words, deciding):
    submit(service, "a")
    step(service)
    before, file, policy = events(service, object), service.record.file, service.rounds.policy
    path.unlink()
    if callable(text):
        text(path)
    elif text is not None:
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
    service.record.deciding = deciding
    with pytest.raises(RefusedError) as raised:
        service.reload()
    service.record.deciding = False
    assert all(word in str(raised.value) for word in (*words, str(path)))
    assert events(service, object) == before and service.record.file is file
    step(service)
    assert service.rounds.policy is policy and service.record.state.file is file


def test_devices_that_the_machine_does_not_have_are_refused(service, path, monkeypatch):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "0,1,2,3,4,5,6,7")
    service.backend.name = "local"
    write_cluster(path, T4 | {"nodes": 3})
    with pytest.raises(RefusedError, match="CUDA_VISIBLE_DEVICES"):
        service.reload()
    assert not events(service, Reloaded)


def test_a_host_may_change_when_no_run_is_on_its_node(tmp_path):
    def write(*hosts):
        return write_cluster(tmp_path / "cluster.toml", T4 | {"nodes": len(hosts), "hosts": hosts})

    service = start(tmp_path, write("n1", "n2", "n3"), policy="queue")
    service.backend.picks_devices = True
    submit(service, "a", "b", "c")
    step(service)
    (middle,) = [name for name, place in places(service).items() if place == ((1, 4),)]
    for hosts in (("n1", "n4", "n3"), ("n1", "n3")):
        write(*hosts)
        with pytest.raises(RefusedError, match="node t4-[12] must stay host 'n[23]'"):
            service.reload()
    service.backend.end(f"{middle}.1")
    look(service)
    write("n1", "n3")
    with pytest.raises(RefusedError, match="node t4-2 must stay host 'n3'"):
        service.reload()
    write("n1", "n4", "n3")
    assert service.reload() == ["type 't4': hosts has changed"]
    assert service.backend.known == ["n1", "n4", "n3"]
    submit(service, "d")
    step(service)
    assert service.backend.runs["d.1"].hosts == ("n4",)
    again(service)


def test_a_reload_while_the_policy_decides_waits_for_the_decision(service, path):
    submit(service, "a", "b", "c")
    seen = []

    def reload():
        if not seen:
            write_cluster(path, T4, {"type": "h100", "gpus_per_node": 8, "nodes": 1}, max_jobs=9)
            seen.append(service.reload())
            submit(service, "meanwhile", types=["h100"])
            seen.append(service.reload())
            seen.append((service.record.state.cluster.names, service.record.file.max_jobs))

    act_while_deciding(service, reload)
    step(service)
    assert seen == [
        ["type 'h100' is new: nodes = 1, gpus_per_node = 8", "max_jobs is 9, and was 10000"],
        [],
        (("t4",), 9),
    ]
    assert service.record.state.cluster.names == ("t4", "h100")
    reloaded, decided, *rest = events(service, Reloaded, Decided)
    assert isinstance(reloaded, Reloaded) and isinstance(decided, Decided) and decided.places and not rest
    for _ in range(2):
        step(service, 60.0)
    assert len(events(service, Opened)) == 2
    assert places(service)["meanwhile"] is not None
    again(service, source=path)


def test_a_service_without_a_file_refuses(tmp_path):
    service = make_service(tmp_path)
    with pytest.raises(RefusedError, match="not started with a file"):
        service.reload()


def test_the_command_prints_what_has_changed(service, path, command):
    write_cluster(path, T4 | {"nodes": 1}, keep_jobs=3)
    said = [command(service, "reload")[1] for _ in range(2)]
    assert said == [
        "type 't4': nodes is 1, and was 2\nkeep_jobs is 3, and was 1000\n",
        "nothing has changed\n",
    ]
    path.write_text("x")
    answer = http_of(service).post("/v1/reload")
    assert answer.status_code == 422 and "TOML" in answer.json()["error"]


def test_a_signal_reloads_at_the_next_tick(service, path):
    async def play():
        task = asyncio.create_task(service.run())
        for text in (path.read_text().replace("2", "1"), "x"):
            path.write_text(text)
            service.ask_reload()
            for _ in range(2):
                await service.launcher.whole_tick()
        task.cancel()
        await asyncio.wait([task])

    asyncio.run(play())
    (event,) = events(service, Reloaded)
    assert event.author == "the signal SIGHUP" and service.record.state.cluster.gpus == 4
    service.record.journal.flush()
    last = events_view(service.record, 0, 10)[-1]
    assert last["trouble"] and "nothing has changed" in last["text"] and str(path) in last["text"]


def test_gpus_of_a_run_that_is_ending_are_given_to_no_new_node(service, path):
    """The run continues to use GPUs 4 to 7 of the machine after its node is gone."""
    submit(service, "a", "b")
    step(service)
    service.backend.ignores_stop = True
    write_cluster(path, T4 | {"nodes": 1})
    service.reload()
    look(service)
    (last,) = service.backend.stopped
    write_cluster(path, T4 | {"nodes": 1}, {"type": "h100", "gpus_per_node": 4, "nodes": 1})
    with pytest.raises(RefusedError, match="still ending on a node that is gone"):
        service.reload()
    write_cluster(path, T4 | {"nodes": 1}, max_jobs=7)
    assert service.reload() == ["max_jobs is 7, and was 10000"]
    write_cluster(path, T4 | {"nodes": 1}, {"type": "h100", "gpus_per_node": 4, "nodes": 1})
    service.backend.end(last, "stopped")
    look(service)
    assert "type 'h100' is new: nodes = 1, gpus_per_node = 4" in service.reload()


def test_jobs_on_gpus_that_a_node_has_no_more_lose_them_at_once(service, path):
    write_cluster(path, T4 | {"nodes": 1})
    service.reload()
    submit(service, "a", "b", gpus=2)
    step(service)
    jobs = service.record.state.jobs
    assert {job.run.devices for job in jobs.values()} == {((0, 1),), ((2, 3),)}
    (gone,) = [name for name, job in jobs.items() if job.run.devices == ((2, 3),)]
    service.backend.ignores_stop = True
    write_cluster(path, T4 | {"nodes": 1, "gpus_per_node": 2})
    service.reload()
    assert {name: job.place is None for name, job in jobs.items()} == {name: name == gone for name in jobs}
    assert sum(service.record.state.given().values()) == 2
    look(service)
    assert service.backend.stopped == [f"{gone}.1"]
    answer = Answer()
    answer.find(question_of(service.record, service.rounds, None))
    assert not answer.error
    more = T4 | {"nodes": 1, "gpus_per_node": 2}, {"type": "h100", "gpus_per_node": 4, "nodes": 1}
    write_cluster(path, *more)
    with pytest.raises(RefusedError, match="must keep the numbers of its GPUs"):  # of the run that is ending
        service.reload()
    write_cluster(path, more[0])
    service.backend.end(f"{gone}.1", "stopped")
    look(service)
    step(service)
    again(service, source=path)


def test_a_simulation_leaves_out_jobs_that_the_last_cluster_cannot_run(service, tmp_path, path):
    h100 = {"type": "h100", "gpus_per_node": 4, "nodes": 2}
    write_cluster(path, T4, h100)
    service.reload()
    submit(service, "gone", types=["t4"])
    submit(service, "stays", types=["h100"])
    step(service)
    for name, seconds in (("gone", 500.0), ("stays", 100.0)):
        service.record.clock.time += seconds
        service.backend.end(f"{name}.1")
        look(service)
    write_cluster(path, h100)
    service.reload()
    service.close()
    found = simulate(tmp_path / "live")
    assert found["jobs"] == 1 and found["live_jct"] == pytest.approx(600.0, abs=5.0)
    assert found["ratio"] == pytest.approx(1.0, rel=0.2)


def test_nothing_changes_if_the_journal_cannot_be_written(service, path, disk):
    submit(service, "a")
    step(service)
    write_cluster(path, T4 | {"nodes": 1})
    before = service.record.file
    disk.add("full")
    for _ in range(2):
        with pytest.raises(sqlite3.Error):
            service.reload()
    assert service.record.file is before and service.record.state.cluster.gpus == 8
    assert service.backend.known == [] and not service.rounds._lost
    disk.clear()
    assert service.reload() == ["type 't4': nodes is 1, and was 2"]


def test_a_backend_that_scales_provides_the_nodes_of_the_new_file(service, path):
    look(service)
    assert service.backend.hosts == {}  # it has those of the first file
    h100 = {"type": "h100", "gpus_per_node": 8, "nodes": 2, "hosts": ["n1", "n2"]}
    write_cluster(path, T4 | {"nodes": 3}, h100)
    service.reload()
    look(service)
    assert service.backend.hosts == {"t4": ["t4-0", "t4-1", "t4-2"], "h100": ["n1", "n2"]}
    write_cluster(path, h100 | {"hosts": ["n1", "n3"]})
    service.reload()
    look(service)
    assert service.backend.hosts == {"t4": [], "h100": ["n1", "n3"]}


def test_an_invalid_item_does_not_make_its_list_empty():
    with pytest.raises(JobFileError) as raised:
        checked({"gpus": [{"type": "t4", "gpus_per_node": -1}]}, ClusterFile, "cluster.toml")
    assert str(raised.value) == (
        "cluster.toml: gpus.0.gpus_per_node: Input should be greater than or equal to 1"
    )


def test_the_metrics_of_a_type_end_with_it(service, path):
    def types():
        metrics, state = service.record.metrics, service.record.state
        text = metrics.text(state, {}, silent=False, journal_bytes=0)
        return {line.split('"')[3] for line in text.splitlines() if line.startswith("copter_live_gpus{")}

    write_cluster(path, T4, {"type": "v100", "gpus_per_node": 1})
    service.reload()
    assert types() == {"t4", "v100"}
    write_cluster(path, T4)
    service.reload()
    assert types() == {"t4"}
