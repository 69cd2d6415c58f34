"""Reservations: nodes that for some time run only the jobs that ask for them."""

import asyncio
import datetime
import json
import random
from collections import Counter
from functools import partial

import pytest
from test_recovery import again, check

from copter.live.admission import RefusedError
from copter.live.ahead import Answer
from copter.live.events import Closed, Opened, ReservationBegan, ReservationEnded
from copter.live.files import ClusterFile, JobFileError, checked, read_toml
from copter.live.forecast import question_of
from copter.live.replay import play_again, simulate
from copter.live.tokens import Author
from copter.live.views import cluster_view, job_view, jobs_view, reservations_view
from copter.live.why import would_run
from support.live_cases import (
    CLUSTER,
    ELASTIC,
    RIGID,
    Turned,
    act_while_deciding,
    asked,
    events,
    make_service,
    named,
    report,
    restarted,
    step,
    write_cluster,
)
from support.live_cases import look as look_at_runs
from support.memory_backend import MemoryBackend

WHOLE = named(RIGID, "whole", gpus=4)
T4 = {"type": "t4", "gpus_per_node": 4, "nodes": 2}


@pytest.fixture(params=["sia", "queue", "srtf", "pollux", "shockwave"])
def service(tmp_path, request):
    return make_service(tmp_path, policy=request.param)


@pytest.fixture
def queue(tmp_path):
    return make_service(tmp_path, policy="queue")


def look(service, seconds=0.0):
    """Let time pass, let reservations begin and end, and look at the backend."""
    service.record.clock.time += seconds
    service.begin_and_end_reservations()
    look_at_runs(service)


def pass_on(service, seconds=0.0):
    """Let time pass as `look` does, and ask the policy."""
    look(service, seconds)
    step(service)


def submit(service, *names, file=WHOLE, **fields):
    for name in names:
        service.admission.submit(named(file, name, **fields))


def reserve(service, name="team", nodes=("t4-1",), begin=None, seconds=1000.0, tenants=None):
    now = service.record.now()
    begin = now if begin is None else now + begin
    service.admission.reserve(name, nodes, begin, begin + seconds, tenants)


def places(service):
    return {name: job.target for name, job in service.record.state.jobs.items()}


def test_nodes_that_will_be_reserved_are_given_last(service):
    if service.rounds.policy_name == "pollux":
        pytest.skip("Pollux chooses nodes itself")
    reserve(service, nodes=["t4-0", "a100-0"], begin=500.0)
    assert service.record.state.soon_reserved() == {"t4": frozenset((0,)), "a100": frozenset((0,))}
    submit(service, "a", types=["t4"])
    step(service)
    assert places(service) == {"a": ("t4", ((1, 4),))}
    submit(service, "b", types=["t4"])
    for _ in range(3):
        step(service, 400.0 / 3)
    assert places(service) == {"a": ("t4", ((1, 4),)), "b": ("t4", ((0, 4),))}
    pass_on(service, 200.0)
    assert service.record.state.soon_reserved() == {}
    assert places(service) == {"a": ("t4", ((1, 4),)), "b": None}
    again(service)


def test_runs_on_the_nodes_are_stopped_when_the_reservation_begins(queue):
    submit(queue, "a", types=["a100"], preemptible=False)
    reserve(queue, "later", ["a100-0"], begin=100.0)
    step(queue)
    look(queue, 90.0)
    assert queue.record.state.jobs["a"].status == "running" and not queue.backend.stopped
    look(queue, 10.0)
    assert queue.backend.stopped == ["a.1"] and queue.record.state.jobs["a"].status == "queued"
    step(queue)
    step(queue)
    assert len(queue.backend.started) == 1
    words = "4 a100 belong to the reservation 'later' for another 17 minutes."
    assert words in asked(queue, "a")["sentences"]
    job = named(WHOLE, "dry", types=["a100"])
    dry = asyncio.run(would_run(queue.record, queue.rounds, queue.admission.dry_run(job), queue.forecasts))
    assert words in dry and "only 0 a100 are in use" in dry[1]
    again(queue)


