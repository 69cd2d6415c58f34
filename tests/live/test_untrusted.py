"""What a job writes into the folder of its run is an error of that run, whatever it is, and of no other."""

import json
import os
import pwd
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
from pathlib import Path

import pytest
from live_runs import run_of, until, until_ended

from copter.live.backends import agent
from copter.live.backends.base import PASSED_ON, BackendSettingError, claim
from copter.live.backends.local import LocalBackend
from copter.live.backends.registry import make_backend
from copter.live.events import Closed
from copter.live.files import ClusterFile
from copter.live.folder import make_folder
from copter.live.journal import LiveJournal
from copter.live.untrusted import (
    MOST_RECORD_BYTES,
    MOST_WORDS,
    SharedFolderError,
    UntrustedFileError,
    open_to_append,
    read_bytes,
    read_record,
    words,
)
from support.live_cases import ELASTIC, RIGID, begin, events, look, make_service, named, report, step
from support.memory_backend import MemoryBackend
from support.training_runs import alive


def a_fifo(path):
    os.mkfifo(path)


def a_socket(path):
    here = os.getcwd()
    os.chdir(path.parent)  # a socket's path is short
    try:
        with socket.socket(socket.AF_UNIX) as made:
            made.bind(path.name)
    finally:
        os.chdir(here)


def a_link(path):
    target = path.with_name("elsewhere")
    target.write_text('{"code": 0, "reason": ""}')
    path.symlink_to(target)


def a_device(path):
    path.symlink_to("/dev/zero")


NO_FILES = {"fifo": a_fifo, "socket": a_socket, "folder": os.mkdir, "link": a_link, "device": a_device}
NO_RECORDS = {
    "no text": b"\xff\xfe",
    "deep": b"[" * 60_000,
    "deep objects": b'{"a":' * 10_000,
    "huge": b" " * (MOST_RECORD_BYTES + 1),
    "a list": b"[1]",
    "a number": b"1",
    "empty": b"",
    "half": b'{"code": 0',
    "no code": b"{}",
    "a list as code": b'{"code": [1], "reason": ""}',
    "true": b'{"code": false, "reason": ""}',
    "nan": b'{"code": NaN, "reason": ""}',
    "infinite": b'{"code": -Infinity, "reason": ""}',
    "a fraction": b'{"code": 0.0, "reason": ""}',
    "digits": b'{"code": ' + b"9" * 10_000 + b"}",
    "reason": b'{"code": 1, "reason": {"a": 1}}',
    "zeros": b"\0" * 100,
    "negative": b'{"code": -5}',
    "large": b'{"code": 1000000000000000000000}',
}


def sparse(path):
    with path.open("wb") as file:
        file.truncate(2**40)


def writes(content):
    return lambda path: path.write_bytes(content)


BAD = NO_FILES | {name: writes(content) for name, content in NO_RECORDS.items()} | {"sparse": sparse}


@pytest.mark.parametrize("what", BAD)
def test_a_record_that_is_none_is_an_error_of_its_run_alone(what, tmp_path):
    backend = LocalBackend(tmp_path)
    bad, good = run_of(tmp_path, "true"), run_of(tmp_path, "true", job="other")
    for run in (bad, good):
        claim(run.folder, 0)
    BAD[what](bad.folder / "ended-0.json")
    (good.folder / "ended-0.json").write_text('{"code": 0, "reason": ""}')
    states = backend.states([bad, good])
    assert states[good.id].outcome == "completed"
    words = "exit code" if what in ("negative", "large") else "ended-0.json"
    assert states[bad.id].outcome == "failed" and words in states[bad.id].reason
    assert states[bad.id].reason.isprintable() and len(states[bad.id].reason) < 2 * MOST_WORDS


@pytest.mark.parametrize("what", NO_FILES)
def test_whatever_is_in_the_place_of_a_file_nothing_is_waited_for(what, tmp_path, name="begun-0.json"):
    backend = LocalBackend(tmp_path)
    bad, good = run_of(tmp_path, "true"), run_of(tmp_path, "true", job="other")
    claim(good.folder, 0)
    NO_FILES[what](bad.folder / name)
    (good.folder / "ended-0.json").write_text('{"code": 75, "reason": ""}')
    states = backend.states([bad, good])
    assert states[bad.id].outcome == "failed" and name in states[bad.id].reason
    assert states[good.id].outcome == "stopped"
    backend.kill(bad)


def a_file_instead(folder):
    folder.rename(folder.with_name("away"))
    folder.touch()


