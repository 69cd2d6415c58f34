"""`copter bench spread`: the same rounds in one process and in parts, and what goes to and fro."""

import json

import pytest
from typer.testing import CliRunner

from copter import ProximalPoint
from copter.cli.main import app
from copter.problems.sia.spread_rounds import Metered
from copter.program.spread import SpreadProgram
from copter.store.workers import InProcess


def test_what_is_counted_is_what_was_sent():
    places = Metered(InProcess(4, "float64"))
    program = SpreadProgram(places)
    program.add_resource("a", upper=30.0)
    for k in range(60):
        program.add_request(k, [-1.0 - k] * 50, {"a": [0.5] * 50}, total=1)
    assert ProximalPoint().solve(program).status == "optimal"
    sent = places.nbytes
    assert sent > 8 * 3000  # the costs went out
    places.calls = places.nbytes = 0
    program.update_request(0, scale=2.0)
    assert ProximalPoint().solve(program).status == "optimal"
    assert places.calls > 0 and places.nbytes < sent


def test_the_command_writes_what_it_measured():
    line = ["bench", "spread", "--sizes", "64x12", "--rounds", "3", "--actors", "0", "--json", "-"]
    result = CliRunner().invoke(app, line)
    assert result.exit_code == 0, result.output
    alone, parts = json.loads(result.stdout)["programs"]
    assert (alone["where"], parts["where"]) == ("one process", "2 parts")
    assert alone["columns"] == parts["columns"] and alone["requests"] == parts["requests"] == 12
    assert alone["calls"] == 0 < parts["calls"]


@pytest.mark.parametrize("sizes", ["1024", "0x5", "many"])
def test_a_size_that_is_none_is_named(sizes):
    result = CliRunner().invoke(app, ["bench", "spread", "--sizes", sizes])
    assert result.exit_code == 2
    assert "--sizes" in result.output