def test_an_elastic_job_learns_in_a_reservation_as_elsewhere(tmp_path):
    service = make_service(tmp_path)
    reserve(service, nodes=["t4-0", "t4-1", "a100-0"])
    submit(service, "one", file=ELASTIC, reservation="team", max_local_batch={"t4": 48, "a100": 96})
    pass_on(service)
    for number in range(4):
        job = service.record.state.jobs["one"]
        service.admission.report("one", job.run.number, report(10.0 * (number + 1)))
        step(service, 60.0)
    job = service.record.state.jobs["one"]
    held, (type, nodes) = job.allocation, job.target
    assert held.type == f"{type}@team" and job.learned.reports[held.type].total > 0
    assert {name: one.max_local_batch for name, one in job.profile.models.items()} == {
        "a100@team": 96,
        "t4@team": 48,
    }
    assert job_view(service.record, "one")["type"] == type
    gpus = sum(count for _, count in nodes)
    assert cluster_view(service)["given"] == {type: gpus}
    assert f'copter_live_gpus{{state="given",type="{type}"}} {gpus}.0' in service.figures()
    assert "@team" not in service.figures()
    service.record.write(Closed(time=service.record.now(), job="one", ending="completed"))
    service.close()
    assert play_again(tmp_path)[1] == []
    assert simulate(tmp_path)["jobs"] == 1


def test_a_job_waits_for_its_reservation_and_says_so(queue):
    reserve(queue, begin=7200.0)
    submit(queue, "x", reservation="team")
    job = named(WHOLE, "dry", reservation="team")
    dry = asyncio.run(would_run(queue.record, queue.rounds, queue.admission.dry_run(job), queue.forecasts))
    words = "It waits for its reservation 'team', which begins in about 2 hours."
    assert dry[-1] == words
    pass_on(queue, 1.0)
    answer = asked(queue, "x")
    assert words in answer["sentences"] and answer["position"] is None and places(queue) == {"x": None}
    assert jobs_view(queue.record, False, 9)[0]["reason"] == "reservation team has not begun"
    submit(queue, "y", reservation="team")
    pass_on(queue, 7200.0)
    assert list(places(queue).values()) == [("t4", ((1, 4),)), None]
    need = "It needs 4 GPUs of one type in its reservation 'team'; not given to any job: 0 t4."
    assert need in asked(queue, "y")["sentences"]
    queue.admission.unreserve("team")
    look(queue)
    assert queue.backend.stopped == ["x.1"]
    over = "Its reservation 'team' is over: it gets no GPUs any more; cancel it."
    assert over in asked(queue, "x")["sentences"] and over in asked(queue, "y")["sentences"]
    assert {one["reason"] for one in jobs_view(queue.record, False, 9)} == {"its reservation team is over"}
    reserve(queue)  # another one of the same name
    pass_on(queue)
    assert not any(places(queue).values())
    assert queue.admission.cancel("*") == ["x", "y"]


@pytest.mark.parametrize(
    ("fields", "status", "words"),
    [
        ({"name": "team"}, 409, "name = 'team': there is a reservation of this name"),
        ({"nodes": ["t4-2"]}, 422, "nodes = 't4-2': must be a node such as a100-0"),
        ({"nodes": ["t4-0", "t4-1"]}, 409, "nodes = 't4-1': is reserved by 'team'"),
        ({"begin": 150.0}, 422, "end: 100 s from now: must be after the begin, 150 s from now"),
        ({"end": -5.0}, 422, "end: -5 s from now: must be after the begin, 0 s from now"),
        ({"author": Author("alice", "user")}, 403, "may not reserve nodes"),
        ({"nodes": ["v100-0"]}, 422, "without max_nodes"),
    ],
)
@pytest.mark.parametrize("deciding", [False, True])
def test_reservations_that_are_refused_change_nothing(tmp_path, fields, status, words, deciding):
    rows = (*CLUSTER.gpus, {"type": "v100", "gpus_per_node": 1, "nodes": 1, "max_nodes": 2})
    service = make_service(tmp_path, policy="queue", cluster=ClusterFile(gpus=rows))
    service.record.deciding = deciding
    reserve(service)
    before = events(service)
    now = service.record.now()
    given = {"name": "other", "nodes": ["t4-0"], "begin": 0.0, "end": 100.0, "author": Author("x", "admin")}
    given |= fields
    times = {key: now + given.pop(key) for key in ("begin", "end")}
    with pytest.raises(RefusedError, match=words) as raised:
        service.admission.reserve(given["name"], given["nodes"], **times, author=given["author"])
    assert raised.value.status == status and events(service) == before
    service.admission.reserve("after", ["t4-1"], now + 1000.0, now + 1100.0)
    service.admission.unreserve("team")
    service.admission.reserve("instead", ["t4-1"], None, now + 50.0)
    for name, author, code in (("team", "admin", 404), ("none", "admin", 404), ("after", "user", 403)):
        with pytest.raises(RefusedError) as raised:
            service.admission.unreserve(name, Author("y", author))
        assert raised.value.status == code


