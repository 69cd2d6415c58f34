"""`update_resources(by=)`: what is added and taken away again leaves no trace."""

import numpy as np
import pytest

from copter import ContinualProgram
from copter.errors import EditError


def moved(start, changes):
    program = ContinualProgram()
    program.add_resource("gpu", upper=start)
    for change in changes:
        program.update_resources("gpu", by=change)
    return program.resources["gpu"].upper


@pytest.mark.parametrize("start", [0.0, 8.0, 0.7, 1e6])
@pytest.mark.parametrize("unit", [0.1, 0.3, 0.18, 0.05, 1 / 3, 2 / 7, 1.1, 1000.01])
@pytest.mark.parametrize("times", [1, 3, 10, 13])
def test_one_change_leaves_no_trace(start, unit, times):
    assert moved(start, times * [unit] + times * [-unit]) == start


@pytest.mark.parametrize("seed", range(20))
def test_many_changes_in_any_order_leave_no_trace(seed):
    rng = np.random.default_rng(seed)
    changes = rng.integers(1, 1000, 10) / rng.choice([10, 100, 1000, 3, 7, 60], 10)
    start = float(rng.choice([0.0, 2.5, 12.7]))
    assert moved(start, [*rng.permutation(changes), *-rng.permutation(changes)]) == start


@pytest.mark.parametrize("seed", range(20))
def test_changes_of_any_digits_are_never_refused(seed):
    rng = np.random.default_rng(seed)
    changes = rng.random(10) * 10.0 ** rng.integers(-3, 6)
    assert moved(0.0, [*rng.permutation(changes), *-rng.permutation(changes)]) == pytest.approx(0.0, abs=1e-7)


@pytest.mark.parametrize("missing", [1e-9, 0.1, 1.0])
def test_what_is_not_there_cannot_be_taken(missing):
    program = ContinualProgram()
    program.add_resources(["a", "b"], lower=[-np.inf, 2.0], upper=[0.9, 3.0])
    for name, room in (("a", 0.9), ("b", 1.0)):
        with pytest.raises(EditError, match="would leave an upper bound"):
            program.update_resources(name, by=-room - missing)
    program.update_resources(["a", "b"], by=[-0.9, -1.0])
    assert [program.resources[name].upper for name in "ab"] == [0.0, 2.0]
