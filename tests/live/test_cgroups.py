"""A cgroup for each part of a run: processes cannot leave it, limits hold, and it goes with the run."""

import fcntl
import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from live_runs import run_of, state, until, until_ended, until_printed

from copter.durable.files import lock_file
from copter.live.admission import RefusedError
from copter.live.backends import agent, cgroups
from copter.live.backends.base import BackendError, BackendSettingError, RunState, begun
from copter.live.backends.cgroups import RunCgroups, find_cgroups
from copter.live.backends.local import LocalBackend
from copter.live.folder import service_id
from support import hostile_jobs
from support.cgroups import new_cgroup
from support.live_cases import RIGID, make_service, named, step
from support.memory_backend import MemoryBackend

SAY = "cat /proc/self/cgroup; echo cgroup=$COPTER_CGROUP"
BOTH = {"memory_gb_per_gpu": 0.1, "cpus_per_gpu": 0.5}


@pytest.fixture
def cgroup():
    """The folder of a real cgroup."""
    with new_cgroup() as made:
        if isinstance(made, str):
            pytest.skip(made)
        yield made


@pytest.fixture
def limited(cgroup):
    """The folder of a real cgroup whose controllers can be enabled."""
    there = (cgroup / "cgroup.controllers").read_text().split()
    missing = [name for name in ("cpu", "memory", "pids") if name not in there]
    if missing:
        pytest.skip(f"cgroups of version 2 have no controllers {missing} here, so no limit was tried")
    return cgroup


@pytest.fixture
def ordinary(tmp_path):
    """A folder of ordinary files in place of a cgroup; the cgroup of run job.1 is there already."""
    folder = tmp_path / "cgroup"
    child = folder / "copter-id-job.1.0"
    child.mkdir(parents=True)
    (folder / "cgroup.controllers").write_text("cpuset cpu io memory pids\n")
    (folder / "cgroup.subtree_control").write_text("cpu memory pids\n")
    for name in ("memory.max", "memory.swap.max", "memory.oom.group", "cpu.max", "pids.max"):
        (child / name).touch()
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
def test_cgroups_that_a_former_service_left_are_removed_at_the_start(cgroup, tmp_path):
    backend = LocalBackend(tmp_path, cgroup=str(cgroup))
    run = run_of(tmp_path, "sh", "-c", "echo begun; sleep 600")
    started(backend, run)
    left = cgroup / f"copter-{service_id(tmp_path)}-other.7.0"
    (left / "inner").mkdir(parents=True)
    other = cgroup / "copter-ffffff-other.7.0"
    other.mkdir()
    sleeper = subprocess.Popen(["sleep", "600"])
    (left / "inner" / "cgroup.procs").write_text(str(sleeper.pid))
    later = LocalBackend(tmp_path, cgroup=f"{cgroup.parent}/../{cgroup.parent.name}/{cgroup.name}")
    assert sleeper.wait(30.0) == -signal.SIGKILL
    assert set(children(cgroup)) == {other.name, f"copter-{service_id(tmp_path)}-job.1.0"}
    assert state(later, run) == RunState()
    later.kill(run)
    until_ended(later, run)
    assert children(cgroup) == [other.name]


@pytest.mark.cluster
def test_a_run_whose_cgroup_has_gone_cannot_be_started(cgroup, tmp_path):
    run = run_of(tmp_path, "true")
    environment = os.environ | {agent.CGROUP: str(cgroup / "missing")}
    subprocess.run([sys.executable, agent.__file__, str(run.folder), "0"], env=environment, check=False)
    outcome = json.loads((run.folder / "ended-0.json").read_text())
    expected = f"cannot be started: a process could not be moved to the cgroup {cgroup}/missing"
    assert (outcome["code"], outcome["reason"]) == (1, expected)


# ---- limits -----------------------------------------------------------------------------------------


@pytest.mark.cluster
def test_a_run_that_exceeds_its_memory_is_killed_as_a_whole(limited, tmp_path):
    backend = LocalBackend(tmp_path, cgroup=str(limited))
    assert backend.limits == ("memory_gb_per_gpu", "cpus_per_gpu")
    script = "sleep 600 & echo begun; exec python3 -c 'x = b\"x\" * 200_000_000'"
    run = run_of(tmp_path, "sh", "-c", script, limits=BOTH)
    backend.start(run)
    assert until_ended(backend, run) == RunState(
        "failed", "exceeded its memory limit of 0.1 GB", exit_code=137
    )
    assert children(limited) == []
    enough = run_of(tmp_path, *run.command, gpus=(3,), number=2, once=True, limits=BOTH)
    backend.start(enough)
    assert until_ended(backend, enough).outcome == "completed"


@pytest.mark.cluster
def test_processors_and_processes_are_limited(limited, tmp_path, monkeypatch):
    monkeypatch.setattr(cgroups, "_MOST_PROCESSES", 30)
    backend = LocalBackend(tmp_path, cgroup=str(limited))
    script = """
import os, signal, time
while time.process_time() < 0.3: pass
made = 0
try:
    while made < 100:
        if not os.fork(): signal.pause()
        made += 1
except BlockingIOError: pass
print("made", made, "begun", flush=True)
signal.pause()
"""
    run = run_of(tmp_path, sys.executable, "-S", "-c", script, limits={"cpus_per_gpu": 0.5})
    started(backend, run)
    assert "made 29 begun" in (run.folder / "log-0.txt").read_text()
    (name,) = children(limited)
    counts = dict(map(str.split, (limited / name / "cpu.stat").read_text().splitlines()))
    assert int(counts["nr_throttled"]) > 0
    backend.kill(run)
    until_ended(backend, run)


