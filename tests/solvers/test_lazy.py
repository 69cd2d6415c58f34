"""Rounds that look at open requests only: the same answers, proved for the whole program, after any edit."""

import copy
import pickle
from dataclasses import replace

import numpy as np
import pytest

from copter import ContinualProgram, ProximalPoint, make_solver
from copter.bench.changes import Changes, _Rounds
from copter.durable.journal import Journal
from copter.errors import AuditError
from copter.solvers.proximal.audit import inactive_faults
from copter.solvers.proximal.solver import USUAL
from support.lazy_rounds import is_lazy


def highs(program) -> float:
    """The objective that HiGHS finds."""
    return make_solver("highs-simplex").solve(program).objective


@pytest.mark.parametrize("own", [False, True], ids=["shared columns", "own columns"])
@pytest.mark.parametrize("changed", [1, 60])
def test_rounds_of_few_changes_are_what_highs_finds(own, changed):
    rounds = _Rounds(Changes(40_000 if changed == 60 else 24_000, changed, own=own))
    solver, lazy = ProximalPoint(audit=True), 0
    rounds._fill()
    for number in range(10):
        if number:
            rounds._change()
        solution = solver.solve(rounds.program)
        assert solution.status == "optimal"
        lazy += is_lazy(solution)
    assert lazy >= 6
    assert solution.objective == pytest.approx(highs(rounds.program), rel=2e-6)


def warm(columns=24_000, **settings):
    """A program, and a solver that has closed its requests."""
    rounds, solver = _Rounds(Changes(columns, 1)), ProximalPoint(**settings)
    rounds._fill()
    for _ in range(4):
        solver.solve(rounds.program)
        rounds._change()
    assert is_lazy(solver.solve(rounds.program))
    return rounds, solver


def test_answers_of_earlier_rounds_stay_as_they_were():
    rounds, solver = warm()
    kept = []
    for number in range(12):
        rounds._change()
        solution = solver.solve(rounds.program)
        if number % 3 == 0:
            kept.append((solution, None))
        else:
            kept.append((solution, {id: x.copy() for id, x in solution.x.items()}))
    assert sum(is_lazy(solution) for solution, _ in kept) > 8
    for solution, values in kept:
        x = solution.nonzeros
        assert not x.fault(rounds.program.store.requests.n_columns[: rounds.program.store.requests.size])
        assert repr(solution.x).endswith(f"{x.value.size:,} nonzeros>")
        for id, value in (values or {}).items():
            np.testing.assert_array_equal(solution.x[id], value)
        again = pickle.loads(pickle.dumps(solution))
        np.testing.assert_array_equal(again.nonzeros.value, x.value)


def test_single_requests_are_read_without_the_others():
    rounds, solver = warm()
    solution = solver.solve(rounds.program)
    one = solution.x[5]
    assert "_all" not in vars(solution.x._values)  # the allocation was not put together
    whole = solution.nonzeros
    np.testing.assert_array_equal(one[one > 0], whole.value[whole.slot == 5])


def test_most_edited_means_that_all_columns_are_looked_at():
    rounds, solver = warm()
    program = rounds.program
    program.update_requests(program.request_ids, scales=2.0)
    solution = solver.solve(program)
    assert solution.warm_started
    assert not is_lazy(solution)
    assert solution.objective == pytest.approx(highs(program), rel=2e-6)


def test_a_change_of_capacity_alone_is_found():
    rounds, solver = warm(audit=True)
    program = rounds.program
    upper = program.resources[3].upper
    for factor in (0.9, 0.5, 1.1, 0.0, 1.0):
        program.update_resources(3, upper=factor * upper)
        solution = solver.solve(program)
        assert solution.status == "optimal"
        assert solution.objective == pytest.approx(highs(program), rel=2e-6)


def test_an_infeasible_round_is_told_and_the_next_one_is_solved():
    rounds, solver = warm()
    program = rounds.program
    upper = program.resources[0].upper
    program.update_resources(0, lower=1e9, upper=np.inf)
    assert solver.solve(program).status == "infeasible"
    program.update_resources(0, lower=-np.inf, upper=upper)
    solution = solver.solve(program)
    assert solution.objective == pytest.approx(highs(program), rel=2e-6)


def test_rows_that_are_used_again_begin_with_nothing():
    rounds, solver = warm(audit=True)
    program = rounds.program
    for number in range(100):
        program.add_resource(("gone", number), 1.0)
    program.add_request("user", [-1.0], {("gone", k): [1.0] for k in range(100)}, upper=1.0)
    solver.solve(program)
    solver.solve(program)
    for number in range(100):
        program.remove_resources(("gone", number))
    for number in range(100):
        program.add_resource(("new", number), 1.0)
    program.add_request("other", [-1.0], {("new", k): [1.0] for k in range(100)}, upper=1.0)
    for _ in range(4):
        rounds._change()
        solution = solver.solve(program)
    assert solution.objective == pytest.approx(highs(program), rel=2e-6)


def test_a_deadline_leaves_an_answer_with_its_gap():
    rounds, solver = warm()
    rounds._change()
    solution = solver.solve(rounds.program, deadline=1e-9)
    assert solution.status in ("deadline", "optimal")
    assert solution.found
    assert solution.bound <= highs(rounds.program) + 1e-9
    assert solver.solve(rounds.program).status == "optimal"


