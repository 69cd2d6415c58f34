"""A request whose total is 0 for some rounds comes back with the split that it had."""

import pytest

from copter import ContinualProgram, ProximalPoint


def two_ways():
    """Columns that cost alike: any split is optimal, so the solver keeps what it has."""
    program = ContinualProgram()
    program.add_resource("left", 3.0)
    program.add_resource("right", 5.0)
    program.add_request("a", [-1.0, -1.0], {"left": [1.0, 0.0], "right": [0.0, 1.0]}, total=8.0)
    program.add_request("b", [-2.0], {"left": [1.0]}, total=1.0)
    return program


@pytest.mark.parametrize("pause", [1, 3])
def test_the_split_comes_back_in_shares(pause):
    program, solver = two_ways(), ProximalPoint()
    before = solver.solve(program).x["a"]
    program.update_request("a", total=0.0)
    for _ in range(pause):
        assert solver.solve(program).x["a"].sum() == 0.0
    program.update_request("a", total=4.0)
    x, _ = solver.start(program)
    mine = x.slot == program.slot_of["a"]
    assert x.value[mine] == pytest.approx(before * 0.5) and x.column[mine].tolist() == [0, 1]
    assert solver.solve(program).objective == pytest.approx(-6.0)


def test_new_columns_or_another_request_in_the_slot_do_not_inherit_it():
    program, solver = two_ways(), ProximalPoint()
    solver.solve(program)
    program.update_request("a", total=0.0)
    solver.solve(program)
    program.remove_request("a")
    program.add_request("c", [-1.0, -1.0], {"left": [1.0, 0.0], "right": [0.0, 1.0]}, total=8.0)
    x, _ = solver.start(program)
    assert not (x.slot == program.slot_of["c"]).any()