@pytest.mark.parametrize(
    ("fields", "status", "words"),
    [
        ({"reservation": "none"}, 422, "reservation = 'none': there is no reservation of this name"),
        ({"reservation": "gone"}, 422, "reservation = 'gone': this reservation is over"),
        ({"tenant": "bio"}, 403, "takes only jobs of the tenants vision, speech, and the tenant is 'bio'"),
        ({"reservation": "repair"}, 403, "reservation = 'repair': takes no jobs"),
        ({"gpus": 5}, 422, "has 4 GPUs of a type that the job can use, and the job needs 5"),
        ({"types": ["a100"]}, 422, "has 0 GPUs of a type that the job can use"),
        ({"types": ["h100"]}, 422, "types = 'h100': must be one of"),
    ],
)
@pytest.mark.parametrize("deciding", [False, True])
def test_jobs_that_a_reservation_does_not_take_are_refused(queue, fields, status, words, deciding):
    queue.record.deciding = deciding
    reserve(queue, tenants=["vision", "speech"])
    reserve(queue, "repair", ["a100-0"], tenants=[])
    reserve(queue, "gone", ["t4-0"])
    queue.admission.unreserve("gone")
    before = events(queue)
    with pytest.raises(RefusedError, match=words) as raised:
        submit(queue, "x", **{"reservation": "team", "tenant": "vision"} | fields)
    assert raised.value.status == status and events(queue) == before
    submit(queue, "x", reservation="team", tenant="vision")
    if deciding:
        assert jobs_view(queue.record, False, 9)[0]["reason"] == "reservation team has not begun"


def test_a_reserved_job_has_no_reservation():
    with pytest.raises(JobFileError, match="reserved: not for a job with a reservation"):
        checked(RIGID.model_dump() | {"reserved": True, "reservation": "team"}, type(RIGID), "job")


def test_a_reload_keeps_the_nodes_of_reservations(tmp_path):
    path = write_cluster(tmp_path / "cluster.toml", T4)
    file = read_toml(path, ClusterFile)
    service = make_service(tmp_path / "live", cluster=file, source=path, policy="queue")
    reserve(service, begin=100.0)
    for row in (T4 | {"nodes": 1}, T4 | {"max_nodes": 3}):
        write_cluster(path, row)
        with pytest.raises(RefusedError, match="t4-1: must stay, without max_nodes: reserved by 'team'"):
            service.reload()
    write_cluster(path, T4 | {"nodes": 3})
    assert service.reload()
    pass_on(service, 100.0)
    submit(service, "a", "b", "c")
    submit(service, "x", reservation="team")
    step(service)
    there = places(service)
    assert there.pop("x") == ("t4", ((1, 4),))
    assert {place and place[1][0][0] for place in there.values()} == {0, 2, None}
    service.admission.unreserve("team")
    write_cluster(path, T4 | {"nodes": 1})
    assert service.reload()
    service.close()
    # A service that is started with fewer nodes ignores the others of its reservations.
    write_cluster(path, T4)
    service = make_service(tmp_path / "live", cluster=file, source=path, policy="queue")
    check(service)
    reserve(service, "late", ["t4-0", "t4-1"])
    pass_on(service)
    service.close()
    fewer = read_toml(write_cluster(path, T4 | {"nodes": 1}), ClusterFile)
    service = make_service(tmp_path / "live", cluster=fewer, policy="queue")
    check(service)
    submit(service, "y", reservation="late")
    step(service)
    assert places(service)["y"] == ("t4", ((0, 4),))


