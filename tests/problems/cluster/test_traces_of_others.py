"""ElasticFlow's, Gavel's and PAI's traces: what a job becomes, and what readers refuse."""

import json
import tarfile

import pytest

from copter.errors import InputError
from copter.problems.cluster.presets import cluster_by_name
from copter.problems.cluster.traces import by_name
from copter.problems.cluster.traces.elasticflow import TRACES, _read_throughputs, _read_trace
from copter.problems.cluster.traces.gavel import FOLDER, _GavelJob, _read_gavel_throughputs, _read_gavel_trace
from copter.problems.shockwave import generate
from support.real_data import DATA

with_data = pytest.mark.skipif(not (DATA / "cluster" / TRACES).exists(), reason="needs the real traces")
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


def test_gavel_needs_its_files(tmp_path):
    cluster = cluster_by_name("gavel-36")
    with pytest.raises(ValueError, match="must be the folder"):
        by_name("gavel", cluster)
    with pytest.raises(InputError, match="does not exist"):
        by_name("gavel", cluster, data=tmp_path)


def test_pai_jobs_are_those_of_the_generator():
    cluster = cluster_by_name("pai-64")
    scenario = by_name("pai", cluster, seed=2, hours=6)
    assert len(scenario.jobs) == round(2000 / 512 * cluster.gpus / 4)
    assert scenario.jobs == by_name("pai", cluster, seed=2, hours=6).jobs
    assert scenario.cluster is cluster


def test_shockwave_jobs_are_those_of_its_generator():
    scenario = by_name("shockwave", cluster_by_name("shockwave-64"), seed=1)
    jobs = generate(220, seed=1, arrival_seconds=27.0)
    assert [(job.name, job.time, job.gpus) for job in scenario.jobs] == [
        (job.name, job.arrival, job.gpus) for job in jobs
    ]
    large = by_name("shockwave", cluster_by_name("shockwave-64"), seed=1, sizes=True)
    hours = [run_seconds(large, job) * job.gpus / 3600 for job in large.jobs]
    assert max(hours) > 40  # more than 8 GPUs for 5 hours


@with_data
@pytest.mark.data
def test_real_shockwave_jobs_are_those_of_the_file():
    cluster = cluster_by_name("shockwave-32")
    scenario = by_name("shockwave", cluster, 5, DATA)
    assert len(scenario.jobs) == 120
    assert scenario.jobs == by_name("shockwave", cluster, 6, DATA).jobs


@with_data
@pytest.mark.data
def test_real_elasticflow_jobs_run_for_their_time_on_their_gpus():
    trace = _read_trace(DATA / "cluster" / TRACES, 3)
    scenario = by_name("elasticflow", A100, 0, DATA, jobs=10**6, number=3)
    assert len(scenario.jobs) == len(trace)
    for traced, job in zip(trace[::97], scenario.jobs[::97], strict=True):
        assert run_seconds(scenario, job) == pytest.approx(traced.seconds)
        assert job.tuned_gpus <= traced.gpus


@with_data
@pytest.mark.data
def test_real_gavel_jobs_run_at_the_measured_speed():
    cluster = cluster_by_name("gavel-36")
    scenario = by_name("gavel", cluster, 0, DATA)
    speeds = _read_gavel_throughputs(DATA / "cluster" / FOLDER / "simulation_throughputs.json")
    job = scenario.jobs[0]
    assert (job.category, job.gpus, len(scenario.jobs)) == ("ResNet-18 (batch size 128)", 4, 96)
    rate = scenario.profiles[job.application].curve(cluster.packed("v100", 4))[0]
    assert rate == speeds["v100"]["ResNet-18 (batch size 128)", 4]


@with_data
@pytest.mark.data
def test_real_pai_jobs_are_those_of_the_file():
    cluster = cluster_by_name("pai-512")
    assert len(by_name("pai", cluster, 0, DATA).jobs) == 2000
