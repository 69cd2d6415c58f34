"""Generators and readers of traces, what readers refuse, and the sizes of tuned jobs."""

import json
import tarfile
from collections import Counter

import numpy as np
import pytest

from copter.errors import InputError
from copter.problems.cluster.cluster import Cluster, GpuType
from copter.problems.cluster.presets import cluster_by_name
from copter.problems.cluster.profiles.tables import CountProfile
from copter.problems.cluster.registry import SettingsError
from copter.problems.cluster.traces import TunedJobs, by_name, trace_names
from copter.problems.cluster.traces.elasticflow import _read_throughputs, _read_trace
from copter.problems.cluster.traces.families import FAMILIES, _draw
from copter.problems.cluster.traces.gavel import _GavelJob, _read_gavel_throughputs, _read_gavel_trace
from copter.problems.cluster.traces.helios import _read_helios
from copter.problems.cluster.traces.philly import _read_philly
from copter.problems.cluster.traces.tuned import constrained, size_of
from copter.problems.cluster.workload import JobSubmission, read_workload
from copter.problems.shockwave import generate

CLUSTER = cluster_by_name("heterogeneous-64")


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


def test_users_ask_for_the_initial_batch_on_each_gpu_and_with_rigid_jobs_for_whole_counts():
    asked = by_name("philly", CLUSTER, seed=0, requested=True)
    for job in asked.jobs:
        limits = asked.profiles[job.application].limits
        assert job.batch_size == min(limits.initial * job.tuned_gpus, limits.largest)
    rigid, there = by_name("philly", CLUSTER, seed=0, rigid=0.5), {one.gpus for one in CLUSTER.configurations}
    assert {job.tuned_gpus for job in rigid.jobs if job.kind == "adaptive"} <= there


def test_sizes_go_by_gpu_hours():
    assert [size_of(hours) for hours in (0.0, 0.99, 1.0, 10.0, 99.9, 100.0, 999.0)] == [
        "S", "S", "M", "L", "L", "XL", "XL",
    ]  # fmt: skip


HELIOS = "job_id,user,vc,gpu_num,cpu_num,node_num,state,submit_time,start_time,end_time,duration,queue"
PHILLY_HEAD = "timestamp,duration,num_gpus,gpu_time,cluster"
POLLUX_HEAD = "name,time,application,num_replicas,batch_size"


def helios_line(gpus=2, submitted="2020-04-02 01:30:00", seconds="7200"):
    return f"1,u1,vcA,{gpus},4,1,COMPLETED,{submitted},x,x,{seconds},0"


@pytest.mark.parametrize(
    ("read", "head", "line", "field"),
    [
        (_read_philly, PHILLY_HEAD, "yesterday,60,1,60,a", "timestamp"),
        (_read_philly, PHILLY_HEAD, "2017-10-09 07:01:55,60,2,60,a", "gpu_time"),
        (_read_philly, PHILLY_HEAD, "2017-10-09 07:01:55,-1,2,60,a", "duration"),
        (read_workload, POLLUX_HEAD, "a,1,ncf,1,few", "batch_size"),
        (_read_helios, HELIOS, helios_line(seconds="long"), "duration"),
        (_read_helios, HELIOS, helios_line(submitted="today"), "submit_time"),
    ],
)
def test_lines_that_make_no_sense_are_refused(tmp_path, read, head, line, field):
    path = tmp_path / "trace.csv"
    path.write_text(f"{head}\n{line}\n")
    with pytest.raises(InputError, match=f"line 2, {field}"):
        read(path)


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


A100 = cluster_by_name("elasticflow-64")


def run_seconds(scenario, job):
    """Seconds that a job takes on the GPUs that it asked for."""
    best = 0.0
    for type in scenario.cluster.names:
        configuration = scenario.cluster.packed(type, job.tuned_gpus or job.gpus)
        best = max(best, scenario.profiles[job.application].curve(configuration)[0])
    return scenario.profiles[job.application].work / best


def archive(tmp_path, text):
    (tmp_path / "cluster01.csv").write_text(text)
    path = tmp_path / "raw-traces.tar.gz"
    with tarfile.open(path, "w:gz") as file:
        file.add(tmp_path / "cluster01.csv", "cluster01.csv")
    return path


def test_generated_jobs_have_the_durations_and_sizes_of_the_trace():
    scenario = by_name("elasticflow", A100, seed=1, jobs=2000)
    assert scenario.jobs == by_name("elasticflow", A100, seed=1, jobs=2000).jobs
    share = sum(job.tuned_gpus == 1 for job in scenario.jobs) / 2000
    assert share == pytest.approx(0.755, abs=0.03)
    seconds = sorted(run_seconds(scenario, job) for job in scenario.jobs)
    assert seconds[1000] == pytest.approx(8604.0, rel=0.1)  # e^9.06


def test_elasticflow_files_are_read(tmp_path):
    path = archive(tmp_path, "job_id,submission_time,duration,num_gpu\nb,20,60,8\na,10,30.5,1\n")
    assert [(job.time, job.seconds, job.gpus) for job in _read_trace(path, 1)] == [(10, 30.5, 1), (20, 60, 8)]
    with pytest.raises(InputError, match=r"cluster02\.csv"):
        _read_trace(path, 2)
    path = archive(tmp_path, "job_id,submission_time,duration,num_gpu\na,10,long,1\n")
    with pytest.raises(InputError, match="line 2, duration"):
        _read_trace(path, 1)


