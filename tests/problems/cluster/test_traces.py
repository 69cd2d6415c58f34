"""Generators and readers of traces: their counts and shares, their seeds, and what readers refuse."""

from collections import Counter

import numpy as np
import pytest

from copter.errors import InputError
from copter.problems.cluster.presets import cluster_by_name
from copter.problems.cluster.registry import SettingsError
from copter.problems.cluster.traces import by_name, trace_names
from copter.problems.cluster.traces.families import _PUBLISHED_FOLDER, FAMILIES, _draw
from copter.problems.cluster.traces.helios import _read_helios
from copter.problems.cluster.traces.philly import FILE, TracedJob, _read_philly, _sample
from copter.problems.cluster.traces.pollux import FOLDER
from copter.problems.cluster.traces.tuned import size_of
from copter.problems.cluster.workload import read_workload
from support.real_data import DATA

CLUSTER = cluster_by_name("heterogeneous-64")
PHILLY = DATA / "cluster" / FILE
with_data = pytest.mark.skipif(not PHILLY.exists(), reason="needs the real traces")


@pytest.mark.parametrize("name", list(FAMILIES))
def test_families_have_the_jobs_of_the_papers_and_follow_their_seed(name):
    scenario = by_name(name, CLUSTER, seed=3)
    family = FAMILIES[name]
    times = [job.time for job in scenario.jobs]
    assert len(times) == family.jobs
    assert times == sorted(times)
    assert {job.application for job in scenario.jobs} <= set(scenario.profiles)
    assert by_name(name, CLUSTER, seed=3).jobs == scenario.jobs
    assert by_name(name, CLUSTER, seed=4).jobs != scenario.jobs
    assert len(by_name(name, CLUSTER, seed=3, jobs=10, hours=2).jobs) == 10


@pytest.mark.parametrize("name", list(FAMILIES))
def test_shares_and_rates_are_those_of_the_family(name):
    family = FAMILIES[name]
    rng = np.random.default_rng(0)
    jobs = _draw(family, rng, jobs=20_000)
    counts = Counter(job.application for job in jobs)
    for model, share in family.mix.items():
        assert counts[model] / len(jobs) == pytest.approx(share, abs=0.02)
    edges = np.linspace(0.0, family.hours * 3600.0, len(family.rate) + 1)
    found = np.histogram([job.time for job in jobs], edges)[0] / len(jobs)
    assert found == pytest.approx(np.array(family.rate) / sum(family.rate), abs=0.02)


def test_settings_and_names_that_are_none_are_refused(tmp_path):
    with pytest.raises(ValueError, match="unknown trace 'nothing': must be one of .*philly"):
        by_name("nothing", CLUSTER)
    with pytest.raises(ValueError, match="'philly'.*colour"):
        by_name("philly", CLUSTER, colour="red")
    with pytest.raises(ValueError, match="jobs = -1"):
        by_name("helios", CLUSTER, jobs=-1)
    with pytest.raises(InputError, match="does not exist"):
        by_name("philly", CLUSTER, data=tmp_path / "none")
    assert set(FAMILIES) <= set(trace_names())


def test_sizes_go_by_gpu_hours():
    assert [size_of(hours) for hours in (0.0, 0.99, 1.0, 10.0, 99.9, 100.0, 999.0)] == [
        "S", "S", "M", "L", "L", "XL", "XL",
    ]  # fmt: skip


def test_samples_fold_the_days_and_leave_out_short_and_huge_jobs():
    hour, day = 3600.0, 86_400.0
    trace = [
        TracedJob(3 * day + 2.5 * hour, 600.0, 1, "a"),
        TracedJob(9.9 * hour, 7200.0, 2, "b"),
        TracedJob(11 * hour, 600.0, 1, "too late in the day"),
        TracedJob(3 * hour, 59.0, 1, "too short"),
        TracedJob(3 * hour, 1001 * hour, 1, "too long"),
    ]
    models = {"S": ("small",), "M": ("medium",)}
    jobs = _sample(trace, 10, np.random.default_rng(0), models)
    assert [(job.application, job.time / hour, job.tenant) for job in jobs] == [
        ("small", pytest.approx(0.5), "a"),
        ("medium", pytest.approx(7.9), "b"),
    ]


HELIOS = "job_id,user,vc,gpu_num,cpu_num,node_num,state,submit_time,start_time,end_time,duration,queue"
PHILLY_HEAD = "timestamp,duration,num_gpus,gpu_time,cluster"
POLLUX_HEAD = "name,time,application,num_replicas,batch_size"


def helios_line(gpus=2, submitted="2020-04-02 01:30:00", seconds="7200"):
    return f"1,u1,vcA,{gpus},4,1,COMPLETED,{submitted},x,x,{seconds},0"