def a_link_instead(folder):
    folder.rename(folder.with_name("away"))
    folder.symlink_to("away")


@pytest.mark.parametrize("spoil", [a_file_instead, a_link_instead])
@pytest.mark.parametrize("level", [0, 1])
def test_a_folder_that_is_none_any_more_is_an_error_of_its_run_alone(spoil, level, tmp_path):
    backend = LocalBackend(tmp_path)
    bad, good = run_of(tmp_path, "true"), run_of(tmp_path, "true", job="other")
    claim(good.folder, 0)
    spoil([bad.folder, bad.folder.parent][level])
    (good.folder / "ended-0.json").write_text('{"code": 0, "reason": ""}')
    states = backend.states([bad, good])
    assert states[good.id].outcome == "completed"
    assert states[bad.id].outcome == "failed" and states[bad.id].reason
    backend.kill(bad)


@pytest.mark.parametrize("spoil", ["ended", "begun", "folder"])
@pytest.mark.parametrize("restarted", [False, True], ids=["same service", "service started again"])
def test_a_run_that_spoils_its_folder_is_ended_with_its_processes(spoil, restarted, tmp_path):
    script = {
        "ended": "printf '\\377' > $D/ended-0.json",
        "begun": "echo '{\"pid\": 1}' > $D/begun-0.json; echo [] > $D/ended-0.json",
        "folder": "cd /; rm -rf $D; touch $D",
    }[spoil]
    command = f"D=$(dirname $COPTER_RUN_FILE); {script}; echo $$ > {tmp_path}/pid; exec sleep 600"
    backend, run = LocalBackend(tmp_path), run_of(tmp_path, "sh", "-c", command)
    backend.start(run)
    while not (tmp_path / "pid").exists() or not (tmp_path / "pid").read_text().strip():
        backend.down()
    pid = int((tmp_path / "pid").read_text())
    if restarted:
        child = backend._children[run.id, 0]
        backend = LocalBackend(tmp_path)
    assert until_ended(backend, run).outcome == "failed"
    if restarted:
        child.wait(30)
    until(backend, run, lambda _: not alive(pid))


def test_a_run_that_says_that_it_ended_holds_its_gpus_until_its_agent_ends(tmp_path, monkeypatch):
    say = 'echo \'{"code": 0, "reason": ""}\' > $D/lie; mv $D/lie $D/ended-0.json'  # never half of a file
    lie = f"D=$(dirname $COPTER_RUN_FILE); {say}; sleep 600"
    backend, run = LocalBackend(tmp_path), run_of(tmp_path, "sh", "-c", lie)
    backend.start(run)
    while not (run.folder / "ended-0.json").exists():
        assert backend.states([run])[run.id].outcome is None
    assert backend.states([run])[run.id].outcome is None
    monkeypatch.setattr("copter.live.backends.local.LATE_SECONDS", 0.0)
    state = until_ended(backend, run)
    assert state.outcome == "failed" and "the agent still runs" in state.reason


def test_no_process_of_others_is_signalled_by_what_a_run_says(tmp_path):
    backend, run = LocalBackend(tmp_path), run_of(tmp_path, "true")
    other = subprocess.Popen(["sleep", "600"], start_new_session=True)
    try:
        (run.folder / "begun-0.json").write_text(json.dumps(agent.identity() | {"pid": other.pid}))
        backend.stop(run)
        backend.kill(run)
        assert backend.states([run])[run.id].outcome == "lost"
        assert other.poll() is None
    finally:
        os.killpg(other.pid, signal.SIGKILL)
        other.wait()


def test_a_fifo_in_the_place_of_what_the_service_appends_to_is_no_wait(tmp_path):
    run = run_of(tmp_path, "true")
    os.mkfifo(run.folder / "agent-0.txt")
    with pytest.raises(UntrustedFileError, match="agent-0.txt"):
        LocalBackend(tmp_path).start(run)
    with pytest.raises(UntrustedFileError, match="a folder|is a directory"):
        open_to_append(run.folder)


def test_what_is_read_is_bounded(tmp_path):
    sparse(tmp_path / "large")
    assert read_bytes(tmp_path / "large", 1000, begin=2**39) == b"\0" * 1000
    with pytest.raises(UntrustedFileError, match=f"at most {MOST_RECORD_BYTES} bytes"):
        read_record(tmp_path / "large")
    assert read_record(tmp_path / "none") is None


def test_words_of_jobs_are_one_printable_line():
    assert words("a\x1b[2J\nb\r\x07é") == "a\\x1b[2J\\nb\\r\\x07é"
    assert len(words("x" * 10**6)) == MOST_WORDS + 3


