"""`copter schedule` on a real Slurm: jobs end once, whatever happens to the scheduler, nodes and jobs."""

import os
import random
import subprocess
import sys
import time

import pytest

from support.slurm_jobs import SECONDS, run, until

pytestmark = pytest.mark.cluster

SCHEDULE = (sys.executable, "-m", "copter", "schedule", "--slurm", "--partition=gpu")
ADAPTIVE = "copter: gpus=1..4 kind=adaptive work=10000 restart_seconds=2"


def shown(key):
    """Return the fields of a job as `scontrol` shows them."""
    words = run("scontrol", "show", "job", "--oneliner", key).split()
    return dict(word.partition("=")[::2] for word in words)


def ended(jobs, *keys):
    states = jobs.states()
    return all(states.get(key) == "COMPLETED" for key in keys)


def told(jobs, *keys):
    """Return what is known of the jobs that are not completed."""
    states = jobs.states()
    left = [key for key in keys if states.get(key) != "COMPLETED"]
    return [(shown(key), jobs.said(key), jobs.printed(key)) for key in left]


def test_the_first_resized_job(jobs, schedulers):
    scheduler = schedulers.start()
    grows = jobs.submit(60, "--gres=gpu:1", comment=ADAPTIVE)
    until(lambda: "stop" in jobs.words(grows), scheduler.log.read_text)
    until(lambda: jobs.words(grows).count("start") > 1, scheduler.log.read_text)
    first, second = [words for words in jobs.said(grows) if words[2] == "start"][:2]
    assert int(second[4]) > int(first[4]) and second[5] == second[4], "one task for each GPU"
    stop = next(words for words in jobs.said(grows) if words[2] == "stop")
    assert second[6] == stop[3], "it goes on where it was"
    until(lambda: ended(jobs, grows), scheduler.log.read_text)
    assert jobs.words(grows).count("end") == 1


def test_a_rigid_job_is_started_with_what_it_requests_or_waits(jobs, schedulers):
    first = jobs.submit(40, "--gres=gpu:a100:3")
    scheduler = schedulers.start(policy="fcfs")
    until(lambda: jobs.words(first) == ["start"], scheduler.log.read_text)
    one = jobs.submit(2, "--gres=gpu:t4:1")
    apart = jobs.submit(2, "--nodes=2", "--ntasks=2", "--gpus-per-node=2")
    none = jobs.submit(1)
    waits = jobs.submit(2, "--gres=gpu:a100:2")
    until(lambda: ended(jobs, first, one, apart, none, waits), scheduler.log.read_text)
    assert [jobs.words(key) for key in (first, one, none, waits)] == [["start", "end"]] * 4
    assert jobs.said(waits)[0][0] > jobs.said(first)[-1][0], "it waits for GPUs of its type"


def test_a_job_that_excludes_nodes_gets_others(jobs, schedulers):
    one = jobs.submit(2, "--gres=gpu:1", "--exclude=a100-1")
    flexible = jobs.submit(8, "--gres=gpu:1", "--exclude=a100-1,t4-1", comment=ADAPTIVE)
    scheduler = schedulers.start()
    until(lambda: ended(jobs, one, flexible), scheduler.log.read_text)
    assert {words[3] for words in jobs.said(one) if words[2] == "start"} <= {"t4-1", "t4-2"}
    assert {words[3] for words in jobs.said(flexible) if words[2] == "start"} == {"t4-2"}


def test_a_dry_run_says_what_would_be_done_and_does_nothing(jobs):
    job, none = jobs.submit(2, "--gres=gpu:a100:2"), jobs.submit(1)
    said = run(*SCHEDULE, "--policy=fcfs", "--dry-run").splitlines()
    assert sorted(said) == sorted(
        (f"job {job} is released for 2 GPUs of a100-1", f"job {none} needs no GPU and is released")
    )
    assert shown(job)["Priority"] == shown(none)["Priority"] == "0"
    assert not jobs.said(job) and not jobs.said(none)


