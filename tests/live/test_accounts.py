"""Jobs that run as the accounts of their tokens, on a service that runs as root."""

import json
import os
import pwd
import stat
from dataclasses import replace
from pathlib import Path

import pytest
from live_runs import folder_of_all, until_ended, until_printed
from live_runs import run_of as new_run

from copter.live.accounts import no_accounts
from copter.live.backends import agent
from copter.live.backends.base import BackendError, RunRefusedError
from copter.live.backends.local import LocalBackend
from copter.live.files import JobFile, JobFileError
from copter.live.folder import make_folder
from copter.live.launcher import _begin
from copter.live.tokens import Author, Tokens
from support.live_cases import make_service, token_entry, write_tokens

ALICE, BOB = "nobody", "daemon"  # two accounts that every Linux has


def _there_are_accounts():
    try:
        return os.geteuid() == 0 and all(pwd.getpwnam(name).pw_uid for name in (ALICE, BOB))
    except KeyError:
        return False


as_root = pytest.mark.skipif(not _there_are_accounts(), reason=f"needs root, and the accounts {ALICE}, {BOB}")


@pytest.fixture
def folder():
    """A folder that other accounts can enter; that of pytest is private."""
    with folder_of_all("copter-accounts-") as path:
        yield path


def of_alice(account=ALICE):
    return token_entry("alice", "user", token="a" * 16, account=account)


def run_of(folder, job, script, *, account=ALICE, directory=None, **fields):
    directory = str(directory or folder / "jobs" / job / "work")
    fields = {"devices": ((0,),), "once": True, "account": account, "directory": directory} | fields
    return new_run(folder, "/bin/sh", "-c", script, job=job, write=False, **fields)


def play(backend, run):
    """Start a run as the launcher does; return its last state and its output."""
    assert _begin(backend, run, lambda: True)
    return until_ended(backend, run), (run.folder / "log-0.txt").read_text()


@as_root
def test_a_job_runs_as_the_account_and_can_write_to_its_own_folders_only(folder):
    other = run_of(folder, "of-bob", "echo secret > mine; cat $COPTER_RUN_FILE > /dev/null", account=BOB)
    assert play(LocalBackend(folder), other)[0].outcome == "completed"
    before = run_of(folder, "of-service", "echo secret > mine", account="")
    assert play(LocalBackend(folder), before)[0].outcome == "completed"
    (folder / "jobs" / "older").mkdir(mode=0o755)  # as an earlier version made it
    (folder / "jobs" / "older" / "work").write_text("secret")
    make_folder(folder)
    service = folder / "token"
    service.write_text("of the service")
    service.chmod(0o600)
    jobs = folder / "jobs"
    tries = [  # a file of the service, of another job, of the agent, and the folder of another job
        f"cat {service}",
        f"cat {jobs}/of-bob/work/mine",
        f"cat {jobs}/of-bob/runs/1/run.json",
        f"cat {jobs}/of-bob/runs/1/log-0.txt",
        f"cat {jobs}/of-alice/runs/1/begun-0.json",
        f"echo x > {jobs}/of-alice/runs/1/ended-0.json",
        f"cat {jobs}/of-alice/runs/1/run.json",
        f"echo x > {jobs}/of-alice/runs/1/run.json",
        f"cat {jobs}/of-service/work/mine",
        f"cat {jobs}/of-service/runs/1/log-0.txt",
        f"cat {jobs}/older/work",
        f"mv {jobs}/of-alice/runs {jobs}/of-alice/other",
        f"ls {jobs}",
        f"ls {jobs}/of-bob",
        f"echo x > {jobs}/new",
    ]
    script = "id -un; id -G; echo $HOME $USER; echo x > here; cat $COPTER_RUN_FILE > copy"
    script += "; echo y > ../checkpoints/z; "
    script += " ".join(f"if {each}; then echo possible: '{each}'; fi;" for each in tries)
    state, log = play(LocalBackend(folder), run_of(folder, "of-alice", script + " true"))
    assert state.outcome == "completed", (state, log)
    found = pwd.getpwnam(ALICE)
    groups = " ".join(map(str, sorted(os.getgrouplist(ALICE, found.pw_gid))))
    lines = log.splitlines()
    assert lines[0] == ALICE and " ".join(sorted(lines[1].split(), key=int)) == groups
    assert lines[2] == f"{found.pw_dir} {ALICE}"
    assert "possible" not in log and log.count("denied") >= len(tries)
    work = jobs / "of-alice" / "work"
    assert {path.name for path in work.iterdir()} == {"here", "copy"}
    assert work.stat().st_uid == found.pw_uid and stat.S_IMODE(work.stat().st_mode) == 0o700
    owners = {
        "run.json": 0,
        "ended-0.json": 0,
        "begun-0.json": 0,
        "log-0.txt": found.pw_uid,
        "job.json": found.pw_uid,
    }
    for name, owner in owners.items():
        file = (jobs / "of-alice" / "runs" / "1" / name).stat()
        assert (file.st_uid, stat.S_IMODE(file.st_mode)) == (owner, 0o600), name
    assert json.loads((work / "copy").read_text())["account"] == ALICE


@as_root
@pytest.mark.parametrize("mode", [0o700, 0o755])
def test_a_working_directory_that_the_account_cannot_reach_is_refused(folder, mode):
    private = folder / "private"
    (private / "inside").mkdir(parents=True)
    (private / "inside" / "file").write_text("secret")
    private.chmod(0o700)
    (private / "inside").chmod(mode)
    run = run_of(folder, "job", "cat file", directory=private / "inside")
    state, log = play(LocalBackend(folder), run)
    assert state.outcome == "failed" and "cannot be started" in state.reason and "denied" in state.reason
    assert "secret" not in log


