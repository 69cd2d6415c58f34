"""Jobs of the comparison with other queues: both sides get the same, and run files say what was asked for."""

import pytest
from live_comparison import CLASSES, TYPES, draw, run_of, seconds_on, write_cluster
from live_runs import read_run

from copter.live.files import ClusterFile, read_toml
from copter.live.training.plan import TrainingPlan


def test_only_what_users_ask_for_differs_between_sizes():
    trace, tuned = (draw(24, 60.0, sizes, 3) for sizes in ("trace", "tuned"))
    assert [job[:5] for job in map(tuple_of, trace)] == [job[:5] for job in map(tuple_of, tuned)]
    assert draw(24, 60.0, "trace", 3) == trace != draw(24, 60.0, "trace", 4)
    assert trace[0].time == 0.0 and all(a.time <= b.time for a, b in zip(trace, trace[1:], strict=False))
    for job in (*trace, *tuned):
        assert 1 <= job.gpus <= 4 and job.batch_size >= job.gpus
        assert seconds_on(job, "t4") > 0 and seconds_on(job, "a100") > 0
        _, _, applications = CLASSES[job.size]
        assert job.application in applications


def tuple_of(job):
    return job.name, job.time, job.size, job.application, job.work


def test_a_run_has_the_size_and_the_batch_of_its_user(tmp_path):
    job = next(job for job in draw(24, 60.0, "tuned", 1) if job.gpus == 4)
    run = run_of(job, tmp_path, "t4", "t4-1")
    run.write()
    read = read_run(run.folder)
    plan = TrainingPlan.from_dict(dict(read.training))
    assert read.gpus == (4,) and plan.work == job.work and not plan.url
    assert 4 * plan.batch.local_batch * (plan.batch.accumulation + 1) == pytest.approx(
        job.batch_size, rel=0.2
    )


def test_the_file_of_the_cluster_is_one(tmp_path):
    hosts = {type: [f"{type}-{n}" for n in range(nodes)] for type, (nodes, _) in TYPES.items()}
    path = tmp_path / "cluster.toml"
    write_cluster(path, hosts, cpus_per_gpu=0.5, address="127.0.0.1:1")
    file = read_toml(path, ClusterFile)
    assert [one.hosts for one in file.gpus] == [tuple(hosts[type]) for type in TYPES]
    assert file.options == {"cpus_per_gpu": 0.5, "address": "127.0.0.1:1"}
