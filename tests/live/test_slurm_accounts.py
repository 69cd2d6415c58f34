"""Slurm jobs of the accounts of tokens, with scripts in place of Slurm's commands."""

import os
import pwd
import shutil
import stat

import pytest
from live_runs import folder_of_all
from live_runs import run_of as new_run

from copter.live.accounts import open_for
from copter.live.backends.slurm import SlurmBackend
from copter.live.launcher import _begin

ALICE, BOB = "nobody", "daemon"  # two accounts that every Linux has
PYTHON = shutil.which("python3", path="/usr/bin:/bin")
SBATCH = """\
#!/bin/sh
for word in "$@"; do
    case "$word" in
    --uid=*) user=${word#*=} ;; --gid=*) group=${word#*=} ;; --chdir=*) cd "${word#*=}" ;;
    esac
done
echo "$@" >> BASE/asked
SLURMD_NODENAME=n1 setpriv --reuid=$user --regid=$group --clear-groups sh -s
echo 7
"""
SQUEUE = """\
#!/bin/sh
echo "$@" >> BASE/asked
for last; do :; done
mark=${last#--format=}
sed "s/^MARK|/${mark%%|*}|/" BASE/state
"""
SRUN = '#!/bin/sh\nwhile [ "${1#--}" != "$1" ]; do shift; done\nexec "$@"\n'


def _can_play():
    try:
        there = all(pwd.getpwnam(name).pw_uid for name in (ALICE, BOB))
    except KeyError:
        return False
    return there and os.geteuid() == 0 and PYTHON is not None and shutil.which("setpriv") is not None


pytestmark = pytest.mark.skipif(
    not _can_play(), reason=f"needs root, setpriv, a Python of the system, and the accounts {ALICE}, {BOB}"
)


@pytest.fixture
def folder(monkeypatch):
    """A folder that other accounts can enter, with commands in place of Slurm's."""
    with folder_of_all("copter-slurm-accounts-") as path:
        write_commands(path)
        monkeypatch.setenv("PATH", str(path), prepend=":")
        yield path


def write_commands(path):
    commands = {"sbatch": SBATCH.replace("BASE", str(path)), "srun": SRUN}
    commands["squeue"] = SQUEUE.replace("BASE", str(path))
    for name in ("sbatch", "srun", "squeue", "scancel", "sacct"):
        default = f'#!/bin/sh\necho {name} "$@" >> {path}/asked\n'
        (path / name).write_text(commands.get(name, default))
        (path / name).chmod(0o755)
    (path / "state").touch()


def run_of(folder, script, *, account=ALICE, gpus=(1,), job="job"):
    hosts, work = tuple(f"n{node + 1}" for node in range(len(gpus))), str(folder / "jobs" / job / "work")
    fields = {"directory": work, "hosts": hosts, "once": True, "account": account, "write": False}
    return new_run(folder, "/bin/sh", "-c", script, job=job, gpus=gpus, **fields)


def backend_of(folder):
    return SlurmBackend("C", ["n1", "n2"], python=PYTHON)


def test_a_slurm_job_and_its_files_are_the_accounts(folder):
    backend, found = backend_of(folder), pwd.getpwnam(ALICE)
    script = "id -un; echo $HOME $USER; echo x > here; cat $COPTER_RUN_FILE > copy; echo y > ../checkpoints/z"
    run = run_of(folder, f"{script}; cat {folder}/jobs/other/runs/1/run.json; ls {folder}/jobs; true")
    other = run_of(folder, "true", account=BOB, job="other")
    for one in (other, run):
        assert _begin(backend, one, lambda: True)
        assert backend.states([one])[one.id].outcome == "completed", (one.folder / "log-0.txt").read_text()
    asked = (folder / "asked").read_text()
    assert f"--uid={found.pw_uid} --gid={found.pw_gid}" in asked
    log = (run.folder / "log-0.txt").read_text().splitlines()
    assert log[:2] == [ALICE, f"{found.pw_dir} {ALICE}"]
    assert len(log) == 4 and all("denied" in line for line in log[2:])
    work = folder / "jobs" / "job" / "work"
    assert {path.name for path in work.iterdir()} == {"here", "copy"}
    for path in (run.folder, *run.folder.iterdir(), work, *work.iterdir()):
        assert path.stat().st_uid == found.pw_uid, path
    assert stat.S_IMODE(run.folder.stat().st_mode) == 0o700
    assert run.folder.parent.stat().st_uid == 0, "the account could replace the folder of the run"


