"""Against the results that Pollux' authors ship with their workloads, job by job."""

import json

import numpy as np
import pytest

from copter.bench.reproduction import Effort
from copter.errors import InputError
from copter.problems.cluster.traces.pollux import FOLDER
from copter.problems.pollux.artifact import Artifact
from support.real_data import DATA

ROOT = DATA / "cluster" / FOLDER
needs_data = pytest.mark.skipif(not ROOT.exists(), reason="needs Pollux' artifact")


def shipped(result, workload):
    return json.loads((ROOT / "results-jobload" / result / "summary.json").read_text())["jcts"][workload]


def played(simulator):
    return simulator.play().job_results()


@pytest.mark.data
@needs_data
def test_tiresias_completes_jobs_when_the_authors_simulator_does():
    artifact, theirs = Artifact(Effort(seeds=1, data=DATA)), shipped("tiresias-1.0", "workload-1")
    ours = {record.name: record.jct for record in played(artifact.simulator("tiresias", artifact.jobs(1)))}
    assert ours.keys() == theirs.keys()
    assert np.mean(list(ours.values())) == pytest.approx(np.mean(list(theirs.values())), rel=0.05)
    ratios = [ours[name] / theirs[name] for name in ours]
    assert np.quantile(ratios, 0.1) > 0.9 and np.quantile(ratios, 0.9) < 1.1


@pytest.mark.long
@pytest.mark.data
@needs_data
def test_under_pollux_jobs_of_one_gpu_take_the_shipped_times_to_the_second():
    """They wait for the round, start for 30 s, and run: nothing else decides."""
    artifact, theirs = Artifact(Effort(seeds=1, data=DATA)), shipped("pollux-1.0", "workload-3")
    records = played(artifact.simulator("pollux", artifact.jobs(3)[:20], population=50))
    small = {record.name: record.jct for record in records if record.application == "ncf"}
    assert len(small) >= 5
    for name, jct in small.items():
        assert jct == pytest.approx(theirs[name], abs=2.0)


def test_a_folder_without_the_artifact_is_named(tmp_path):
    with pytest.raises(InputError, match="petuum"):
        Artifact(Effort(data=tmp_path))