def test_a_reservation_begins_and_ends_while_no_service_runs(queue):
    reserve(queue, begin=50.0, seconds=10.0)
    reserve(queue, "long", ["a100-0"], begin=50.0)
    submit(queue, "x", reservation="long")
    submit(queue, "y", reservation="team")
    queue.record.clock.time += 100.0
    later = restarted(queue)
    pass_on(later)
    assert places(later) == {"x": ("a100", ((0, 4),)), "y": None}
    kinds = ReservationBegan, ReservationEnded
    changes = events(later, *kinds)
    assert changes == [
        ReservationEnded(time=changes[0].time, name="team"),
        ReservationBegan(time=changes[0].time, name="long"),
    ]
    look(later)
    assert events(later, *kinds) == changes  # not again
    again(later)


def test_a_forecast_keeps_active_reservations_and_leaves_out_planned_ones(queue):
    reserve(queue)
    reserve(queue, "later", ["a100-0"], begin=500.0)
    submit(queue, "x", "y", reservation="team", seconds=300.0)
    submit(queue, "z", reservation="later")
    submit(queue, "after-z", reservation="later", after=["x"])
    submit(queue, "a", "b", "c", "d")
    pass_on(queue)
    question = question_of(queue.record, queue.rounds, None)
    assert {job.name for job in question.jobs} == set("xyabcd")
    answer = Answer()
    answer.find(question)
    assert not answer.error and set(answer.starts) == {"y", *(n for n in "abcd" if not places(queue)[n])}
    assert answer.starts["y"] == pytest.approx(queue.record.now() + 300.0, abs=61.0)


def test_a_full_disk_delays_the_begin(queue, disk):
    reserve(queue)
    disk.add("full")
    queue.begin_and_end_reservations()
    assert not queue.record.state.reserved and queue.record.trouble
    disk.clear()
    queue.begin_and_end_reservations()
    assert queue.record.state.reserved == {("t4", 1): "team"}


def test_the_commands(queue, command):
    call = partial(command, queue)

    began = queue.record.began
    moment = datetime.datetime.fromtimestamp(began + 7200.0, datetime.UTC).isoformat()
    nodes = ("--nodes", "t4-0,a100-0")
    assert call("reserve", "team", *nodes, "--from", moment, "--until", "+1d", "--tenants", "a,b") == (0, "")
    assert call("reserve", "repair", "--nodes", "t4-1", "--until", "+90m", "--maintenance") == (0, "")
    code, said = call("reservations", "--json")
    first, second = json.loads(said)
    assert code == 0 and first["name"] == "repair" and first["tenants"] == []
    assert second == {
        "name": "team",
        "nodes": ["t4-0", "a100-0"],
        "begin": pytest.approx(7200.0),
        "end": pytest.approx(86400.0),
        "tenants": ["a", "b"],
        "author": "admin",
        "status": "planned",
    }
    assert first["end"] == pytest.approx(5400.0)
    queue.begin_and_end_reservations()
    code, said = call("reservations")
    assert "active" in said and "none" in said and "t4-0, a100-0" in said
    assert [one["reservation"] for one in cluster_view(queue)["nodes"]] == ["", "", "repair"]
    assert call("unreserve", "repair") == (0, "")
    assert [one["name"] for one in reservations_view(queue.record)] == ["team"]
    for words, problem in (
        (("reserve", "x", *nodes, "--until", "tomorrow"), "must be a time such as"),
        (("reserve", "x", *nodes, "--until", "+soon"), "must be a time with units"),
        (("reserve", "x", *nodes, "--until", "+36526d"), "must be at most 100 years"),
        (("unreserve", ""), "name = ''"),
        (("unreserve", "a/b"), "name = 'a/b'"),
        (("reserve", "x", *nodes, "--until", "0001-01-01T00:00+14:00"), "must be a time such as"),
        (("reserve", "x", *nodes, "--until", "1969-01-01"), "must be after the begin"),
        (("reserve", "x", *nodes, "--until", "+1h", "--tenants", "a", "--maintenance"), "without --tenants"),
        (("reserve", "x", "--nodes", "t4-9", "--until", "+1h"), "nodes = 't4-9'"),
        (("reserve", "x@y", *nodes, "--until", "+1h"), "name"),
    ):
        code, said = call(*words)
        assert code != 0 and problem in said, said
    assert [one["name"] for one in reservations_view(queue.record)] == ["team"]


