"""`copter compile`, and the parts that it compiles."""

import pytest

from copter.solvers.proximal import ahead
from copter.solvers.proximal.ahead import PARTS
from support.commands import invoke


@pytest.mark.parametrize("name", PARTS)
def test_a_part_runs(name):
    PARTS[name]()


def test_each_part_is_compiled_in_a_process_of_its_own_and_listed(monkeypatch):
    """Two parts do: that each of them runs is shown above."""
    names = ("one column a request", "flows")
    monkeypatch.setattr(ahead, "PARTS", {name: PARTS[name] for name in names})
    done = invoke("compile")
    for name in PARTS:
        assert (name in done.output) == (name in names)
    assert "Kept in" in done.output