def test_elasticflow_throughputs_leave_out_what_does_not_run(tmp_path):
    (tmp_path / "m.csv").write_text("global_batch_size,1,2,4,8\n64,1.5,2.5,,0\n128,nan,1.0,1.5,2.0\n")
    first, second = _read_throughputs(tmp_path)
    assert (first.model, first.batch_size, first.gpus.tolist()) == ("m", 64, [1, 2])
    assert (second.gpus.tolist(), second.throughput.tolist()) == ([2, 4, 8], [1.0, 1.5, 2.0])


def test_gavel_files_are_read(tmp_path):
    path = tmp_path / "a.trace"
    line = ["LM (batch size 5)", "run", "dir", "--steps", "1", "100", "2", "1", "-1.0", "7.5"]
    path.write_text("\t".join(line) + "\n")
    assert _read_gavel_trace(path) == [_GavelJob("LM (batch size 5)", 100, 2, 7.5)]
    path.write_text("\t".join([*line[:5], "many", *line[6:]]) + "\n")
    with pytest.raises(InputError, match="line 1, steps"):
        _read_gavel_trace(path)
    path.write_text("a line\n")
    with pytest.raises(InputError, match="has 1 fields: must be at least 10"):
        _read_gavel_trace(path)


def test_gavel_throughputs_are_read(tmp_path):
    path = tmp_path / "t.json"
    path.write_text(json.dumps({"v100": {"('LM', 2)": {"null": 3.0, "('LM', 2)": [1.0, 1.0]}}}))
    assert _read_gavel_throughputs(path) == {"v100": {("LM", 2): 3.0}}
    path.write_text(json.dumps({"v100": {"LM": {"null": 3.0}}}))
    with pytest.raises(InputError, match=r"v100\.LM"):
        _read_gavel_throughputs(path)


def test_shockwave_jobs_are_those_of_its_generator():
    scenario = by_name("shockwave", cluster_by_name("shockwave-64"), seed=1)
    jobs = generate(220, seed=1, arrival_seconds=27.0)
    assert [(job.name, job.time, job.gpus) for job in scenario.jobs] == [
        (job.name, job.arrival, job.gpus) for job in jobs
    ]
    large = by_name("shockwave", cluster_by_name("shockwave-64"), seed=1, sizes=True)
    hours = [run_seconds(large, job) * job.gpus / 3600 for job in large.jobs]
    assert max(hours) > 40  # more than 8 GPUs for 5 hours


CLUSTER_TUNED = Cluster([GpuType("a", 4, 4), GpuType("b", 4, 1)])


def profile(speeds, hours=1.0, **others):
    return CountProfile("p", 10.0, 3600.0 * hours, [1, 2, 4, 8, 16], {"a": speeds, **others})


def test_valid_counts_have_half_to_four_fifths_of_the_ideal_speedup():
    tuned = TunedJobs(CLUSTER_TUNED)
    # Shares of the ideal speedup: 1, 0.9, 0.75, 0.5, 0.3.
    assert tuned.choices(profile([1.0, 1.8, 3.0, 4.0, 4.8])) == [(4, None), (8, None)]


def test_counts_stay_below_the_limit_of_the_cluster():
    linear = profile([1.0, 2.0, 4.0, 8.0, 16.0])
    assert TunedJobs(CLUSTER_TUNED).most_gpus == 16
    assert TunedJobs(Cluster([GpuType("a", 4, 16)])).most_gpus == 64
    assert TunedJobs(CLUSTER_TUNED, most_gpus=4).choices(linear)[0][0] <= 4


def test_jobs_that_take_too_long_are_tuned_on_the_next_type():
    slow, fast = [0.1, 0.15, 0.25, 0.4, 0.8], [0.5, 0.8, 1.2, 0.0, 0.0]  # shares 0.75 .. 0.5 and 0.8, 0.6
    tuned = TunedJobs(CLUSTER_TUNED)
    assert [gpus for gpus, _ in tuned.choices(profile(slow, 1.0, b=fast))] == [2, 4, 8, 16]
    assert tuned.choices(profile(slow, 9.5, b=fast)) == [(16, None)]  # 11.9 h; 8 take 23.8
    assert tuned.choices(profile(slow, 10.0, b=fast)) == [(4, None)]  # 8.3 h; 2 take 12.5
    assert tuned.choices(profile(slow, 100.0, b=fast)) == [(4, None)]  # none: the middle of the range


def test_shares_of_jobs_are_constrained():
    jobs = [JobSubmission(f"j{k}", 0.0, "x", "p", batch_size=64, tuned_gpus=4) for k in range(1000)]
    changed = constrained(jobs, np.random.default_rng(0), strong_scaling=0.3, rigid=0.2)
    kinds = Counter(job.kind for job in changed)
    assert kinds["rigid"] == pytest.approx(200, abs=40)
    assert kinds["strong-scaling"] == pytest.approx(300, abs=40)
    assert {job.gpus for job in changed if job.kind == "rigid"} == {4}
    with pytest.raises(ValueError, match="their sum at most 1"):
        constrained(jobs, np.random.default_rng(0), strong_scaling=0.8, rigid=0.3)


def test_jobs_get_a_valid_pair_and_keep_a_count_of_their_own():
    known = {"p": profile([1.0, 1.8, 3.0, 4.0, 4.8])}
    jobs = [JobSubmission(f"j{k}", 0.0, "x", "p") for k in range(40)]
    jobs += [
        JobSubmission("rigid", 0.0, "x", "p", "rigid", 1),
        JobSubmission("t", 0.0, "x", "p", tuned_gpus=2),
    ]
    tuned = TunedJobs(CLUSTER_TUNED).tune(jobs, known, np.random.default_rng(0))
    assert {job.tuned_gpus for job in tuned[:40]} == {4, 8}
    assert tuned[40:] == jobs[40:]
