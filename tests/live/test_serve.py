"""`copter serve` as users have it: a process, its commands, and what they say when something is wrong."""

import asyncio
import json
import signal
import subprocess
import sys
import time

import pytest
from live_faults import check, play

from copter.live.cli import print_jobs, serve
from copter.live.journal import LiveJournal
from support.live_cases import ELASTIC, named, report
from support.memory_backend import MemoryBackend
from support.play_again import play_again
from support.service_process import ServiceProcess, free_port

pytestmark = pytest.mark.cluster

CLUSTER = """\
gpus = [
  { type = "a100", gpus_per_node = 4, nodes = 1 },
  { type = "t4", gpus_per_node = 2, nodes = 1 },
]
"""
JOB = """\
command = ["sh", "-c", "echo hello; sleep 0.2; echo bye"]
gpus = 2
"""


@pytest.fixture
def cluster(tmp_path):
    path = tmp_path / "cluster.toml"
    path.write_text(CLUSTER)
    return path


def copter(*arguments, code=0, folder=None, service=None):
    """Run a command; returns what it printed on standard output and on standard error."""
    where = (
        [] if service is None else ["--service", service.url, "--token-file", str(service.folder / "token")]
    )
    command = [sys.executable, "-m", "copter", *map(str, arguments), *where]
    done = subprocess.run(command, capture_output=True, text=True, cwd=folder, timeout=120)
    assert done.returncode == code, done.stdout + done.stderr
    assert "Traceback" not in done.stderr
    return done.stdout, done.stderr


def step_by_the_clock(service):
    """Ask the policy, and start what it wants."""

    async def go():
        await service.rounds.ask()
        await service.launcher.tick()

    asyncio.run(go())


def test_the_commands_of_a_user(cluster, tmp_path):
    job = tmp_path / "job.toml"
    job.write_text(JOB)
    folder = tmp_path / "live"
    with ServiceProcess(folder, cluster, ("--round-seconds", "1", "--soon-seconds", "0.2")) as service:
        assert (folder / "token").stat().st_mode & 0o077 == 0
        said = service.log.read_text()
        assert f"page: {service.url}/\n" in said and f"token: cat {folder / 'token'}" in said
        assert service.token not in said
        out, _ = copter("submit", job, "--name", "first", "--wait", service=service)
        assert out == "first\n"
        assert copter("logs", "first", service=service)[0] == "hello\nbye\n"
        assert copter("logs", "-f", "first", service=service)[0] == "hello\nbye\n"
        bad = tmp_path / "bad.toml"
        bad.write_text('command = ["sh", "-c", "exit 9"]\nretries = 0\n')
        _, said = copter("submit", bad, "--wait", "--name", "bad", code=1, service=service)
        assert "exit code 9" in said
        long = tmp_path / "long.toml"
        long.write_text('command = ["sleep", "600"]\n')
        copter("submit", long, "--name", "long", service=service)
        (there,) = json.loads(copter("jobs", "--json", service=service)[0])
        assert there["name"] == "long"
        copter("drain", "t4", "0", service=service)
        assert "drained" in json.dumps(service.client().cluster()["nodes"])
        copter("undrain", "t4", "0", service=service)
        copter("cancel", "long", service=service)
        shown, _ = copter("jobs", "--ended", service=service)
        assert all(
            word in shown for word in ("first", "completed", "bad", "failed", "exit code 9", "cancelled")
        )
        for arguments, words in (
            (("submit", job, "--name", "first"), "'first'"),
            (("cancel", "nobody"), "'nobody'"),
            (("logs", "nobody"), "'nobody'"),
            (("drain", "h100", "0"), "h100"),
        ):
            assert words in copter(*arguments, code=1, service=service)[1]
    rounds, different = play_again(folder)
    assert rounds and not different


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("command = [", "job.toml: must be a TOML file"),
        ("comand = ['true']", "comand: there is no such field"),
        ("command = ['true']", "cannot be reached"),
        (None, "job.toml"),
    ],
)
def test_what_is_wrong_with_a_file_or_the_service_is_said(tmp_path, text, words):
    if text is not None:
        (tmp_path / "job.toml").write_text(text)
    (tmp_path / "token").write_text("x")
    where = ("--token-file", tmp_path / "token", "--service", f"http://127.0.0.1:{free_port()}")
    assert words in copter("submit", tmp_path / "job.toml", *where, code=1)[1]
    assert "--token-file" in copter("jobs", code=1, folder=tmp_path)[1]


