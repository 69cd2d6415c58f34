"""Cost vectors that requests share: what they live by, and what is refused."""

from __future__ import annotations

import numpy as np
import pytest

from copter import ChooseOneShim, ContinualProgram, FlowShim, make_solver
from copter.durable.soundness import check_program
from copter.errors import EditError
from support.strategies import snapshot

ROWS = ("a", "b", "c")


def test_shims_round_as_with_own_costs():
    shared, own = ContinualProgram(), ContinualProgram()
    rng = np.random.default_rng(4)
    for program in (shared, own):
        program.add_resources(ROWS, upper=[9.0, 7.0, 8.0])
    for n in (3, 12, 30):
        usage = {row: rng.integers(0, 3, n) * (np.arange(n) > 0) for row in ROWS}
        costs = -rng.random(n) - 0.1
        given = shared.share_costs(costs), costs
        for k in range(9):
            options = {
                "scale": float(np.exp(rng.normal())),
                "override": {int(rng.integers(n)): -rng.random()},
            }
            for program, its_costs in zip((shared, own), given, strict=True):
                program.add_request((n, k), its_costs, usage, total=1.0, **options)
    for shim in (ChooseOneShim(), FlowShim()):
        solved = [(each, make_solver("copter", tolerance=1e-9).solve(each)) for each in (shared, own)]
        ours, theirs = (shim.round(*each).objective for each in solved)
        assert theirs < 0.0 and ours == pytest.approx(theirs, rel=1e-12)


def test_a_vector_lives_as_long_as_it_is_named_or_used():
    program = ContinualProgram()
    vector = program.share_costs([1.0, 2.0])
    program.add_requests(["p", "q"], vector, None, [{}, {}], totals=1.0)
    assert program.shared_costs == [vector] and program.requests["q"].shared_costs == vector
    program.forget(vector)
    assert program.shared_costs == [] and program.requests["q"].shared_costs is None
    assert program.requests["q"].costs.tolist() == [1.0, 2.0]
    program.remove_request("p")
    check_program(program)
    program.update_request("q", costs=[3.0, 4.0])
    assert not program.store.vectors.n_columns.any() and program.requests["q"].costs.tolist() == [3.0, 4.0]
    check_program(program)


def test_costs_move_together_when_the_pool_is_compacted():
    program = ContinualProgram()
    program.add_resource("r", 1.0)
    wide = [program.share_costs(np.arange(3000.0) + k) for k in range(4)]
    usage = program.share_columns({"r": 1.0}, 3000)
    overrides = [{k: -1.0} for k in range(8)]
    program.add_requests(range(8), 2 * wide, None, usage, overrides=overrides, upper=1e3)
    program.add_request("own", np.arange(3000.0) - 7.0, usage, upper=1e3)
    before, used = (
        {id: program.requests[id].costs.tolist() for id in program.request_ids},
        program.store.costs.used,
    )
    for vector in wide[:3]:
        program.forget(vector)
    program.remove_requests([0, 4, 1, 5, 2, 6])
    assert program.store.costs.used < used
    check_program(program)
    assert all(program.requests[id].costs.tolist() == before[id] for id in program.request_ids)


def test_errors_name_the_request_and_change_nothing():
    program, other = ContinualProgram(), ContinualProgram()
    vector, strange = program.share_costs([1.0, 2.0]), other.share_costs([1.0, 2.0])
    program.add_request("q", vector, {}, upper=1e3)
    program.add_request("wide", [1.0, 2.0, 3.0], {}, upper=1e3)
    before = snapshot(program)
    for subject, field, verb in (
        ("shared costs", "costs", lambda: program.share_costs([1.0, np.nan])),
        ("shared costs", "costs", lambda: program.share_costs([])),
        ("forget", "costs", lambda: program.forget(strange)),
        ("n", "costs", lambda: program.add_request("n", strange, {})),
        ("add_requests", "costs", lambda: program.add_requests(["n", "m"], strange, None, [{}, {}])),
        ("m", "costs", lambda: program.add_requests(["n", "m"], [vector, strange], None, [{}, {}])),
        ("m", "costs", lambda: program.add_requests(["n", "m"], [vector, [1.0, 2.0]], None, [{}, {}])),
        ("add_requests", "costs", lambda: program.add_requests(["n", "m"], [vector], None, [{}, {}])),
        ("m", "sizes", lambda: program.add_requests(["n", "m"], vector, [2, 3], [{}, {}])),
        ("wide", "costs", lambda: program.update_request("wide", costs=vector)),
        ("wide", "costs", lambda: program.update_requests(["q", "wide"], costs=vector)),
    ):
        with pytest.raises(EditError) as caught:
            verb()
        assert (caught.value.subject, caught.value.field) == (subject, field)
        assert snapshot(program) == before
