"""The start of a service: what it has imported and read when it can answer."""

import json
import subprocess
import sys

import pytest

from copter.live.events import Ended, Launched, Opened, Submitted
from copter.live.journal import JOURNAL, LiveJournal
from copter.live.process import free_port
from copter.problems.cluster.registry import SettingsError, make_policy

HEAVY = ("numba", "scipy", "highspy", "ortools", "matplotlib", "pandas", "ray", "torch")
CODE = f"""
import json, sys, uvicorn

def run(server, sockets):
    heavy = [name for name in {HEAVY} if name in sys.modules]
    print(json.dumps([heavy, sys.getswitchinterval()]))

uvicorn.Server.run = run
from copter.cli.main import main
main()
"""


@pytest.mark.parametrize("policy", ["sia", "fcfs"])
def test_a_service_answers_before_it_imports_what_only_rounds_need(tmp_path, policy):
    cluster = tmp_path / "cluster.toml"
    cluster.write_text('gpus = [{ type = "a100", gpus_per_node = 4 }]')
    arguments = ("serve", "--cluster", str(cluster), "--folder", str(tmp_path / "live"), "--policy", policy)
    command = [sys.executable, "-c", CODE, *arguments, "--port", str(free_port())]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    heavy, switch = json.loads(done.stdout.splitlines()[-1])
    assert heavy == [], done.stderr
    assert switch < 0.001, "the policy's thread would delay each call of the system in a connection"


def test_wrong_settings_of_a_policy_are_found_at_the_start():
    for settings, said in (
        ({"tolerance": 2.0}, "above 0 and below 1"),
        ({"solver": "coptr"}, "did you mean copter"),
        ({"p": "low"}, "p = 'low': must be float"),
        ({"policy": "x"}, "must be SiaPolicy or none"),
    ):
        with pytest.raises((SettingsError, ValueError), match=said):
            make_policy("sia", **settings)


def test_the_runs_that_ended_last_are_read_with_two_queries(tmp_path):
    journal = LiveJournal(tmp_path / JOURNAL)
    journal.add(Opened(time=0.0, policy="fcfs", settings={}, kind="rigid", round_seconds=None, cluster={}))
    place = ("a100", ((0, 1),))
    for number in range(60):
        job, run = f"job-{number // 2}", number % 2 + 1
        if run == 1:
            journal.add(Submitted(time=float(number), job=job, file={}))
        journal.add(
            Launched(
                time=float(number), job=job, number=run, place=place, hosts=("a100-0",), devices=((0,),)
            ),
            Ended(time=number + 0.5, job=job, number=run, outcome="stopped"),
        )
    queries = []
    journal.database.set_trace_callback(queries.append)
    found = journal.ended_runs(20)
    assert len(queries) == 2
    assert [(begin.job, begin.number, end.time) for begin, end in found] == [
        (f"job-{number // 2}", number % 2 + 1, number + 0.5) for number in range(40, 60)
    ]
    journal.close()