# ---- the service ----------------------------------------------------------------------------------


@pytest.mark.parametrize("what", NO_FILES)
def test_a_log_that_is_no_file_is_refused_at_once(service, http, what):
    begin(service, RIGID, "one")
    folder = service.folder / "jobs" / "one" / "runs" / "1"
    NO_FILES[what](folder / "log-0.txt")
    answer = http.get("/v1/jobs/one/log")
    assert answer.status_code == 409 and "log-0.txt" in answer.json()["error"]
    (folder / "log-0.txt").rename(folder / "away")
    sparse(folder / "log-0.txt")
    assert len(http.get("/v1/jobs/one/log", params={"after": 2**39}).content) == 1024 * 1024
    NO_FILES[what](folder / "ended-0.json")
    assert http.get("/v1/jobs/one/log", params={"after": 2**39}).status_code == 409


def test_logs_are_read_in_a_thread_of_their_own(service, http, monkeypatch):
    begin(service, RIGID, "one")
    threads, job = {}, service.record.state.jobs["one"]

    def note(what, answer):
        threads[what] = threading.current_thread()
        return answer

    monkeypatch.setattr("copter.live.http.read_log", lambda *_: note("log", (0, "", 0, False)))
    monkeypatch.setattr(service.record.state, "find", lambda _: note("loop", job))
    assert http.get("/v1/jobs/one/log").status_code == 200
    assert threads["log"] is not threads["loop"]


class Spoilt(MemoryBackend):
    """A backend that finds the folder of some runs spoilt when it is to start, stop or kill them."""

    spoilt = ()

    def _check(self, run, what):
        if (run.job, what) in self.spoilt:
            raise UntrustedFileError(f"{run.number}: its folder is none")

    def start(self, run):
        self._check(run, "start")
        super().start(run)

    def stop(self, run):
        self._check(run, "stop")
        super().stop(run)


def test_a_run_that_cannot_be_started_or_stopped_fails_and_others_go_on(tmp_path):
    backend = Spoilt()
    backend.spoilt = [("bad", "start")]
    service = make_service(tmp_path / "live", backend)
    service.admission.submit(named(RIGID, "bad", retries=0))
    begin(service, RIGID, "good", preemptible=True)
    assert [run.job for run in backend.started] == ["good"] and not service.trouble
    (closed,) = events(service, Closed)
    assert closed.job == "bad" and closed.ending == "failed" and "its folder is none" in closed.reason
    backend.spoilt = [("good", "stop")]
    ((node, _),) = service.record.state.jobs["good"].run.place[1]
    service.admission.drain(service.record.state.jobs["good"].run.place[0], node)
    step(service)
    step(service)
    assert "good.1" in backend.killed and not service.trouble
    ended = [event for _, event in service.record.journal.events(kind="Ended", job="good")]
    assert ended[0].outcome == "failed" and "its folder is none" in ended[0].reason


def test_a_run_does_not_begin_in_a_folder_that_is_there(service):
    service.admission.submit(named(RIGID, "one", retries=0))
    folder = service.folder / "jobs" / "one" / "runs" / "1"
    folder.mkdir(parents=True)
    (folder / "ended-0.json").write_text('{"code": 0, "reason": ""}')
    step(service)
    assert not service.backend.started
    (closed,) = events(service, Closed)
    assert closed.ending == "failed" and "runs/1: " in closed.reason
    look(service)
    assert not service.trouble


@pytest.mark.parametrize("mode", [0o755, 0o2775, 0o1777, 0o700])
def test_a_folder_that_is_there_keeps_its_mode_and_what_is_in_it(tmp_path, mode):
    folder = tmp_path / "shared"
    folder.mkdir()
    (folder / "colleague.txt").write_text("x")
    (folder / "colleague.txt").chmod(0o664)
    folder.chmod(mode)
    service = make_service(folder)
    begin(service, RIGID, "one")
    service.close()
    assert folder.stat().st_mode & 0o7777 == mode
    assert (folder / "colleague.txt").stat().st_mode & 0o777 == 0o664
    own = {path.name: path.stat().st_mode & 0o077 for path in folder.iterdir()}
    del own["colleague.txt"]
    assert {"token", "journal.sqlite", "jobs", "lock"} <= own.keys()
    assert not any(own.values()), own