def test_what_others_decided_is_left_alone(jobs, schedulers):
    """A hold, a dependency, a time, another partition, and a job that was not held are not copter's."""
    admin, later = jobs.submit(1, "--gres=gpu:1"), jobs.submit(1, "--gres=gpu:1", "--begin=now+1hour")
    run("scontrol", "hold", admin)
    elsewhere = jobs.submit(1, "--gres=gpu:1", partition="other")
    after = jobs.submit(1, "--gres=gpu:1", f"--dependency=afterok:{admin}")
    free = jobs.submit(20, "--gres=gpu:a100:4", hold=False, partition="other")
    until(lambda: jobs.words(free) == ["start"])
    scheduler = schedulers.start()
    running = jobs.submit(40, "--gres=gpu:t4:1", comment=ADAPTIVE)
    one = jobs.submit(2, "--gres=gpu:t4:1")
    until(lambda: "start" in jobs.words(running) and ended(jobs, one), scheduler.log.read_text)
    run("scontrol", "requeuehold", running)  # by hand
    time.sleep(3.0)
    starts = jobs.words(running).count("start")
    time.sleep(4.0)
    assert jobs.words(running).count("start") == starts, scheduler.log.read_text()
    assert not any(jobs.said(key) for key in (admin, later, elsewhere, after)), scheduler.log.read_text()
    assert jobs.words(free)[0] == "start"
    run("scontrol", "release", running)  # by hand: Slurm starts it
    run("scontrol", "update", f"JobId={running}", "StartTime=now")
    run("scontrol", "release", admin)
    until(lambda: ended(jobs, running, admin, after, free), scheduler.log.read_text)
    assert not jobs.said(later) and not jobs.said(elsewhere)


def test_a_drained_node_gets_no_job_and_lets_a_rigid_one_end(jobs, schedulers):
    scheduler = schedulers.start(policy="fcfs")
    rigid = jobs.submit(30, "--gres=gpu:t4:3")
    until(lambda: jobs.words(rigid) == ["start"], scheduler.log.read_text)
    node = jobs.said(rigid)[0][3]
    run("scontrol", "update", f"nodename={node}", "state=drain", "reason=test")
    others = [jobs.submit(4, "--gres=gpu:t4:2") for _ in range(3)]
    until(lambda: ended(jobs, *others, rigid), scheduler.log.read_text)
    assert {words[3] for key in others for words in jobs.said(key) if words[2] == "start"} == (
        {"t4-1", "t4-2"} - {node}
    )
    assert jobs.words(rigid) == ["start", "end"]


def test_a_job_of_a_node_that_is_down_is_started_elsewhere(jobs, schedulers):
    scheduler = schedulers.start()
    job = jobs.submit(12, "--gres=gpu:t4:4")
    until(lambda: jobs.words(job) == ["start"], scheduler.log.read_text)
    node = jobs.said(job)[0][3]
    run("scontrol", "update", f"nodename={node}", "state=down", "reason=test")  # Slurm requeues its job
    until(lambda: jobs.words(job).count("start") == 2, scheduler.log.read_text)
    assert [words[3] for words in jobs.said(job) if words[2] == "start"][1] != node
    until(lambda: ended(jobs, job), scheduler.log.read_text)


def test_one_scheduler_acts_at_a_time_and_the_other_takes_over(jobs, schedulers, tmp_path):
    first, second = schedulers.start(lock=tmp_path / "one"), schedulers.start(lock=tmp_path / "one")
    until(lambda: {"decides" in one.log.read_text() for one in (first, second)} == {True, False})
    acts, waits = sorted((first, second), key=lambda one: "decides" not in one.log.read_text())
    until(lambda: "another scheduler has" in waits.log.read_text())
    acts.kill()
    job = jobs.submit(1, "--gres=gpu:1")
    until(lambda: ended(jobs, job), waits.log.read_text)


