"""What `squeue` and `scontrol` print becomes jobs and nodes, in the forms of Slurm's versions."""

import pytest

from copter.slurm import read
from copter.slurm.commands import SlurmError
from copter.slurm.read import Mark, SlurmNode, expanded, jobs_in, nodes_in
from support.slurm_answers import job_fields


@pytest.mark.parametrize(
    ("hosts", "names"),
    [
        ("", []),
        ("n1", ["n1"]),
        ("n[1-3]", ["n1", "n2", "n3"]),
        ("n[08-10,12],m2", ["n08", "n09", "n10", "n12", "m2"]),
        ("r[1-2]n[1-2]-ib", ["r1n1-ib", "r1n2-ib", "r2n1-ib", "r2n2-ib"]),
    ],
)
def test_lists_of_hosts(hosts, names):
    assert list(expanded(hosts)) == names


@pytest.mark.parametrize(
    ("fields", "gpus", "type"),
    [
        ({"tres_per_node": "gres:gpu:2"}, 2, ""),
        ({"tres_per_node": "gres:gpu"}, 1, ""),
        ({"tres_per_node": "gres:gpu:a100:2", "node_count": 3}, 6, "a100"),
        ({"tres_per_node": "gres/gpu:a100:2"}, 2, "a100"),
        ({"tres_per_node": "gres/gpu=4"}, 4, ""),
        ({"tres_per_node": "gres:shard:3,gres:gpu:1g.5gb:2"}, 2, "1g.5gb"),
        ({"tres_per_job": "gres:gpu:6", "node_count": 2}, 6, ""),
        ({"tres_per_task": "gres:gpu:2", "tasks": 3}, 6, ""),
        ({"tres_per_node": "gres:fpga:2"}, 0, ""),
        ({}, 0, ""),
    ],
)
def test_requests_for_gpus(fields, gpus, type):
    (job,) = jobs_in({"jobs": [job_fields(**fields)]})
    assert (job.gpus, job.gpu_type) == (gpus, type)


def test_a_running_job_has_its_nodes_with_the_gpus_on_each():
    fields = {"job_state": "RUNNING", "nodes": "t4-[1-2]", "tres_per_node": "gres:gpu:2", "priority": 9}
    details = ["gpu:t4:2(IDX:0-1)", "gpu:t4:2(IDX:2-3)"]
    (job,) = jobs_in({"jobs": [job_fields(gres_detail=details, node_count=2, **fields)]})
    assert job.hosts == (("t4-1", 2), ("t4-2", 2)) and not job.held
    (job,) = jobs_in({"jobs": [job_fields(node_count=2, **fields)]})  # a node was started again
    assert job.hosts == (("t4-1", 2), ("t4-2", 2))


def test_later_versions_have_objects_and_lists():
    def number(value):
        return {"set": value is not None, "infinite": False, "number": value or 0}

    old = job_fields(tres_per_node="gres:gpu:2", time_limit=5, priority=0, tasks=2, submit_time=7)
    new = old | {name: number(old[name]) for name in ("time_limit", "priority", "tasks", "submit_time")}
    new |= {"job_state": ["PENDING"], "array_job_id": number(0), "array_task_id": number(None)}
    assert list(jobs_in({"jobs": [old]})) == list(jobs_in({"jobs": [new]}))
    endless = new | {"time_limit": {"set": True, "infinite": True, "number": 0}}
    assert next(jobs_in({"jobs": [endless]})).limit is None
    ending = new | {"job_state": ["PENDING", "COMPLETING"]}
    assert next(jobs_in({"jobs": [ending]})).state == "COMPLETING"


@pytest.mark.parametrize(
    ("tasks", "keys"),
    [
        ("0-2", ["7_0", "7_1", "7_2"]),
        ("1,4-5%2", ["7_1", "7_4", "7_5"]),
        ("0-6:3", ["7_0", "7_3", "7_6"]),
        ("0-5000", [f"7_{task}" for task in range(1000)]),
    ],
)
def test_the_pending_tasks_of_an_array_are_jobs(tasks, keys):
    fields = job_fields(job_id=7, array_job_id=7, array_task_string=tasks)
    assert [job.key for job in jobs_in({"jobs": [fields]})] == keys


def test_the_mark_is_a_part_of_the_administrators_comment():
    (job,) = jobs_in({"jobs": [job_fields(admin_comment="seen by ann [copter: placed]")]})
    assert (job.mark, job.admin_comment) == (Mark.PLACED, "seen by ann")
    assert job.marked(Mark.STARTED) == "seen by ann [copter: started]"
    (job,) = jobs_in({"jobs": [job_fields()]})
    assert (job.mark, job.marked(Mark.PLACED)) == (Mark.NONE, "[copter: placed]")


def test_jobs_that_have_ended_are_left_out():
    states = ["COMPLETED", "FAILED", "TIMEOUT", "CANCELLED", "NODE_FAIL", "OUT_OF_MEMORY"]
    assert list(jobs_in({"jobs": [job_fields(job_state=state) for state in states]})) == []


def test_a_partition_without_gpus_is_named(monkeypatch):
    monkeypatch.setattr(read, "call", lambda *command: "NodeName=n1 Gres=(null) State=IDLE Partitions=gpu")
    with pytest.raises(SlurmError, match="partition 'gpu': there is no such partition"):
        read.read("gpu")


@pytest.mark.parametrize(
    ("state", "down"),
    [
        ("IDLE", ""),
        ("MIXED+PLANNED", ""),
        ("ALLOCATED+COMPLETING", ""),
        ("IDLE+CLOUD+POWERED_DOWN", ""),
        ("IDLE~", ""),
        ("MIXED+REBOOT_REQUESTED", ""),
        ("IDLE+REBOOT_ISSUED", "idle+reboot_issued: bad fan"),
        ("IDLE+DRAIN", "idle+drain: bad fan"),
        ("MIXED+DRAIN", "mixed+drain: bad fan"),
        ("DOWN*", "down*: bad fan"),
        ("IDLE*", "idle*: bad fan"),
        ("ALLOCATED*", "allocated*: bad fan"),
        ("IDLE+MAINT+RESERVED", "idle+maint+reserved: bad fan"),
        ("RESERVED", "reserved: bad fan"),
        ("FUTURE", "future: bad fan"),
    ],
)
def test_nodes_that_get_no_jobs(state, down):
    line = (
        f"NodeName=n1 Arch=x86_64 Gres=gpu:a100:4(S:0-1) OS=Linux State={state} Partitions=gpu,all"
        " Reason=bad fan [root@2026-01-01T00:00:00]"
    )
    assert list(nodes_in(line, "gpu")) == [SlurmNode("n1", "a100", 4, down)]
    assert not list(nodes_in(line, "gp"))
    assert not list(nodes_in(line.replace("gpu:a100:4", "(null)"), "gpu"))