NODES = [f"{one.type}-{node}" for one in CLUSTER.gpus for node in range(one.nodes)]


def present(service):
    return [one["name"] for one in reservations_view(service.record)]


def change_reservations(service, rng, counts):
    """Make a reservation, or end one."""
    now, there = service.record.now(), present(service)
    try:
        if rng.random() < 0.5 or not there:
            begin, chosen = now + rng.uniform(0.0, 200.0), rng.sample(NODES, rng.randint(1, 2))
            service.admission.reserve(rng.choice("uvw"), chosen, begin, begin + rng.uniform(10.0, 400.0))
            counts["reserved"] += 1
        else:
            service.admission.unreserve(rng.choice(there))
            counts["unreserved"] += 1
    except RefusedError as error:
        counts[f"refused {error.status}"] += 1


def submit_some(service, rng, number, counts):
    for name in (f"first-{number}", f"second-{number}"):
        there = present(service)
        fields = {"reservation": rng.choice(there)} if there and rng.random() < 0.6 else {}
        try:
            submit(service, name, file=rng.choice([RIGID, WHOLE, ELASTIC]), **fields)
            counts["submitted"] += bool(fields)
        except RefusedError:
            counts["refused jobs"] += 1


def let_runs_end_or_report(service, rng):
    jobs = service.record.state.jobs
    for job in service.record.state.running():
        if rng.random() < 0.4:
            service.backend.end(f"{job.name}.{job.run.number}")
        elif job.file.elastic and job.name in jobs:
            service.admission.report(job.name, job.run.number, report(min(job.progress + 10.0, 900.0)))
    if len(jobs) > 12:
        service.admission.cancel(*[name for name, job in jobs.items() if job.run is None][:6])


def judge_places(service, counts):
    """Jobs of active reservations are on their nodes, and other jobs are not."""
    state = service.record.state
    for job in state.jobs.values():
        if job.target is not None:
            gpu_type, nodes = job.target
            owners = {state.reserved.get((gpu_type, node)) for node, _ in nodes}
            assert owners == {job.file.reservation} and job.has_nodes
            counts["placed inside" if job.reservation else "placed outside"] += 1
            counts["placed outside meanwhile"] += job.reservation is None and bool(state.reserved)


@pytest.mark.parametrize("policy", ["sia", "queue", "srtf", "pollux", "shockwave"])
@pytest.mark.parametrize("seed", [0, *(pytest.param(k, marks=pytest.mark.long) for k in range(1, 5))])
def test_random_reservations(tmp_path, policy, seed):
    rng, clock, backend, counts = random.Random(f"{policy} {seed}"), Turned(), MemoryBackend(), Counter()
    service = make_service(tmp_path, backend, clock, policy=policy)
    for number in range(120 if seed else 60):
        submit_some(service, rng, number, counts)
        if rng.random() < 0.3:
            change_reservations(service, rng, counts)
        if rng.random() < 0.1:
            *node, _ = rng.choice(service.record.state.nodes())
            service.admission.drain(*node, back=rng.random() < 0.7)
        let_runs_end_or_report(service, rng)
        if rng.random() < 0.2:
            act_while_deciding(service, partial(change_reservations, service, rng, counts))
            counts["meanwhile"] += 1
        pass_on(service, rng.uniform(1.0, 60.0))
        judge_places(service, counts)
        if rng.random() < (0.4 if service.record.state.reserved else 0.1):
            service.close()
            service = make_service(tmp_path, backend, clock, policy=policy)
            check(service)
            counts["restarts"] += 1
            counts["restarts in a reservation"] += bool(service.record.state.reserved)
    counts += Counter(type(event).__name__ for event in events(service))
    service.close()
    wanted = (
        "reserved", "unreserved", "refused 409", "submitted", "meanwhile", "placed inside", "placed outside",
        "placed outside meanwhile", "restarts", "restarts in a reservation",
        *(kind.__name__ for kind in (Opened, ReservationBegan, ReservationEnded)),
    )  # fmt: skip
    assert not [what for what in wanted if not counts[what]], counts
    assert play_again(tmp_path)[1] == []