@pytest.mark.parametrize(
    ("text", "arguments", "words"),
    [
        ("gpus = []", (), "gpus"),
        ("gpus = [{type = 'a', gpus_per_node = 0}]", (), "gpus_per_node"),
        ("gpus = [{type = 'a', gpus_per_node = 1}, {type = 'a', gpus_per_node = 1}]", (), "'a'"),
        ("gpus = [{type = 'a', gpus_per_node = 1, nodes = 2, hosts = ['x', 'x']}]", (), "hosts"),
        ("gpus = [{type = 'a', gpus_per_node = 1}]\n[options]\nacount = 'x'", (), "acount"),
        ("gpus = [{type = 'a', gpus_per_node = 1}]", ("--backend", "kubernetes"), "local, ray"),
        ("gpus = [{type = 'a', gpus_per_node = 1}]", ("--policy", "sai"), "sia"),
        ("gpus = [{type = 'a', gpus_per_node = 1}]", ("--set", "p"), "SETTING=VALUE"),
        ("gpus = [{type = 'a', gpus_per_node = 1}]", ("--set", "q=1"), "'q'"),
        ("gpus = [{type = 'a', gpus_per_node = 1}]", ("--policy", "srtf", "--round-seconds", "5"), "events"),
    ],
)
def test_a_service_that_cannot_begin_says_why(cluster, tmp_path, text, arguments, words):
    cluster.write_text(text)
    command = ("serve", "--cluster", cluster, "--folder", tmp_path / "live", *arguments)
    done = subprocess.run(
        [sys.executable, "-m", "copter", *map(str, command)], capture_output=True, text=True, timeout=120
    )
    assert done.returncode in (1, 2) and words in done.stderr and "Traceback" not in done.stderr
    assert not (tmp_path / "live" / "journal.sqlite").exists()


def test_sigterm_writes_the_reports_that_were_acknowledged(cluster, tmp_path, monkeypatch):
    """The server raises the signal again when it has shut down, as here."""
    taken, usual = [], signal.getsignal(signal.SIGTERM)
    monkeypatch.setattr("copter.live.http.make_app", lambda service: taken.append(service))

    def run(*_, **__):
        (service,) = taken
        service.admission.submit(named(ELASTIC, "one"))
        step_by_the_clock(service)
        service.admission.report("one", 1, report(7.0))
        assert not list(service.record.journal.events(kind="Reported"))
        signal.raise_signal(signal.SIGTERM)

    monkeypatch.setattr("uvicorn.Server.run", run)
    monkeypatch.setattr("copter.live.backends.registry.make_backend", lambda *_: MemoryBackend())
    try:
        with pytest.raises(SystemExit) as ended:
            serve(cluster, folder=tmp_path / "live", host="127.0.0.1", port=free_port())
    finally:
        signal.signal(signal.SIGTERM, usual)
    assert ended.value.code == 0
    journal = LiveJournal(tmp_path / "live" / "journal.sqlite", read_only=True)
    assert len(list(journal.events(kind="Reported"))) == 1
    journal.close()


def test_what_jobs_say_is_shown_as_it_is(capsys):
    job = {
        **{"name": "one", "status": "failed", "gpus": 0, "type": None, "progress": None, "batch_size": None},
        **{"restarts": 0, "started": None, "submitted": 0.0, "finished": 1.0},
    }
    reasons = ["[/x]", "[link=http://x.example]log[/link]", "[red]", ":boom:", "\\[bold]"]
    print_jobs([job | {"reason": reason} for reason in [*reasons, "\x1b[2J"]], 2.0)
    shown = capsys.readouterr().out
    assert all(reason in shown for reason in reasons)
    assert "\x1b" not in shown and "\\x1b[2J" in shown


@pytest.mark.long
def test_kills_at_random_over_real_jobs(tmp_path):
    acknowledged, killed = play(tmp_path, jobs=40, kills=25, seed=2)
    assert len(acknowledged) == 40 and sum(killed.values()) == 25
    check(tmp_path, acknowledged)


def wait_for(service, reached):
    """Wait until the jobs of a service are in some state."""
    deadline = time.monotonic() + 60.0
    with service.client() as client:
        while not reached(jobs := client.jobs()):
            assert time.monotonic() < deadline, jobs
            time.sleep(0.05)
