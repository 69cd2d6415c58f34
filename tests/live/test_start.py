"""The start of a service: what it has imported and read when it can answer."""

import json
import subprocess
import sys

import pytest

from support.service_process import free_port

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


def test_commands_that_only_ask_do_not_import_numpy():
    code = "import copter.live.cli, copter.live.client, sys; sys.exit('numpy' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0
