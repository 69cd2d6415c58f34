"""A cgroup for each part of a run: processes cannot leave it, and it goes with the run."""

import fcntl
import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from live_runs import run_of, state, until, until_ended, until_printed

from copter.live.backends import agent, cgroups
from copter.live.backends.base import BackendError, BackendSettingError, RunState, begun
from copter.live.backends.cgroups import RunCgroups, find_cgroups
from copter.live.backends.local import LocalBackend
from copter.live.folder import service_id
from support import hostile_jobs
from support.cgroups import new_cgroup

SAY = "cat /proc/self/cgroup; echo cgroup=$COPTER_CGROUP"


@pytest.fixture
def cgroup():
    """The folder of a real cgroup."""
    with new_cgroup() as made:
        if isinstance(made, str):
            pytest.skip(made)
        yield made


@pytest.fixture
def ordinary(tmp_path):
    """A folder of ordinary files in place of a cgroup."""
    folder = tmp_path / "cgroup"
    folder.mkdir()
    (folder / "cgroup.controllers").touch()
    return folder


def started(backend, run):
    backend.start(run)
    until_printed(run, "begun")
    return (begun(run.folder, 0) or {})["pid"]


def children(cgroup):
    return sorted(path.name for path in cgroup.iterdir() if path.is_dir())


# ---- processes --------------------------------------------------------------------------------------


@pytest.mark.cluster
def test_each_part_of_a_run_has_a_cgroup_that_is_removed_with_it(cgroup, tmp_path):
    backend = LocalBackend(tmp_path, cgroup=str(cgroup))
    assert str(cgroup) in backend.notice
    script = f"{SAY}; echo begun; sleep 600"
    run = run_of(tmp_path, "sh", "-c", script, gpus=(1, 1))
    number = started(backend, run)
    until_printed(run, "begun", 1)
    names = [f"copter-{service_id(tmp_path)}-job.1.{node}" for node in (0, 1)]
    assert children(cgroup) == names
    for node, name in enumerate(names):
        own, variable = (run.folder / f"log-{node}.txt").read_text().splitlines()[-3:-1]
        assert own.startswith("0::") and own.endswith(f"/{cgroup.name}/{name}") and variable == "cgroup="
    assert cgroup.name not in Path(f"/proc/{number}/cgroup").read_text()
    backend.kill(run)
    assert until_ended(backend, run).outcome == "lost"
    assert children(cgroup) == []
    well = run_of(tmp_path, "true", number=2)
    backend.start(well)
    assert until_ended(backend, well) == RunState("completed", exit_code=0) and children(cgroup) == []
    backend.start(well)  # it is never started twice; what that makes is removed
    assert until_ended(backend, well) == RunState("completed", exit_code=0) and children(cgroup) == []


def all_gone(devices):
    """Whether all processes that inherited the lock of a GPU have ended."""
    with open(devices / "0") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True


@pytest.mark.cluster
@pytest.mark.parametrize("how", ["by itself", "killed", "agent killed", "another service"])
def test_all_processes_are_gone_when_a_run_has_ended(cgroup, tmp_path, how):
    """Processes that fork without a pause, in new sessions and after their parents, and that write on."""
    devices = tmp_path / "devices"
    devices.mkdir()
    backend = LocalBackend(tmp_path, cgroup=str(cgroup))
    script = f'"$@"; until test $(wc -l < {tmp_path}/trace.evil) -gt 9; do sleep 0.01; done; echo begun'
    script += "" if how == "by itself" else "; sleep 600"
    job = (sys.executable, "-S", hostile_jobs.__file__, "hops", "1", str(devices), str(tmp_path / "trace"))
    run = run_of(tmp_path, "sh", "-c", script, "sh", *job, devices=((0,),), once=True)
    number = started(backend, run)
    if how == "agent killed":
        os.kill(number, signal.SIGKILL)
    elif how == "another service":
        backend = LocalBackend(tmp_path, cgroup=str(cgroup))
        assert state(backend, run) == RunState() and not all_gone(devices)
    if how in ("killed", "another service"):  # the service repeats this until the run has ended
        ended = until(backend, run, lambda now: now.outcome or backend.kill(run))
    else:
        ended = until_ended(backend, run)
    trace = (tmp_path / "trace.evil").read_bytes()
    assert all_gone(devices) and children(cgroup) == []
    assert ended.outcome == ("completed" if how == "by itself" else "lost")
    assert (tmp_path / "trace.evil").read_bytes() == trace


@pytest.mark.cluster
def test_a_run_whose_cgroup_has_gone_cannot_be_started(cgroup, tmp_path):
    run = run_of(tmp_path, "true")
    environment = os.environ | {agent.CGROUP: str(cgroup / "missing")}
    subprocess.run([sys.executable, agent.__file__, str(run.folder), "0"], env=environment, check=False)
    outcome = json.loads((run.folder / "ended-0.json").read_text())
    expected = f"cannot be started: a process could not be moved to the cgroup {cgroup}/missing"
    assert (outcome["code"], outcome["reason"]) == (1, expected)


def test_a_cgroup_that_cannot_be_made_prevents_the_start(tmp_path):
    with pytest.raises(BackendError, match=r"run job.1: its cgroup cannot be made: .*missing"):
        RunCgroups(tmp_path / "missing", "id").make(run_of(tmp_path, "true"), 0)


# ---- settings ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("setting", ["relative/path", "/proc", "/nowhere", "", "AUTO", 5, True])
def test_a_folder_that_is_no_cgroup_is_refused(tmp_path, setting):
    with pytest.raises(BackendSettingError, match="options: cgroup = .*: must be auto, off or the absolute"):
        LocalBackend(tmp_path, cgroup=setting)


def test_a_folder_to_which_no_process_can_be_moved_is_refused(ordinary, tmp_path):
    with pytest.raises(BackendSettingError, match=f"cgroup = '{ordinary}': .*cgroup.procs"):
        find_cgroups(str(ordinary), tmp_path)


def test_runs_without_cgroups_have_a_notice(tmp_path, monkeypatch):
    backend = LocalBackend(tmp_path, cgroup="off")
    assert backend.notice == "runs have no cgroups: the option cgroup is off"
    monkeypatch.setattr(cgroups, "_own", lambda: (None, "it is not delegated"))
    assert LocalBackend(tmp_path).notice == "runs have no cgroups: it is not delegated"


@pytest.mark.cluster
@pytest.mark.parametrize("delegated", [False, True])
@pytest.mark.skipif(os.geteuid() != 0, reason="needs root, to be delegated a cgroup")
def test_the_own_cgroup_is_used_if_it_is_delegated(cgroup, tmp_path, delegated):
    if delegated:
        os.setxattr(cgroup, "user.delegate", b"1")
    code = (
        "import sys, pathlib; sys.stdin.readline(); from copter.live.backends.cgroups import find_cgroups;"
        " print(find_cgroups('auto', pathlib.Path(sys.argv[1]))[1])"
    )
    command = [sys.executable, "-c", code, str(tmp_path)]
    service = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    (cgroup / "cgroup.procs").write_text(str(service.pid))
    said, _ = service.communicate("go\n")
    if delegated:
        assert said == f"runs have cgroups in {cgroup}\n"
    else:
        assert said == f"runs have no cgroups: the cgroup of the service, {cgroup}, is not delegated to it\n"
    assert children(cgroup) == []