def test_what_is_written_into_a_cgroup(ordinary, tmp_path):
    made = RunCgroups(ordinary, "id", enable=False)
    assert made.limits == ("memory_gb_per_gpu", "cpus_per_gpu")
    limits = {"memory_gb_per_gpu": 1.5, "cpus_per_gpu": 3}
    path = made.make(run_of(tmp_path, "true", gpus=(4,), limits=limits), 0)
    most = min(32_768, int(Path("/proc/sys/kernel/pid_max").read_text()) // 2)
    expected = {
        "memory.max": "6000000000",
        "memory.swap.max": "0",
        "memory.oom.group": "1",
        "cpu.max": "1200000 100000",
        "pids.max": str(most),
    }
    assert {file.name: file.read_text() for file in path.iterdir()} == expected
    (path / "memory.swap.max").unlink()  # a kernel without swap
    for name in ("memory.max", "cpu.max"):
        (path / name).write_text("max")
    made.make(run_of(tmp_path, "true", gpus=(4,)), 0)
    assert (path / "memory.max").read_text() == (path / "cpu.max").read_text() == "max"
    assert not (path / "memory.swap.max").exists()


def test_a_limit_that_cannot_be_written_prevents_the_start(ordinary, tmp_path):
    run = run_of(tmp_path, "true", limits=BOTH, number=2)
    with pytest.raises(BackendError, match=r"run job.2: its cgroup cannot be made: .*memory.oom.group"):
        RunCgroups(ordinary, "id", enable=False).make(run, 0)
    assert children(ordinary) == ["copter-id-job.1.0"]


def test_controllers_that_are_missing_are_named(ordinary):
    (ordinary / "cgroup.controllers").write_text("memory\n")
    (ordinary / "cgroup.subtree_control").write_text("")
    found = RunCgroups(ordinary, "id", enable=True)  # the kernel would write "memory" for "+memory"
    assert (ordinary / "cgroup.subtree_control").read_text() == "+memory"
    assert found.why == f"there is no controller 'cpu' in {ordinary}"


@pytest.mark.parametrize(
    ("events", "limits", "reason"),
    [
        ("oom 1\noom_kill 3\n", {"memory_gb_per_gpu": 1.5}, "exceeded its memory limit of 3 GB"),
        ("oom 0\noom_kill 3\n", {"memory_gb_per_gpu": 1.5}, "the machine had no memory left"),
        ("oom 0\noom_kill 1\n", {}, "the machine had no memory left"),
        ("oom 1\noom_kill 0\n", {"memory_gb_per_gpu": 1.5}, "SIGKILL"),
        (None, {}, "SIGKILL"),
    ],
)
def test_the_reason_of_a_death_by_memory(tmp_path, events, limits, reason):
    (tmp_path / "cgroup").mkdir()
    for name, text in (("cgroup.procs", ""), ("memory.events", events)):
        if text is not None:
            (tmp_path / "cgroup" / name).write_text(text)
    run = run_of(tmp_path, "sh", "-c", "kill -9 $$", gpus=(2,), once=True, limits=limits)
    environment = os.environ | {agent.CGROUP: str(tmp_path / "cgroup")}
    subprocess.run([sys.executable, agent.__file__, str(run.folder), "0"], env=environment, check=False)
    assert reason in json.loads((run.folder / "ended-0.json").read_text())["reason"]


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
    assert backend.notice == "runs have no cgroups: the option cgroup is off" and backend.limits == ()
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
        assert said.startswith(f"runs have cgroups in {cgroup}, without limits; limits need a folder")
    else:
        assert said == f"runs have no cgroups: the cgroup of the service, {cgroup}, is not delegated to it\n"
    assert children(cgroup) == []


# ---- jobs -------------------------------------------------------------------------------------------


def test_limits_that_the_backend_cannot_enforce_are_refused(tmp_path):
    backend = MemoryBackend()
    backend.limits = ("cpus_per_gpu",)
    service = make_service(tmp_path / "live", backend)
    service.admission.submit(named(RIGID, "first", cpus_per_gpu=2))
    with pytest.raises(RefusedError, match="memory_gb_per_gpu: the backend 'memory' of this"):
        service.admission.submit(named(RIGID, "second", cpus_per_gpu=2, memory_gb_per_gpu=8.0))
    step(service)
    assert [run.limits for run in backend.started] == [{"cpus_per_gpu": 2}]


def test_a_job_whose_limits_the_backend_has_lost_fails(tmp_path):
    backend = MemoryBackend()
    backend.limits = ("cpus_per_gpu",)
    service = make_service(tmp_path / "live", backend)
    service.admission.submit(named(RIGID, "job", cpus_per_gpu=2))
    backend.limits = ()
    step(service)
    *_, (_, ending) = service.record.journal.events(kind="Closed")
    assert backend.started == [] and ending.ending == "failed"
    assert ending.reason == "cpus_per_gpu: the backend 'memory' cannot enforce this limit any more"


def test_a_second_service_of_the_folder_removes_no_cgroup(tmp_path, monkeypatch):
    """Between the creation of a cgroup and the start of its agent, no process uses the cgroup."""
    monkeypatch.setattr(RunCgroups, "check", lambda self: None)
    home, folder = tmp_path / "live", tmp_path / "cgroup"
    for one in (home, folder):
        one.mkdir()
    for name in ("cgroup.controllers", "cgroup.subtree_control"):
        (folder / name).touch()
    left = folder / f"copter-{service_id(home)}-job.1.0"
    left.mkdir()
    lock = lock_file(home / "lock", "")
    find_cgroups(str(folder), home)
    assert left.exists()
    os.close(lock)
    find_cgroups(str(folder), home)
    assert not left.exists()
    os.close(lock_file(home / "lock", "it is free again"))
