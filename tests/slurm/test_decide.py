"""What a scheduler does with the jobs that it sees: a Slurm in memory follows its commands."""

import asyncio
import random
import threading
from functools import partial

import pytest

from copter.errors import CopterError, FileError
from copter.live.files import JobFileError
from copter.slurm import act, schedule
from copter.slurm.commands import SlurmError
from copter.slurm.decide import Decider, Standing, standing
from copter.slurm.declared import declared
from copter.slurm.read import SlurmNode, Snapshot, jobs_in
from copter.slurm.schedule import Scheduler
from copter.slurm.why import why
from support.slurm_answers import job_fields
from support.slurm_model import ModelOfSlurm

FLEXIBLE = "copter: gpus=1..4 kind=adaptive restart_seconds=1"


def job(**fields):
    (made,) = jobs_in({"jobs": [job_fields(**{"tres_per_node": "gres:gpu:1"} | fields)]})
    return made


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({}, Standing.QUEUED),
        ({"admin_comment": "[copter: placed]"}, Standing.QUEUED),
        ({"admin_comment": "[copter: started]"}, Standing.HELD),
        ({"state_reason": "JobHeldAdmin"}, Standing.HELD),
        ({"dependency": "afterok:3(unfulfilled)"}, Standing.WAITING),
        ({"eligible_time": 2000}, Standing.WAITING),
        ({"eligible_time": 2000, "restart_cnt": 1}, Standing.QUEUED),
        ({"eligible_time": 900}, Standing.QUEUED),
        ({"priority": 7}, Standing.STARTING),
        ({"job_state": "RUNNING", "priority": 7, "nodes": "n1"}, Standing.RUNNING),
        ({"job_state": "RUNNING", "nodes": "n1"}, Standing.RUNNING),
        ({"job_state": "COMPLETING", "priority": 7, "nodes": "n1"}, Standing.LEAVING),
        ({"job_state": "COMPLETING", "admin_comment": "[copter: placed]"}, Standing.MOVING),
        ({"job_state": "COMPLETING", "admin_comment": "[copter: started]"}, Standing.LEAVING),
    ],
)
def test_what_a_job_is_to_copter(fields, expected):
    assert standing(job(**fields), 1000.0) is expected


def test_what_a_job_declares():
    rigid = declared(job(tres_per_node="gres:gpu:a100:2", time_limit=5, account="vision", nice=7), ("a100",))
    assert (rigid.kind, rigid.gpus, rigid.seconds, rigid.priority) == ("rigid", 2, 300.0, -7)
    assert rigid.submission("1", 0.0).tenant == "vision" and not rigid.submission("1", 0.0).preemptible
    comment = "copter: gpus=2..8 kind=adaptive work=5e3 batch_size=64 max_batch_size=512 priority=3"
    flexible = declared(job(comment=comment))
    assert (flexible.min_gpus, flexible.max_gpus, flexible.work) == (2, 8, 5000.0)
    assert (flexible.batch_size, flexible.max_batch_size, flexible.priority) == (64, 512, 3)
    assert flexible.submission("1", 0.0).tenant == "ann" and flexible.submission("1", 0.0).preemptible
    assert declared(job(comment="copter:")).kind == "strong-scaling"
    assert not declared(job(comment="copter:", requeue=False)).submission("1", 0.0).preemptible


@pytest.mark.parametrize(
    ("comment", "says"),
    [
        ("copter: gpus=many", "gpus = 'many': must be a number or a range"),
        ("copter: gpus=8..2", "min_gpus = 8: must be at most max_gpus"),
        ("copter: gpus=0", "min_gpus"),
        ("copter: speed=3", "'speed=3': must be FIELD=VALUE"),
        ("copter: adaptive", "'adaptive': must be FIELD=VALUE"),
        ("copter: work=soon", "work = 'soon': must be a number"),
        ("copter: batch_size=1.5", "batch_size = '1.5': must be a number"),
        ("copter: work=nan", "work"),
        ("copter: kind=rigid", "kind: must be adaptive or strong-scaling"),
        ("copter: kind=odd", "kind"),
    ],
)
def test_comments_that_are_refused(comment, says):
    with pytest.raises(JobFileError, match="job 1: comment") as raised:
        declared(job(comment=comment))
    assert says in str(raised.value)