@as_root
def test_a_run_is_killed_with_the_processes_of_the_account(folder):
    backend = LocalBackend(folder)
    run = run_of(folder, "job", "(trap '' TERM; echo $$; sleep 600) & setsid sleep 600 & echo ready; wait")
    assert _begin(backend, run, lambda: True)
    until_printed(run, "ready")
    number = backend._agent(run, 0)
    there = agent.part_processes(str(run.folder), 0, number)
    user = pwd.getpwnam(ALICE).pw_uid
    assert len(there) >= 3 and {Path(f"/proc/{pid}").stat().st_uid for pid in there} == {user}
    backend.kill(run)
    until_ended(backend, run)
    assert not agent.part_processes(str(run.folder), 0)


@as_root
def test_what_the_processes_can_write_does_not_change_what_a_later_agent_does(folder):
    """Two nodes: the first agent has started the job when the second one reads its file."""
    change = """printf '{"account": "", "command": ["/usr/bin/id", "-u"]}' > $COPTER_RUN_FILE; id -u"""
    run = replace(run_of(folder, "job", change), hosts=("a100-0", "a100-1"), gpus=(1, 1), once=False)
    run = replace(run, devices=((0,), (0,)))
    state, log = play(LocalBackend(folder), run)
    user = str(pwd.getpwnam(ALICE).pw_uid)
    assert state.outcome == "completed" and log.split() == [user]
    assert (run.folder / "log-1.txt").read_text().split() == [user]


@as_root
def test_a_job_can_open_its_output_by_name(folder):
    state, log = play(
        LocalBackend(folder), run_of(folder, "job", "echo one >> /dev/stdout; echo two >> /dev/stderr")
    )
    assert state.outcome == "completed" and log.split() == ["one", "two"]


@as_root
def test_a_process_of_an_account_is_no_agent_of_another_run(folder):
    backend = LocalBackend(folder)
    run = run_of(folder, "of-bob", "true", account=BOB)
    agent_of = f"/bin/sh -c 'sleep 600; :' x {agent.__file__} {run.folder} 0"
    liar = run_of(folder, "of-alice", f"{agent_of} & echo ready; wait")
    assert _begin(backend, liar, lambda: True)
    until_printed(liar, "ready")
    try:
        assert play(backend, run)[0].outcome == "completed"
        assert LocalBackend(folder).states([run])[run.id].outcome == "completed"
    finally:
        backend.kill(liar)


@as_root
def test_an_account_that_has_gone_cannot_start(folder):
    with pytest.raises(BackendError, match="'no-such-account': does not exist"):
        _begin(LocalBackend(folder), run_of(folder, "job", "true", account="no-such-account"), lambda: True)


@as_root
def test_a_run_of_an_account_is_refused_where_there_are_none(folder):
    backend = LocalBackend(folder)
    backend.has_accounts = False
    with pytest.raises(RunRefusedError, match=f"account '{ALICE}': the backend 'local' cannot"):
        _begin(backend, run_of(folder, "job", "true"), lambda: True)


@as_root
def test_the_account_of_a_token_is_that_of_its_jobs_also_after_a_restart(folder):
    tokens = write_tokens(folder / "tokens.toml", of_alice(), token_entry("bob", "admin", token="b" * 16))
    (folder / "service").mkdir(mode=0o711)
    service = make_service(folder / "service", tokens=tokens, backend=LocalBackend(folder / "service"))
    for name, author in (("hers", Author("alice", "user", ALICE)), ("his", Author("bob", "admin"))):
        service.admission.submit(JobFile(command=("true",), name=name), author)
    assert [(job.name, job.account) for job in service.record.state.jobs.values()] == [
        ("hers", ALICE),
        ("his", ""),
    ]
    service.close()
    service = make_service(folder / "service", tokens=None, backend=LocalBackend(folder / "service"))
    assert [job.account for job in service.record.state.jobs.values()] == [ALICE, ""]
    service.close()
    jobs = folder / "service" / "jobs"
    jobs.mkdir(exist_ok=True)
    jobs.chmod(0o755)
    make_service(folder / "service", backend=LocalBackend(folder / "service")).close()
    assert stat.S_IMODE(jobs.stat().st_mode) == 0o711  # not 0700: running jobs still enter it


@pytest.mark.parametrize(
    ("account", "why"), [(ALICE, "the service does not run as root"), ("no-such-account", "does not exist")]
)
def test_accounts_that_cannot_be_used_are_refused_with_the_token(tmp_path, account, why):
    path = write_tokens(tmp_path / "tokens.toml", of_alice(account))
    reason = why if account == ALICE else ""
    with pytest.raises(JobFileError, match=f"'alice': account = '{account}': .*{why}"):
        Tokens("generated", path, lambda: reason)


def test_what_prevents_accounts(folder, monkeypatch):
    backend = LocalBackend(folder)
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    assert no_accounts(backend, folder) == "the service does not run as root"
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    assert no_accounts(backend, folder) == ""
    (folder / "private").mkdir(mode=0o700)
    assert no_accounts(backend, folder / "private").endswith(f"chmod o+x {folder / 'private'}")
    (folder / "shared").mkdir()
    (folder / "shared").chmod(0o775)
    (folder / "shared" / "service").mkdir()
    for mode, fine in ((0o775, False), (0o777, False), (0o755, True), (0o1777, True)):
        (folder / "shared").chmod(mode)
        assert ("can replace" not in no_accounts(backend, folder / "shared" / "service")) is fine
    backend.has_accounts = False
    assert no_accounts(backend, folder) == "the backend 'local' cannot run jobs as other accounts"
