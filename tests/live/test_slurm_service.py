"""`copter serve` on a real Slurm: time limits, reservations, a reload, and accounts of tokens."""

from __future__ import annotations

import os
import pwd
import shutil
import subprocess
import tempfile
import time
from pathlib import Path

import pytest
from live_runs import folder_of_all

from copter.live.client import Client
from copter.live.process import ServiceProcess
from support.slurm_cluster import SlurmCluster, why_not

pytestmark = [pytest.mark.cluster, pytest.mark.long]

SECONDS = 60.0
ACCOUNT = "nobody"
PYTHON = shutil.which("python3", path="/usr/bin:/bin")
CLUSTER = """\
grace_seconds = 5.0
options = {{ python = "{python}" }}
[[gpus]]
type = "a100"
gpus_per_node = 2
nodes = 3
hosts = ["a100-1", "a100-2", "a100-3"]
[[gpus]]
type = "t4"
gpus_per_node = 2
nodes = 2
hosts = ["t4-1", "t4-2"]
"""
TOKENS = """\
[[tokens]]
name = "alice"
role = "user"
token = "{token}"
account = "{account}"
"""
SLEEP = ("sleep", "600")


@pytest.fixture(scope="module")
def slurm():
    if why_not():
        pytest.skip(f"no Slurm here: {why_not()}")
    folder = Path(tempfile.mkdtemp(prefix="slurm-"))  # pytest's own are too long for a socket
    folder.chmod(0o755)  # commands of other accounts read slurm.conf
    with SlurmCluster(folder, {"a100": (3, 2), "t4": (2, 2)}) as cluster:
        yield cluster
    shutil.rmtree(folder)


@pytest.fixture
def folder():
    """A folder that other accounts can enter, as a service with accounts needs it."""
    with folder_of_all("copter-slurm-") as path:
        yield path


@pytest.fixture
def service(slurm, folder):
    path, tokens = folder / "cluster.toml", folder / "tokens.toml"
    path.write_text(CLUSTER.format(python=PYTHON))
    tokens.write_text(TOKENS.format(token="a" * 40, account=ACCOUNT))
    tokens.chmod(0o600)
    (folder / "live").mkdir(mode=0o711)
    arguments = ("--backend", "slurm", "--policy", "queue", "--round-seconds", "1", "--soon-seconds", "0.2")
    with ServiceProcess(folder / "live", path, (*arguments, "--tokens", str(tokens))) as service:
        yield service
    slurm.clear()


def until(done, what):
    deadline = time.monotonic() + SECONDS
    while not done():
        assert time.monotonic() < deadline, what
        time.sleep(0.1)


def running(client, name, *hosts):
    """Wait until a job runs in Slurm, on these hosts; return its account."""
    last = []

    def there():
        command = ("squeue", "--noheader", "--states=RUNNING", "--Format=Name:80,NodeList:80,UserName:80")
        lines = subprocess.run(command, capture_output=True, text=True, check=True, timeout=30).stdout
        found = [line.split() for line in lines.splitlines()]
        last[:] = [line for line in found if line[0].endswith(f"-{name}.{client.job(name)['runs']}")]
        return last and last[0][1] == ",".join(hosts) and client.job(name)["status"] == "running"

    until(there, (name, hosts, last, client.job(name)))
    return last[0][2]


def submit(client, name, **fields):
    client.submit({"command": SLEEP, "name": name, "gpus": 2, "types": ["t4"], **fields})


def test_limits_reservations_and_a_reload(service):
    with service.client() as client:
        submit(client, "one", types=["a100"])
        running(client, "one", "a100-1")
        submit(client, "more", types=["a100"], gpus=4)
        running(client, "more", "a100-[2-3]")

        submit(client, "limited", time_limit_seconds=3.0)
        running(client, "limited", "t4-1")
        (limited,) = client.wait(["limited"], timeout=SECONDS).values()
        assert limited["status"] == "failed" and "time limit" in limited["reason"]

        now = client.cluster()["time"]
        client.reserve("team", ["t4-0"], begin=now + 8.0, end=now + 600.0)
        submit(client, "other")
        running(client, "other", "t4-2")  # the other node will be reserved
        submit(client, "late")
        running(client, "late", "t4-1")
        submit(client, "member", reservation="team")
        running(client, "member", "t4-1")
        assert client.job("late")["status"] == "queued" and client.job("late")["runs"] == 1
        running(client, "other", "t4-2")
        client.unreserve("team")
        running(client, "late", "t4-1")
        assert client.job("member")["status"] == "queued"

        cluster = service.folder.parent / "cluster.toml"
        cluster.write_text(cluster.read_text().replace("grace_seconds = 5.0", "grace_seconds = 4.0"))
        assert client.reload()
        running(client, "more", "a100-[2-3]")


@pytest.mark.skipif(PYTHON is None or os.geteuid() != 0, reason="needs root, and a Python of the system")
def test_jobs_of_a_token_with_an_account_are_slurm_jobs_of_the_account(service):
    owner = pwd.getpwnam(ACCOUNT)
    with Client(service.url, "a" * 40) as alice, service.client() as admin:
        script = f"id -un; cat {service.folder}/token; touch made; exec sleep 600"
        submit(alice, "hers", command=["sh", "-c", script])
        assert running(admin, "hers", "t4-1") == ACCOUNT
        submit(admin, "roots")
        assert running(admin, "roots", "t4-2") == "root"
        until(lambda: "ermission denied" in alice.log("hers"), alice.log("hers"))
        assert alice.log("hers").splitlines()[0] == ACCOUNT
        (made,) = (service.folder / "jobs" / "hers" / "work").iterdir()
        assert made.name == "made" and made.stat().st_uid == owner.pw_uid
        alice.cancel("hers")
        (ended,) = alice.wait(["hers"], timeout=SECONDS).values()
        assert ended["status"] == "cancelled"
        running(admin, "roots", "t4-2")
