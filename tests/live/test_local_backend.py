"""Runs as processes of this machine: real ones, that end well, badly, when told, and by force."""

import errno
import json
import os
import shutil
import signal
import stat
import sys
import time

import pytest
from backend_contract import EveryBackend
from live_runs import Runs, run_of, state, until, until_ended, until_printed

from copter.live.backends import agent
from copter.live.backends.agent import cut_log
from copter.live.backends.base import RunState, begun, claim
from copter.live.backends.local import LocalBackend
from support.training_runs import alive

pytestmark = pytest.mark.cluster


@pytest.fixture
def backend(tmp_path):
    return LocalBackend(tmp_path)


@pytest.fixture
def again(tmp_path):
    return lambda: LocalBackend(tmp_path)


@pytest.fixture
def runs(tmp_path):
    return Runs(tmp_path)


@pytest.fixture
def nodes():
    return "t4-0", "t4-1"


class TestLocal(EveryBackend):
    pass


def test_processes_know_who_they_are(backend, tmp_path):
    say = (
        'echo $COPTER_RANK of $COPTER_RANKS, $COPTER_LOCAL_RANK on $COPTER_NODE, $CUDA_VISIBLE_DEVICES "$WHO"'
    )
    run = run_of(
        tmp_path, "sh", "-c", say, gpus=(2, 1), devices=((0, 3), (1,)), environment={"WHO": "$(id) `id` \n"}
    )
    backend.start(run)
    assert until_ended(backend, run) == RunState("completed", exit_code=0)
    lines = [(run.folder / f"log-{node}.txt").read_text() for node in (0, 1)]
    assert "0 of 3, 0 on 0, 0 $(id) `id`" in lines[0] and "1 of 3, 1 on 0, 3 $(id)" in lines[0]
    assert lines[1].startswith("2 of 3, 0 on 1, 1 $(id)")


def test_gpus_are_counted_in_the_list_of_the_service(backend, tmp_path, monkeypatch):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "6,GPU-7f,2")
    say = ("sh", "-c", "echo $CUDA_VISIBLE_DEVICES")
    for number, devices, gpus, once in ((1, ((1, 2),), (2,), True), (2, ((0, 2),), (2,), False)):
        run = run_of(tmp_path, *say, number=number, gpus=gpus, devices=devices, once=once)
        backend.start(run)
        assert until_ended(backend, run) == RunState("completed", exit_code=0)
    runs = tmp_path / "jobs" / "job" / "runs"
    assert (runs / "1" / "log-0.txt").read_text() == "GPU-7f,2\n"
    assert sorted((runs / "2" / "log-0.txt").read_text().split()) == ["2", "6"]


@pytest.mark.parametrize(
    ("script", "outcome", "words"),
    [
        ("exit 7", "failed", "exit code 7"),
        ("kill -9 $$", "failed", "SIGKILL"),
        ("kill -40 $$", "failed", "signal 40"),
        ("exit 75", "stopped", "exit code 75 without a stop signal"),
        (None, "failed", "/nowhere/program"),
    ],
)
def test_how_a_run_ended(backend, tmp_path, script, outcome, words):
    run = run_of(tmp_path, *(("/nowhere/program",) if script is None else ("sh", "-c", script)))
    backend.start(run)
    ended = until_ended(backend, run)
    assert ended.outcome == outcome and words in ended.reason


def test_a_run_that_was_killed_before_it_began_never_begins(backend, tmp_path):
    run = run_of(tmp_path, "sh", "-c", "echo began")
    backend.kill(run)
    backend.start(run)
    assert until_ended(backend, run).outcome == "lost"
    assert not (run.folder / "log-0.txt").exists()


def test_a_run_is_never_started_twice(backend, tmp_path):
    run = run_of(tmp_path, "sh", "-c", "echo began")
    backend.start(run)
    assert until_ended(backend, run).outcome == "completed"
    backend.start(run)
    time.sleep(0.3)
    assert (run.folder / "log-0.txt").read_text() == "began\n"
    assert not claim(run.folder, 0)


def test_the_end_of_a_run_is_written_when_the_disk_has_room(tmp_path, monkeypatch):
    usual, refused = agent.write, [errno.ENOSPC, errno.EDQUOT, errno.ENOSPC]

    def write(path, content):
        if refused:
            raise OSError(refused.pop(), "no room")
        usual(path, content)

    monkeypatch.setattr(agent, "write", write)
    monkeypatch.setattr(agent, "_AGAIN_SECONDS", 0.0)
    agent.write_when_possible(str(tmp_path / "ended-0.json"), {"code": 0})
    assert json.loads((tmp_path / "ended-0.json").read_text()) == {"code": 0} and not refused
    with pytest.raises(FileNotFoundError):  # the folder is gone
        agent.write_when_possible(str(tmp_path / "gone" / "ended-0.json"), {"code": 0})