def test_a_new_folder_is_private_and_what_is_not_the_services_is_refused(tmp_path):
    make_folder(tmp_path / "a" / "new")
    assert (tmp_path / "a" / "new").stat().st_mode & 0o777 == 0o700
    (tmp_path / "token").symlink_to(tmp_path / "a")
    with pytest.raises(Exception, match="token: must not be a link"):
        make_folder(tmp_path)
    (tmp_path / "file").touch()
    with pytest.raises(Exception, match="must be a folder, not a file"):
        make_folder(tmp_path / "file")


def test_what_was_acknowledged_is_written_before_a_busy_policy_is_waited_for(tmp_path):
    service = make_service(tmp_path / "live")
    begin(service, ELASTIC, "one")
    service.admission.report("one", 1, report(7.0))
    go, written = threading.Event(), []
    threading.Thread(target=go.wait, name="policy", daemon=True).start()

    def look_at_the_file():
        journal = LiveJournal(tmp_path / "live" / "journal.sqlite", read_only=True)
        written.extend(journal.events(kind="Reported"))
        journal.close()
        go.set()

    close = service.record.journal.close
    service.record.journal.close = lambda: (close(), look_at_the_file())
    service.close()
    assert len(written) == 1


# ---- environment ----------------------------------------------------------------------------------


def environment_seen(tmp_path, backend):
    run = run_of(tmp_path, sys.executable, "-c", "import json, os; print(json.dumps(dict(os.environ)))")
    backend.start(run)
    assert until_ended(backend, run).outcome == "completed"
    return json.loads((run.folder / "log-0.txt").read_text())


def test_jobs_get_the_variables_that_are_listed_and_no_others(tmp_path, monkeypatch):
    for name in (
        "AWS_SECRET_ACCESS_KEY",
        "COPTER_TOKEN",
        "COPTER_SERVICE",
        "ANYTHING",
        "CUDA_VISIBLE_DEVICES",
    ):
        monkeypatch.setenv(name, "secret")
    monkeypatch.setenv("TZ", "UTC")
    monkeypatch.setenv("NCCL_DEBUG", "INFO")
    seen = environment_seen(tmp_path, LocalBackend(tmp_path, environment=["NCCL_DEBUG"]))
    own = {name for name in seen if name.startswith("COPTER_")}
    assert own == {"COPTER_RUN_FILE", "COPTER_RANK", "COPTER_RANKS", "COPTER_LOCAL_RANK", "COPTER_NODE"}
    assert seen.keys() - own - {"LC_CTYPE"} <= {*PASSED_ON, "NCCL_DEBUG"}  # Python itself may set LC_CTYPE
    assert seen["TZ"] == "UTC" and seen["NCCL_DEBUG"] == "INFO" and "PATH" in seen


@pytest.mark.parametrize("wrong", ["PATH", ["COPTER_TOKEN"], ["A=B"], [1], [""]])
def test_a_list_of_variables_that_is_none_is_named(wrong, tmp_path):
    gpus = ({"type": "a100", "gpus_per_node": 1},)
    with pytest.raises(BackendSettingError, match="options: environment"):
        make_backend("local", tmp_path, ClusterFile(gpus=gpus, options={"environment": wrong}))


@pytest.fixture
def folder_of_nobody():
    """Return a folder of a user who is not root, as whom the test runs."""
    if os.geteuid() != 0:
        pytest.skip("needs root, to be another user")
    folder = Path(tempfile.mkdtemp(prefix="copter-"))
    shutil.chown(folder, "nobody")
    os.seteuid(pwd.getpwnam("nobody").pw_uid)
    yield folder
    os.seteuid(0)
    shutil.rmtree(folder)


@pytest.mark.parametrize("mode", [0o000, 0o400, 0o100])
def test_a_folder_of_all_jobs_that_cannot_be_entered_is_no_fault_of_a_job(folder_of_nobody, mode):
    # a policy without kernels, because nobody may write no cache of kernels
    service = make_service(folder_of_nobody / "live", policy="fcfs")
    begin(service, RIGID, "runs")
    service.admission.submit(named(RIGID, "waits", retries=0))
    jobs = service.folder / "jobs"
    path = jobs / "runs" / "runs" / "1" / "run.json"
    assert read_record(path)["number"] == 1
    jobs.chmod(mode)
    with pytest.raises(SharedFolderError, match="jobs: permission denied"):
        read_record(path)
    step(service)
    assert "jobs: permission denied" in service.trouble
    assert [run.job for run in service.backend.started] == ["runs"] and set(service.record.state.jobs) == {
        "runs",
        "waits",
    }
    jobs.chmod(0o700)
    step(service)
    assert service.trouble == "" and [run.job for run in service.backend.started] == ["runs", "waits"]