def test_jobs_of_the_same_name_that_belong_to_others_are_left_alone(folder):
    backend, run = backend_of(folder), run_of(folder, "true", gpus=(1, 2))
    assert _begin(backend, run, lambda: True)
    alice, bob = pwd.getpwnam(ALICE).pw_uid, pwd.getpwnam(BOB).pw_uid
    state = f"MARK|7|RUNNING|{alice}|None|copter-C-job.1\nMARK|8|RUNNING|{bob}|None|copter-C-job.1\n"
    state += f"MARK|9|RUNNING|{bob}|None|copter-C-job.1+1\nMARK|10|RUNNING|{bob}|None|x\n"
    forged = f"0|11|RUNNING|{alice}|None|copter-C-job.1\n"  # a line of the name of the job before
    (folder / "state").write_text(state + forged)
    (folder / "asked").unlink()
    backend.kill(run)
    asked = (folder / "asked").read_text().splitlines()
    assert [line for line in asked if line.startswith("scancel")] == [
        "scancel --signal=KILL 7.0",
        "scancel 7",
    ]
    assert not any("--me" in line for line in asked)


def test_a_second_start_writes_nothing_to_a_folder_of_the_account(folder):
    backend, run = backend_of(folder), run_of(folder, "true")
    assert _begin(backend, run, lambda: True)
    secret = folder / "secret"
    secret.write_text("of the service")
    (run.folder / "agent.py").unlink()
    (run.folder / "agent.py").symlink_to(secret)
    backend.start(run)
    assert secret.read_text() == "of the service" and secret.stat().st_uid == 0
    (run.folder / "agent.py").unlink()
    backend.start(run)
    assert not (run.folder / "agent.py").exists()


@pytest.mark.parametrize("step", [1, 3])
def test_a_start_that_was_interrupted_gives_the_folder_away(folder, monkeypatch, step):
    backend, run, calls = backend_of(folder), run_of(folder, "id -un"), []

    def chown(*arguments):
        calls.append(arguments)
        if len(calls) == step:
            raise KeyboardInterrupt
        given(*arguments)

    run.folder.mkdir(parents=True)
    open_for(run)
    run.write()
    with monkeypatch.context() as patched:
        given = os.chown
        patched.setattr("copter.live.backends.slurm.os.chown", chown)
        with pytest.raises(KeyboardInterrupt):
            backend.start(run)
    (run.folder / "agent.py").write_text("only a part of it")
    backend.start(run)
    owner = pwd.getpwnam(ALICE).pw_uid
    assert {path.stat().st_uid for path in (run.folder, *run.folder.iterdir())} == {owner}
    assert backend.states([run])[run.id].outcome == "completed"


def test_a_run_of_the_service_has_no_user(folder):
    backend, run = backend_of(folder), run_of(folder, "id -u", account="")
    (folder / "sbatch").write_text(f'#!/bin/sh\necho "$@" >> {folder}/asked\n')
    assert _begin(backend, run, lambda: True)
    assert "--uid" not in (folder / "asked").read_text()


def test_a_run_whose_account_has_gone_is_still_watched(folder):
    backend, run = backend_of(folder), run_of(folder, "true", account="no-such-account")
    run.folder.mkdir(parents=True)
    os.chown(run.folder, 4242, 4242)
    (folder / "state").write_text("MARK|7|PENDING|4242|None|copter-C-job.1\n")
    assert backend.states([run])[run.id].waiting
    (folder / "state").write_text("")
    assert backend.states([run])[run.id].outcome == "lost"
    assert "--uid=4242" in (folder / "asked").read_text()