def test_runs_continue_if_the_next_service_has_the_agent_elsewhere(backend, tmp_path, monkeypatch):
    run = run_of(tmp_path, "sleep", "600")
    backend.start(run)
    until(backend, run, lambda now: begun(run.folder, 0))
    copy = tmp_path / "other" / "agent.py"
    copy.parent.mkdir()
    shutil.copyfile(agent.__file__, copy)
    monkeypatch.setattr(agent, "__file__", str(copy))
    later = LocalBackend(tmp_path)
    assert state(later, run) == RunState()
    later.kill(run)
    assert until_ended(later, run).outcome == "lost"


def test_a_run_that_no_agent_began_is_lost(backend, tmp_path):
    never = run_of(tmp_path, "true")
    assert state(backend, never) == RunState("lost", "it was ended before it began")
    backend.start(never)
    assert until_ended(backend, never).outcome == "lost"


def test_what_a_command_leaves_behind_ends_with_it(backend, tmp_path):
    """A shell does not hand signals on, and what runs in its background outlives it."""
    words = "echo $$; sleep 600 & echo $!; (sleep 600; true) & echo $!; wait; true"
    told = run_of(tmp_path, "bash", "-c", words, once=True)
    backend.start(told)
    until_printed(told, "\n")
    until(backend, told, lambda _: len((told.folder / "log-0.txt").read_text().split()) == 3)
    numbers = [int(one) for one in (told.folder / "log-0.txt").read_text().split()]
    assert all(map(alive, numbers))
    backend.stop(told)
    assert until_ended(backend, told).outcome in ("stopped", "failed", "completed")
    assert not any(map(alive, numbers))

    by_itself = run_of(tmp_path, "bash", "-c", "setsid sleep 600 & echo $!", once=True, number=2)
    backend.start(by_itself)
    assert until_ended(backend, by_itself).outcome == "completed"
    assert not alive(int((by_itself.folder / "log-0.txt").read_text()))


def test_workers_of_a_job_that_trains_are_told_by_it_alone(backend, tmp_path):
    script = """
import signal, subprocess, sys
worker = subprocess.Popen(["sleep", "60"])
def stop(*_):
    print("worker", worker.poll(), flush=True)
    sys.exit(75)
signal.signal(signal.SIGTERM, stop)
print("ready", flush=True)
signal.pause()
"""
    run = run_of(tmp_path, sys.executable, "-c", script)
    backend.start(run)
    until_printed(run, "ready")
    backend.stop(run)
    assert until_ended(backend, run).outcome == "stopped"
    assert "worker None" in (run.folder / "log-0.txt").read_text()


ESCAPING = """
import os, sys, time
def child(environment):
    if os.fork() == 0:
        os.setsid()
        if os.fork():
            os._exit(0)
        os.execve("/bin/sleep", ["sleep", "600"], environment)
child(dict(os.environ))
if "cleared" in sys.argv:
    child({})
print("begun", flush=True)
time.sleep(600)
"""
"""A process with orphans in sessions of their own, one of them without an environment if `cleared`."""


def sleepers(run):
    """The agent of a run, and its children: the process that it started, and orphans."""
    agent = (begun(run.folder, 0) or {})["pid"]
    found = {}
    for name in filter(str.isdecimal, os.listdir("/proc")):
        try:
            with open(f"/proc/{name}/stat") as file:
                found[int(name)] = int(file.read().rpartition(")")[2].split()[1])
        except OSError:
            continue
    return agent, [pid for pid, parent in found.items() if parent == agent]


def with_orphans(backend, run, count):
    """Start a run that leaves orphans behind, and wait until its agent is their parent."""
    backend.start(run)
    until_printed(run, "begun")
    until(backend, run, lambda _: len(sleepers(run)[1]) >= count)
    agent, orphans = sleepers(run)
    assert all(os.getsid(pid) != os.getsid(agent) for pid in orphans[1:])
    return agent, orphans