def go_on(rounds, solver, program, other):
    """The same edits and solves of a program and of another that was made from it: equal in every bit."""
    rounds.rng, again = np.random.default_rng(5), np.random.default_rng(5)
    for _ in range(6):
        rounds._change()
        first = solver.solve(rounds.program)
        twin = _Rounds.__new__(_Rounds)
        twin.program, twin.course, twin.rng = program, rounds.course, again
        twin._change()
        second = other.solve(program)
        assert is_lazy(first)
        assert is_lazy(second)
        assert (first.objective, first.bound) == (second.objective, second.bound)
        np.testing.assert_array_equal(first.y, second.y)
        for mine, theirs in zip(first.nonzeros, second.nonzeros, strict=True):
            np.testing.assert_array_equal(mine, theirs)


def test_nobody_is_closed_after_a_deadline():
    """With a deadline that is over when the solve ends, what would come after it is left out."""
    rounds, solver = _Rounds(Changes(24_000, 1)), ProximalPoint()
    rounds._fill()
    hurried = ProximalPoint(tuning=replace(USUAL, lazy=replace(USUAL.lazy, seconds_each=1.0)))
    for _ in range(4):
        for each, deadline in ((solver, None), (hurried, 60.0)):
            assert each.solve(rounds.program, deadline=deadline).status == "optimal"
        rounds._change()
    assert solver._state.inactive is not None
    assert hurried._state.inactive is None


@pytest.mark.parametrize(
    "copied",
    [copy.deepcopy, lambda pair: pickle.loads(pickle.dumps(pair))],
    ids=["copy", "pickle"],
)
def test_copies_go_on_bit_by_bit(copied):
    rounds, solver = warm(audit=True)
    rounds._change()  # in the middle of a round
    program, other = copied((rounds.program, solver))
    go_on(rounds, solver, program, other)


def test_what_is_saved_goes_on_bit_by_bit(tmp_path):
    rounds, solver = warm(audit=True)
    rounds._change()
    rounds.program.save(tmp_path / "program", solver)
    other = ProximalPoint(audit=True)
    program = ContinualProgram.load(tmp_path / "program", other)
    go_on(rounds, solver, program, other)


def test_a_journal_goes_on_bit_by_bit(tmp_path):
    rounds, solver = _Rounds(Changes(24_000, 1)), ProximalPoint()
    with Journal(tmp_path, solver, program=rounds.program) as journal:
        rounds.program = journal
        rounds.shared = [journal.share_columns({0: np.ones(20), 3: np.arange(20.0)}, 20) for _ in range(8)]
        rounds._fill()
        for _ in range(6):
            solution = solver.solve(journal)
            journal.commit()
            rounds._change()
        assert is_lazy(solution)
    other = ProximalPoint(audit=True)
    with Journal(tmp_path, other) as journal:
        assert other._state.inactive is not None
        assert other.solve(journal).objective == pytest.approx(solution.objective, rel=1e-5)


def test_a_state_that_says_what_is_not_so_is_refused():
    rounds, solver = warm()
    arrays = solver.save_state(rounds.program)
    block = "inactive.blocks.0"
    for name, spoil in (
        (f"{block}.column", lambda a: (a + 1) % 20),
        (f"{block}.threshold", lambda a: a + 1.0),
        (f"{block}.group", lambda a: a + 100_000),
        ("inactive.groups.first", lambda a: a + 100_000),
        (f"{block}.parts.start", lambda a: a + 1),
        (f"{block}.parts.cost", lambda a: a * 1.5),
        (f"{block}.parts.row", lambda a: a + 1),
        (f"{block}.parts.coefficient", lambda a: a * 1.5),
        (f"{block}.slots", lambda a: a[::-1].copy()),
        ("inactive.y", lambda a: a * 1.5),
        ("inactive.step", lambda a: a * 2.0),
        ("inactive.revision", lambda a: a + 1_000_000),
        ("inactive.rounds", float),
    ):
        other = ProximalPoint()
        with pytest.raises(ValueError, match="inactive"):  # each names what is wrong
            other.load_state(rounds.program, arrays | {name: spoil(arrays[name])})
    other.load_state(rounds.program, arrays)
    assert is_lazy(other.solve(rounds.program))


def test_two_solvers_of_one_program_do_not_disturb_each_other():
    rounds, solver = warm(audit=True)
    other = ProximalPoint(audit=True)
    for number in range(8):
        rounds._change()
        first = solver.solve(rounds.program)
        if number % 2:
            second = other.solve(rounds.program)
            assert first.objective == pytest.approx(second.objective, rel=3e-6)
    assert is_lazy(first)


@pytest.mark.parametrize("part", ["cost", "value", "coefficient", "total", "width", "row"])
def test_an_audit_finds_contributions_that_are_not_so(part):
    rounds, solver = warm()
    inactive = solver._state.inactive
    assert not inactive_faults(rounds.program, inactive)
    block = inactive.merged()
    array = getattr(block.parts, part).copy()
    array[array != 0] += 1
    block = block._replace(parts=block.parts._replace(**{part: array}))
    empty = block.take(np.empty(0, np.int64))
    assert inactive_faults(rounds.program, replace(inactive, blocks=(block, empty, empty)))


def test_an_audit_finds_sums_that_are_not_so():
    rounds, solver = warm()
    index = solver._cache._index
    index._sums.add(index.inactive.merged().parts, np.array([0]))
    solver.audit = True
    with pytest.raises(AuditError, match="sums of the inactive requests"):
        solver.solve(rounds.program)


def test_a_callback_hears_of_every_pass():
    heard = []
    rounds, _ = warm(callback=lambda iterations, proof: heard.append(proof.relative.gap))
    assert heard
    assert rounds.program is not None


def test_starts_that_are_given_count():
    rounds, solver = warm()
    rounds.program.update_request(3, start={0: 1.0})
    assert solver.solve(rounds.program).status == "optimal"