@pytest.mark.parametrize(
    ("read", "head", "line", "field"),
    [
        (_read_philly, PHILLY_HEAD, "yesterday,60,1,60,a", "timestamp"),
        (_read_philly, PHILLY_HEAD, "2017-10-09 07:01:55,60,0,0,a", "num_gpus"),
        (_read_philly, PHILLY_HEAD, "2017-10-09 07:01:55,60,2,60,a", "gpu_time"),
        (_read_philly, PHILLY_HEAD, "2017-10-09 07:01:55,-1,2,60,a", "duration"),
        (read_workload, POLLUX_HEAD, "a,1,ncf,0,64", "num_replicas"),
        (read_workload, POLLUX_HEAD, "a,1,ncf,1,few", "batch_size"),
        (_read_helios, HELIOS, helios_line(-1), "gpu_num"),
        (_read_helios, HELIOS, helios_line(seconds="long"), "duration"),
        (_read_helios, HELIOS, helios_line(submitted="today"), "submit_time"),
    ],
)
def test_lines_that_make_no_sense_are_refused(tmp_path, read, head, line, field):
    path = tmp_path / "trace.csv"
    path.write_text(f"{head}\n{line}\n")
    with pytest.raises(InputError, match=f"line 2, {field}"):
        read(path)


@with_data
@pytest.mark.data
def test_the_real_trace_has_the_shares_that_the_generator_uses():
    trace = _read_philly(PHILLY)
    assert len(trace) == 82_247
    assert sum(job.tenant == "6214e9" for job in trace) == 41_226
    models = {size: (size,) for size in ("S", "M", "L", "XL")}
    pool = _sample(trace, 10**6, np.random.default_rng(0), models)
    counts = Counter(job.application for job in pool)
    family = FAMILIES["philly"]
    shares = {"S": 0.7829, "M": 0.1525, "L": 0.0460, "XL": 0.0187}
    assert {size: count / len(pool) for size, count in counts.items()} == pytest.approx(shares, abs=1e-3)
    found = np.histogram([job.time for job in pool], np.arange(9) * 3600.0)[0] / len(pool)
    assert found == pytest.approx(np.array(family.rate), abs=1e-3)


@with_data
@pytest.mark.data
def test_real_workloads_are_taken_where_they_are():
    jobs = by_name("pollux", CLUSTER, 0, DATA).jobs
    assert jobs == read_workload(DATA / "cluster" / FOLDER / "workloads" / "workload-1.csv")
    assert (len(jobs), jobs[0].tuned_gpus, jobs[0].batch_size) == (160, 6, 2048)
    assert all(job.tenant for job in by_name("philly", CLUSTER, 0, DATA).jobs)


def test_authors_workloads_come_one_after_the_other(tmp_path):
    folder = tmp_path / "siasosp23_artifacts" / "saturn"
    folder.mkdir(parents=True)
    for number in (2, 10):
        text = f"name,time,application,num_replicas,batch_size\nbert-{number},5,bert,6,384\n"
        (folder / f"workload-{number}.csv").write_text(text)
    cluster = cluster_by_name("heterogeneous-64")
    names = [by_name("helios", cluster, seed, tmp_path, authors=True).jobs[0].name for seed in range(3)]
    assert names == ["bert-2", "bert-10", "bert-2"]
    with pytest.raises(InputError, match="newtrace/workload"):
        by_name("new-trace", cluster, 0, tmp_path, authors=True)
    with pytest.raises(SettingsError, match="^trace 'spike': authors = True: there are no published spike"):
        by_name("spike", cluster, 0, tmp_path, authors=True)
    for settings in ({"jobs": 5}, {"first_hour": 9.0}):
        with pytest.raises(SettingsError, match=f"must be without settings: {next(iter(settings))}"):
            by_name("helios", cluster, 0, tmp_path, authors=True, **settings)


@pytest.mark.data
@pytest.mark.parametrize(("name", "jobs"), [("philly", 160), ("helios", 160), ("new-trace", 960)])
def test_the_authors_own_workloads_are_tuned_by_them(name, jobs):
    if not (DATA / "cluster" / _PUBLISHED_FOLDER).is_dir():
        pytest.skip(f"no {DATA / 'cluster' / _PUBLISHED_FOLDER}")
    scenario = by_name(name, cluster_by_name("heterogeneous-64"), 0, DATA, authors=True)
    assert len(scenario.jobs) == jobs and all(job.tuned_gpus and job.batch_size for job in scenario.jobs)


def test_helios_jobs_with_gpus_are_sampled_where_the_trace_is(tmp_path):
    path = tmp_path / "HeliosData" / "data" / "Saturn" / "cluster_log.csv"
    path.parent.mkdir(parents=True)
    lines = [helios_line(), helios_line(0), helios_line(8, "2020-04-01 03:00:00+08:00", "36000")]
    path.write_text("\n".join([HELIOS, *lines]) + "\n")
    first, second = _read_helios(path)
    assert (first.time, first.gpus, first.gpu_hours, first.tenant) == (3 * 3600.0, 8, 80.0, "vcA")
    assert (second.time, second.gpu_hours) == (25.5 * 3600.0, 4.0)
    jobs = by_name("helios", CLUSTER, 0, tmp_path).jobs
    assert [(job.time, job.application, job.tenant) for job in jobs] == [(3600.0, "yolov3", "vcA")]
    later = by_name("helios", CLUSTER, 0, tmp_path, first_hour=1).jobs
    assert [job.time for job in later] == [1800.0, 7200.0]