def test_why(jobs):
    held = jobs.submit(1, "--gres=gpu:a100:2")
    too_many = jobs.submit(1, "--gres=gpu:a100:9", comment="")
    wrong = jobs.submit(1, "--gres=gpu:1", comment="copter: gpus=many")

    def why(key):
        return run(
            sys.executable, "-m", "copter", "why", key, "--partition=gpu", "--policy=fcfs"
        ).splitlines()

    answer = why(held)
    assert answer[0] == "Slurm's state is PENDING, with the reason JobHeldUser."
    assert "It needs 2 GPUs of type a100, and is rigid." in answer
    assert "A policy that begins now would give it 2 of a100-1." in answer
    assert "gpus = 'many': must be a number or a range" in " ".join(why(wrong))
    assert "cannot run it" in " ".join(why(too_many))
    command = [sys.executable, "-m", "copter", "why", "99999", "--partition=gpu"]
    nobody = subprocess.run(command, capture_output=True, text=True)
    assert nobody.returncode == 1 and "no such job" in nobody.stderr


def test_a_day_of_kills(jobs, schedulers):
    """Rigid and adaptive jobs; schedulers are killed at random, two act at once, a node is drained.

    The variable COPTER_SLURM_JOBS is the number of jobs; 200 take a quarter of an hour.
    """
    count = int(os.environ.get("COPTER_SLURM_JOBS", "30"))
    kills, seconds = (50, 900.0) if count > 100 else (14, SECONDS)
    draw = random.Random(count)
    ends, first = [], [schedulers.start(), schedulers.start()]
    for number in range(count):
        if number % 3:
            gpus = draw.choice(["gpu:1", "gpu:2", "gpu:t4:1", "gpu:a100:2", "gpu:4"])
            ends.append(jobs.submit(draw.uniform(1.0, 8.0), f"--gres={gpus}"))
        else:
            ends.append(jobs.submit(draw.uniform(5.0, 25.0), "--gres=gpu:1", comment=ADAPTIVE))
    array = jobs.submit(3, "--gres=gpu:1", "--array=0-2")
    ends += [f"{array}_{task}" for task in range(3)]
    cancelled, limited = jobs.submit(1000, "--gres=gpu:t4:1"), jobs.submit(1000, "--gres=gpu:1", "--time=1")
    held = jobs.submit(1, "--gres=gpu:1")
    run("scontrol", "hold", held)
    foreign = jobs.submit(8, "--gres=gpu:t4:2", partition="other", hold=False)
    there = first
    for number in range(kills):
        time.sleep(draw.uniform(0.3, 3.0))
        there.pop(draw.randrange(len(there))).kill()
        there.append(schedulers.start())
        if number == 3:
            run("scontrol", "update", "nodename=t4-2", "state=drain", "reason=test")
        if number == 6:
            run("scancel", cancelled)
        if number == 9:
            run("scontrol", "update", "nodename=t4-2", "state=resume")
    until(lambda: ended(jobs, *ends, foreign), lambda: told(jobs, *ends, foreign), seconds)
    until(lambda: jobs.states()[limited] == "TIMEOUT", jobs.states)
    schedulers.kill()
    assert not [words for words in jobs.said() if words[2] == "clash"]
    # A flexible job that is requeued in the moment of its end starts and ends once more.
    assert all("end" in jobs.words(key) for key in ends)
    rigid = [key for key in ends if not shown(key).get("Comment", "").startswith("copter:")]
    assert all(jobs.words(key) == ["start", "end"] for key in rigid), "a rigid job starts once"
    assert jobs.states()[cancelled] == "CANCELLED" and not jobs.said(held)
    assert sum(jobs.words(key).count("stop") for key in ends) > 0, "some jobs were resized"


def test_without_copter_the_queue_goes_on(jobs, schedulers):
    scheduler = schedulers.start()
    moves = jobs.submit(40, "--gres=gpu:1", comment=ADAPTIVE)
    until(lambda: "stop" in jobs.words(moves), scheduler.log.read_text)
    scheduler.kill()
    more = [jobs.submit(1, "--gres=gpu:4") for _ in range(4)]
    run("scontrol", "release", *more, moves)
    run("scontrol", "update", f"JobId={moves}", "StartTime=now+3")
    until(lambda: ended(jobs, *more, moves), jobs.states)
    assert jobs.words(moves).count("end") == 1