@pytest.fixture
def slurm(monkeypatch):
    """Return a Slurm in memory with two nodes of four GPUs, of two types."""
    model = ModelOfSlurm({"a1": ("a100", 4), "t1": ("t4", 4)})
    monkeypatch.setattr(act, "call", model.call)
    monkeypatch.setattr(schedule, "read", lambda partition: model.seen())
    return model


@pytest.fixture
def scheduler(slurm):
    """Return a function that makes a scheduler, whose clock is that of the Slurm."""

    def make(policy="fcfs", said=None, **settings):
        say = (said if said is not None else []).append
        decider = Decider(policy, settings, None)
        return Scheduler("gpu", decider, every=1.0, soon=0.5, say=say, clock=lambda: slurm.time)

    return make


def steps(slurm, one, count=1):
    """Let a scheduler make some passes, with a second of Slurm's time between them."""

    async def go():
        for _ in range(count):
            await one.step()
            slurm.pass_time(1.0)

    asyncio.run(go())


def test_jobs_are_started_where_the_policy_says_and_others_wait(slurm, scheduler):
    first, second = slurm.submit("gres:gpu:4"), slurm.submit("gres:gpu:t4:3")
    third = slurm.submit("gres:gpu:2")
    steps(slurm, scheduler(), 3)
    assert slurm.running() == {first: {"a1": 4}, second: {"t1": 3}}
    slurm.end(first)
    steps(slurm, scheduler(), 3)  # another one, that remembers nothing
    assert slurm.running()[third] == {"a1": 2}
    assert slurm.marks()[third] == "[copter: started]"


def test_a_flexible_job_is_resized_at_its_checkpoint(slurm, scheduler):
    grows = slurm.submit("gres:gpu:1", comment=FLEXIBLE)
    one = scheduler("sia", round_seconds=1.0)
    steps(slurm, one, 20)
    assert slurm.running()[grows] == {"a1": 4} and slurm.jobs[grows]["restart_cnt"] >= 1
    assert (slurm.jobs[grows]["tasks"], slurm.jobs[grows]["tres_per_node"]) == (4, "gres:gpu:4")


def test_a_job_that_slurm_does_not_start_waits_again(slurm, monkeypatch, scheduler):
    said = []
    one = scheduler(said=said)
    stuck = slurm.submit("gres:gpu:2")
    slurm.stuck.add(stuck)
    steps(slurm, one, 2)
    assert not slurm.jobs[stuck]["held"] and slurm.running() == {}
    monkeypatch.setattr(act, "LATE_SECONDS", -1.0)
    slurm.stuck.clear()
    slurm.full = True
    steps(slurm, one)
    assert slurm.jobs[stuck]["held"] and any("waits again" in line for line in said)
    slurm.full = False
    steps(slurm, one, 3)
    assert slurm.running() == {stuck: {"a1": 2}}


def test_other_jobs_of_a_node_and_nodes_that_are_down_are_not_given(slurm, scheduler):
    slurm.others = {"a1": 3}
    slurm.down = {"t1"}
    two, one = slurm.submit("gres:gpu:2"), slurm.submit("gres:gpu:1")
    steps(slurm, scheduler("backfill"), 3)
    assert slurm.running() == {one: {"a1": 1}}
    slurm.others, slurm.down = {}, set()
    steps(slurm, scheduler("backfill"), 3)
    assert set(slurm.running()) == {one, two}


def test_gpus_of_a_running_job_that_the_policy_cannot_see_are_not_given(slurm, scheduler):
    odd = slurm.submit("gres:gpu:3", comment="copter: gpus=many")
    slurm.call("scontrol", "release", odd)
    slurm.pass_time(1.0)
    assert slurm.running() == {odd: {"a1": 3}}
    jobs = [slurm.submit("gres:gpu:2"), slurm.submit("gres:gpu:1")]
    steps(slurm, scheduler(), 3)
    assert slurm.running() == {odd: {"a1": 3}, jobs[0]: {"t1": 2}, jobs[1]: {"a1": 1}}