def test_kill_ends_orphans_in_other_sessions_with_and_without_their_environment(backend, tmp_path):
    run = run_of(tmp_path, sys.executable, "-S", "-c", ESCAPING, "cleared", once=True)
    agent, orphans = with_orphans(backend, run, 3)
    backend.kill(run)
    assert not any(alive(pid) for pid in orphans)
    assert until_ended(backend, run).outcome == "lost"
    assert not alive(agent)


@pytest.mark.parametrize("restarted", [False, True])
def test_a_run_whose_agent_was_killed_ends_when_its_processes_have_ended(backend, tmp_path, restarted):
    run = run_of(tmp_path, sys.executable, "-S", "-c", ESCAPING, once=True)
    agent, orphans = with_orphans(backend, run, 2)
    os.kill(agent, signal.SIGKILL)
    while alive(agent):
        time.sleep(0.02)
    assert any(alive(pid) for pid in orphans)
    now = until_ended(LocalBackend(tmp_path) if restarted else backend, run)
    assert now == RunState("lost", "its agent was killed", by_itself=True)
    assert not any(alive(pid) for pid in orphans)


def test_a_run_does_not_end_while_a_process_of_it_is_left(backend, tmp_path, monkeypatch):
    run = run_of(tmp_path, sys.executable, "-S", "-c", ESCAPING, once=True)
    agent, orphans = with_orphans(backend, run, 2)
    send, immortal = os.kill, set(orphans)
    send(agent, signal.SIGKILL)
    monkeypatch.setattr(os, "kill", lambda pid, number: None if pid in immortal else send(pid, number))
    for _ in range(3):
        backend.kill(run)
        assert state(backend, run).outcome is None
    immortal.clear()
    assert until_ended(backend, run).outcome == "lost"
    assert not any(alive(pid) for pid in orphans)


def test_parts_of_one_run_on_a_machine_end_apart(backend, tmp_path):
    """The end of one part kills its own processes only."""
    run = run_of(tmp_path, "sh", "-c", "test $COPTER_NODE = 1 || exit 0; sleep 1; echo done", gpus=(1, 1))
    backend.start(run)
    assert until_ended(backend, run) == RunState("completed", exit_code=0)
    assert (run.folder / "log-1.txt").read_text() == "done\n"


FLOOD = """
import os, sys, time
for number in range(200):
    os.write(1, b"".join(b"line %d of %d\\n" % (number, k) for k in range(100)))
    time.sleep(0.01)
time.sleep(float(sys.argv[1]))
"""


@pytest.mark.parametrize("seconds", [0.0, 600.0], ids=["ends", "goes on"])
def test_a_log_that_takes_too_much_is_cut(backend, tmp_path, seconds):
    command = (sys.executable, "-S", "-c", FLOOD, str(seconds))
    run = run_of(tmp_path, *command, log_bytes=40_000)
    backend.start(run)
    until_printed(run, "line 199 of 99\n")
    if seconds:
        until(backend, run, lambda _: (run.folder / "log-0.txt").stat().st_size <= 41_000)  # the next check
        backend.kill(run)
    assert until_ended(backend, run).outcome == ("lost" if seconds else "completed")
    log = (run.folder / "log-0.txt").read_text()
    notes = [line for line in log.splitlines() if not line.startswith("line ")]
    assert notes and len(log) < 41_000  # a line that is written during a cut may come before the note
    assert all(note.startswith("copter: the log took more than 40000 bytes; ") for note in notes)
    assert "line 199 of 99\n" in log


def test_holes_of_a_log_do_not_count(tmp_path):
    with open(tmp_path / "log", "a+b", buffering=0) as log:
        os.truncate(log.fileno(), 2**40)
        log.write(b"one\ntwo\n")
        cut_log(log.fileno(), 100_000)
        assert os.fstat(log.fileno()).st_size == 2**40 + 8
        os.truncate(log.fileno(), 0)
        log.write(b"x" * 99_999 + b"\nlast\n")
        cut_log(log.fileno(), 100_000)
        log.write(b"more\n")
    said, *lines = (tmp_path / "log").read_text().splitlines()
    assert said == "copter: the log took more than 100000 bytes; 100000 bytes were dropped"
    assert lines == ["last", "more"]


def test_folders_that_a_restored_service_lacks_are_its_own(tmp_path):
    folder = tmp_path / "jobs" / "one" / "runs" / "1"
    assert claim(folder, 0)
    for private in (tmp_path / "jobs", tmp_path / "jobs" / "one"):
        assert stat.S_IMODE(private.stat().st_mode) == 0o700
