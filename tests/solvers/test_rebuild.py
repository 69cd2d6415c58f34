"""copter-rebuild: the same answers as copter, from a program built anew every round."""

import itertools
from dataclasses import replace

import numpy as np
import pytest

from copter import Journal, ProximalPoint, make_solver
from copter.errors import CopterError
from copter.program.program import ContinualProgram
from copter.proof.certificate import certify
from copter.proof.pricing import price
from copter.shims.choose_one import ChooseOneShim
from copter.solution import Status
from copter.solvers.rebuild import Copy
from copter.store.compiled import compile_program
from support.random_programs import random_edits, random_program, random_request
from support.ticking import tick


def edited_program(seed):
    """A program whose slots are in disorder: edits, a dropped resource, a template, a scale, integrality."""
    program = random_program(seed)
    rng = np.random.default_rng(seed)
    template = program.share_columns({"r0": [1.0, 2.0], "r1": 1.0}, 2)
    program.add_request("shared", [-1.0, -1.5], template, total=1.0, scale=2.0, integral=True)
    program.update_request("shared", override={0: -3.0})
    fresh = itertools.count(1000)
    for _ in range(3):
        random_edits(program, rng, fresh)
    return program


@pytest.mark.parametrize("seed", range(5))
def test_the_copy_is_the_same_program(seed):
    program = edited_program(seed)
    ours, theirs = compile_program(program), compile_program(Copy(program).program)
    assert theirs.resource_ids == ours.resource_ids
    assert sorted(map(str, theirs.request_ids)) == sorted(map(str, ours.request_ids))
    m = len(ours.resource_ids)
    np.testing.assert_array_equal(theirs.row_lower[:m], ours.row_lower[:m])
    np.testing.assert_array_equal(theirs.row_upper[:m], ours.row_upper[:m])
    for k, id in enumerate(ours.request_ids):
        j = theirs.request_ids.index(id)
        a = slice(ours.column_start[k], ours.column_start[k + 1])
        b = slice(theirs.column_start[j], theirs.column_start[j + 1])
        for field in ("c", "upper", "integrality"):
            np.testing.assert_array_equal(getattr(theirs, field)[b], getattr(ours, field)[a])
        np.testing.assert_array_equal(theirs.A[:m, b].toarray(), ours.A[:m, a].toarray())
        assert (theirs.sum_row[j] < 0) == (ours.sum_row[k] < 0)
        if ours.sum_row[k] >= 0:
            for field in ("row_lower", "row_upper"):
                assert getattr(theirs, field)[theirs.sum_row[j]] == getattr(ours, field)[ours.sum_row[k]]


@pytest.mark.parametrize("seed", range(4))
def test_agrees_with_copter_over_edits(seed):
    program = random_program(seed)
    rng, fresh = np.random.default_rng(seed), itertools.count(1000)
    rebuild = make_solver("copter-rebuild", tolerance=1e-7)
    for number in range(5):
        ours, theirs = make_solver("copter", tolerance=1e-7).solve(program), rebuild.solve(program)
        assert theirs.status is ours.status is Status.OPTIMAL
        assert theirs.timings.edit > 0
        assert theirs.warm_started == (number > 0)
        assert theirs.objective == pytest.approx(ours.objective, rel=1e-6, abs=1e-6)
        proof = certify(program.store, theirs.nonzeros, theirs.y)
        assert theirs.objective == pytest.approx(proof.objective, abs=1e-9)
        assert theirs.bound == pytest.approx(proof.bound, abs=1e-9)
        assert theirs.primal_residual == pytest.approx(proof.relative.primal, abs=1e-9)
        assert list(theirs.x) == program.request_ids and list(theirs.price) == program.resource_ids
        random_edits(program, rng, fresh)


def test_an_unchanged_program_keeps_its_answer():
    program = edited_program(1)
    rebuild = make_solver("copter-rebuild")
    first = rebuild.solve(program)
    again = rebuild.solve(program)
    assert again.iterations == 0 and again.churn == 0.0 and again.warm_started
    np.testing.assert_array_equal(again.y, first.y)
    rebuild.reset()
    assert not rebuild.solve(program).warm_started
    assert not rebuild.solve(random_program(2)).warm_started


def test_a_start_takes_the_place_of_what_was_carried_over():
    program = ContinualProgram()
    program.add_resource("a", 1.0)
    program.add_request("q", [-1.0, -1.0], {"a": 1.0}, total=1.0)
    program.add_request("dropped", [-1.0], {"a": 1.0}, total=1.0)
    rebuild = make_solver("copter-rebuild")
    rebuild.solve(program)
    program.remove_request("dropped")
    program.update_request("q", start={1: 1.0})
    solution = rebuild.solve(program)
    assert solution.status is Status.OPTIMAL
    np.testing.assert_allclose(solution.x["q"], [0.0, 1.0], atol=1e-9)


def test_rays_come_back_by_id():
    program = random_program(5)
    program.add_request("full", [1.0], {}, total=2.0, relation="==", upper=1.0)
    solution = make_solver("copter-rebuild").solve(program)
    assert solution.status is Status.INFEASIBLE and set(solution.ray.y) == set(program.resource_ids)


def test_the_build_counts_towards_the_deadline(monkeypatch):
    tick(monkeypatch)
    program = random_program(3, requests=60)
    random_request(program, np.random.default_rng(0), "more")
    solution = make_solver("copter-rebuild", deadline=1e-9).solve(program)
    assert solution.status is Status.DEADLINE and np.isfinite(solution.bound)


def test_a_shim_is_given_the_last_pass():
    program = ContinualProgram()
    program.add_resource("gone", 1.0)
    program.add_resource("a", 4.0)
    rng = np.random.default_rng(0)
    for q in range(8):
        program.add_request(q, -rng.random(12), {"a": rng.integers(1, 3, 12), "gone": 1.0}, total=1.0)
    program.remove_resources("gone")
    program.remove_request(3)
    program.update_request(5, relation="==")
    solution = make_solver("copter-rebuild").solve(program)
    given, own = solution.pricing, price(program.store, solution.y, slack=solution.pricing.slack)
    assert given.clock == own.clock
    assert given.request_bound == pytest.approx(own.request_bound)
    np.testing.assert_allclose(given.marginal, own.marginal, atol=1e-12)
    np.testing.assert_array_equal((given.slot, given.column), (own.slot, own.column))
    assert 0 <= ChooseOneShim().round(program, solution).gap < 1


def test_its_state_is_refused_where_it_would_be_written(tmp_path):
    program, rebuild = random_program(0), make_solver("copter-rebuild")
    rebuild.solve(program)
    with pytest.raises(CopterError, match="'copter-rebuild' keeps a state that cannot be written"):
        program.save(tmp_path / "s", rebuild)
    with pytest.raises(CopterError, match="'copter-rebuild' keeps a state that cannot be written"):
        Journal(tmp_path / "j", rebuild)
    with pytest.raises(CopterError, match="'copter-rebuild' keeps a state that cannot be read"):
        rebuild.load_state(program, None)
    assert not (tmp_path / "s").exists()


def test_details_are_those_of_the_solver_inside(monkeypatch):
    inside = ProximalPoint._solve
    monkeypatch.setattr(
        ProximalPoint, "_solve", lambda *given: replace(inside(*given), details={"highs_fallbacks": 2.0})
    )
    assert make_solver("copter-rebuild").solve(random_program(0)).details == {"highs_fallbacks": 2.0}
