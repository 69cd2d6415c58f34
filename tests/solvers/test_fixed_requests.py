"""Requests that leave no choice: what they use tells in which units the columns beside them are counted."""

import pytest

from copter import ContinualProgram, Status, make_solver


@pytest.mark.parametrize("unit", [1e-12, 1e-9, 1.0, 1e9])
def test_the_largest_share_of_links_that_one_demand_fills(unit):
    """Minimise theta with 0.01 <= 3.7 theta, all of it in any unit; the other links are not used."""
    program = ContinualProgram()
    for link in ("used", "idle"):
        program.add_resource(link, 0.0)
    program.add_request("theta", [1 / unit], {"used": [-3.7], "idle": [-0.5]}, upper=unit)
    program.add_request("demand", [0.0], {"used": [1.0]}, total=0.01 * unit, relation="==")
    solution = make_solver("copter-newton").solve(program)
    assert solution.status is Status.OPTIMAL
    assert solution.objective == pytest.approx(0.01 / 3.7, rel=1e-4)