def test_a_rigid_job_stays_on_a_drained_node_and_a_flexible_one_may_leave(slurm, scheduler):
    rigid = slurm.submit("gres:gpu:t4:2")
    steps(slurm, scheduler("sia", round_seconds=1.0), 3)
    slurm.down = {"t1"}
    steps(slurm, scheduler("sia", round_seconds=1.0), 5)
    assert slurm.running() == {rigid: {"t1": 2}}


def test_a_mark_is_not_changed_while_another_scheduler_moves_the_job(slurm, scheduler):
    """The first one is killed, or waits, between its mark and its requeue."""
    grows = slurm.submit("gres:gpu:1", comment=FLEXIBLE, work=20.0)
    first, second = (scheduler("sia", round_seconds=1.0) for _ in range(2))
    steps(slurm, first)
    slurm.call("scontrol", "update", f"JobId={grows}", "AdminComment=[copter: placed]")
    steps(slurm, second)
    assert slurm.marks()[grows] == "[copter: placed]"
    slurm.call("scontrol", "requeuehold", grows)
    steps(slurm, second, 40)
    assert not slurm.open()


def test_a_hold_by_hand_is_left_alone(slurm, scheduler):
    job = slurm.submit("gres:gpu:1", comment=FLEXIBLE)
    one = scheduler("sia", round_seconds=1.0)
    steps(slurm, one, 3)
    slurm.call("scontrol", "requeuehold", job)
    steps(slurm, one, 6)
    assert slurm.running() == {} and slurm.jobs[job]["held"]
    slurm.call("scontrol", "release", job)
    steps(slurm, one, 3)
    assert job in slurm.running()


def test_a_policy_that_fails_changes_nothing_and_is_replaced(slurm, scheduler):
    one = scheduler()
    steps(slurm, one)
    job = slurm.submit("gres:gpu:1")

    def broken(now):
        raise ZeroDivisionError("no")

    one._decider.policy.schedule = broken
    with pytest.raises(CopterError, match="ZeroDivisionError: no"):
        steps(slurm, one)
    assert slurm.running() == {}
    steps(slurm, one, 3)
    assert set(slurm.running()) == {job}


@pytest.mark.parametrize("seed", range(6))
def test_kills_between_any_two_commands(slurm, seed, scheduler):
    """Schedulers are killed before a random command, and two of them act in turn: jobs end all the same."""
    draw = random.Random(seed)
    for number in range(12):
        if number % 3:
            slurm.submit(f"gres:gpu:{draw.choice([1, 2, 4])}", work=draw.uniform(2.0, 6.0))
        else:
            slurm.submit("gres:gpu:1", comment=FLEXIBLE, work=draw.uniform(5.0, 20.0))
    made = [scheduler("sia", round_seconds=1.0), scheduler("sia", round_seconds=1.0)]
    killed = 0
    for number in range(300):
        if not slurm.open():
            break
        which = draw.randrange(2)
        slurm.kill_after = draw.randrange(4) if draw.random() < 0.6 else None
        try:
            steps(slurm, made[which])
        except KeyboardInterrupt:
            killed += 1
            made[which] = scheduler("sia", round_seconds=1.0)
            slurm.pass_time(1.0)
        if number == 20:
            slurm.down = {"t1"}
        elif number == 40:
            slurm.down = set()
    assert not slurm.open(), slurm.jobs
    assert killed > 1 and slurm.most_used == {"a1": 4, "t1": 4}
    rigid = [one for one in slurm.jobs.values() if not one["comment"]]
    assert all(one["starts"] == 1 for one in rigid), "a rigid job is started once"


@pytest.mark.parametrize("seed", range(6))
def test_two_schedulers_whose_commands_are_mixed(slurm, scheduler, seed):
    """While one acts, the other one makes whole passes between any two commands; no job is left held."""
    draw = random.Random(seed)
    for number in range(10):
        flexible = {"comment": FLEXIBLE, "work": draw.uniform(10.0, 40.0)}
        slurm.submit("gres:gpu:1", **(flexible if number % 2 else {"work": draw.uniform(2.0, 9.0)}))
    made = [scheduler("sia", round_seconds=1.0), scheduler("sia", round_seconds=1.0)]
    mixed = 0

    def other(one):
        nonlocal mixed
        if draw.random() < 0.3:
            mixed += 1
            thread = threading.Thread(target=lambda: asyncio.run(one.step()))
            thread.start()
            thread.join()

    for number in range(300):
        if not slurm.open():
            break
        slurm.before = partial(other, made[1 - number % 2])
        steps(slurm, made[number % 2])
    assert not slurm.open() and mixed > 5, slurm.jobs
    assert sum(one["restart_cnt"] for one in slurm.jobs.values()) > 0


