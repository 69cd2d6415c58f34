"""`copter compile`, and the parts that it compiles."""

import pytest
from typer.testing import CliRunner

from copter.cli.main import app
from copter.solvers.proximal.ahead import PARTS


@pytest.mark.parametrize("name", PARTS)
def test_a_part_runs(name):
    PARTS[name]()


def test_all_parts_are_compiled_and_listed(monkeypatch):
    done = CliRunner().invoke(app, ["compile"])
    assert done.exit_code == 0, done.output
    for name in PARTS:
        assert name in done.output
    assert "Kept in" in done.output
