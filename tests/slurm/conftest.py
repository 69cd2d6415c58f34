"""What tests on a real Slurm share: the cluster, jobs and schedulers."""

import shutil
import subprocess
import tempfile
from pathlib import Path

import pytest

from support.slurm_cluster import SlurmCluster, why_not
from support.slurm_jobs import Jobs, Schedulers


@pytest.fixture(scope="session")
def cluster():
    if why_not():
        pytest.skip(f"no Slurm here: {why_not()}")
    folder = Path(tempfile.mkdtemp(prefix="slurm-"))  # pytest's own are too long for a socket
    with SlurmCluster(folder, {"a100": (1, 4), "t4": (2, 4)}) as cluster:
        yield cluster
    shutil.rmtree(folder)


@pytest.fixture
def jobs(cluster):
    folder = Path(tempfile.mkdtemp(prefix="jobs-"))
    yield Jobs(folder)
    cluster.clear()
    for node in ("a100-1", "t4-1", "t4-2"):
        subprocess.run(["scontrol", "update", f"nodename={node}", "state=resume"], capture_output=True)
    cluster.wait_for_nodes("idle")
    shutil.rmtree(folder)


@pytest.fixture
def schedulers(tmp_path):
    made = Schedulers(tmp_path)
    yield made
    made.kill()