def test_without_a_scheduler_released_jobs_are_started(slurm, scheduler):
    grows = slurm.submit("gres:gpu:1", comment=FLEXIBLE, work=30.0)
    steps(slurm, scheduler("sia", round_seconds=1.0), 8)
    other = slurm.submit("gres:gpu:2", work=2.0)
    for key in (grows, other):
        if slurm.jobs[key]["held"]:
            slurm.call("scontrol", "release", key)
    for _ in range(60):
        slurm.pass_time(1.0)
    assert not slurm.open()


def test_why_names_slurms_reason_first(slurm):
    job, nothing = slurm.submit("gres:gpu:t4:2"), slurm.submit("")
    slurm.down = {"a1"}
    answer = why(slurm.seen(), job, Decider("fcfs", {}, None))
    assert answer[0] == "Slurm's state is PENDING, with the reason JobHeldUser."
    assert "A policy that begins now would give it 2 of t1." in answer
    assert "Nodes that get no jobs: a1 (down)." in answer
    assert "It requests no GPUs" in " ".join(why(slurm.seen(), nothing, Decider("fcfs", {}, None)))
    unknown = slurm.submit("gres:gpu:h100:1")
    assert "no node of the partition can run it" in " ".join(
        why(slurm.seen(), unknown, Decider("fcfs", {}, None))
    )
    with pytest.raises(CopterError, match="no such job"):
        why(slurm.seen(), "99", Decider("fcfs", {}, None))


def test_a_command_that_slurm_refuses_does_not_stop_the_others(slurm, scheduler, monkeypatch):
    said = []
    first, second = slurm.submit("gres:gpu:1"), slurm.submit("gres:gpu:1")
    usual = slurm.call

    def call(*command):
        if f"JobId={first}" in command:
            raise SlurmError("scontrol: try again")
        return usual(*command)

    monkeypatch.setattr(act, "call", call)
    steps(slurm, scheduler(said=said), 2)
    assert set(slurm.running()) == {second} and any("try again" in line for line in said)


def test_a_slurm_that_cannot_be_read_at_the_start_is_an_error_and_later_it_is_a_trouble(monkeypatch):
    answers, said = [SlurmError("no such partition")], []

    async def step(self):
        if answers:
            raise answers.pop()

    monkeypatch.setattr(Scheduler, "step", step)
    scheduler = Scheduler("gpu", Decider("fcfs", {}, None), every=0.001, soon=1.0, say=said.append)
    with pytest.raises(SlurmError, match="no such partition"):
        asyncio.run(scheduler.run())

    async def later():
        running = asyncio.create_task(scheduler.run())
        await asyncio.sleep(0.01)
        answers.append(SlurmError("not now"))
        while len(said) < 2:
            await asyncio.sleep(0.001)
        running.cancel()

    asyncio.run(later())
    assert said == ["not now", "the trouble is over"]


def test_nodes_of_a_type_with_other_numbers_of_gpus_are_types_of_their_own():
    nodes = (SlurmNode("b", "a100", 8, ""), SlurmNode("a", "a100", 4, ""), SlurmNode("c", "", 2, ""))
    (wide,) = jobs_in({"jobs": [job_fields(tres_per_node="gres:gpu:a100:6")]})
    decider = Decider("fcfs", {}, None)
    decider.use(decider.look(Snapshot(200.0, (wide,), nodes, {}))())
    assert list(decider.world.hosts) == [("a100:4", 4), ("a100:8", 8), ("gpu", 2)]
    assert decider.world.target("1") == (("b", 6),)


def test_a_lock_that_cannot_be_had_is_named(tmp_path):
    (tmp_path / "lock").symlink_to("/etc/passwd")
    with pytest.raises(FileError, match="cannot be locked: .*; choose another file with --lock"):
        asyncio.run(schedule.locked(tmp_path / "lock", lambda said: None))
