"""Engines of warm rounds: the choice by measured seconds, and simplex beneath the same certificate."""

import copy
import math
import pickle
import time

import numpy as np
import pytest

from copter import ContinualProgram, ProximalPoint, Status, make_solver
from copter.clock import Interrupted
from copter.solvers.highs_kept import KeptModel
from copter.solvers.proximal import fastest, loop
from copter.solvers.proximal.fastest import TIMED, Choice, Record

PROXIMAL, DUAL, PRIMAL = TIMED


def played(seconds, rounds=400):
    """Return the engines of rounds in which each engine always takes the same seconds."""
    choice, used = Choice(), []
    for _ in range(rounds):
        engine = choice.engine()
        used.append(engine)
        choice = choice.after(engine, seconds[engine])
    return used


def test_short_rounds_try_nothing():
    assert set(played({PROXIMAL: 0.9 * fastest.WORTH, DUAL: 0.0, PRIMAL: 0.0})) == {PROXIMAL}


@pytest.mark.parametrize("best", TIMED)
def test_the_fastest_engine_solves_nearly_all_rounds(best):
    seconds = {each: 1.0 if each is best else 3.0 for each in TIMED}
    used = played(seconds)
    assert used[0] is PROXIMAL and set(used[:3]) == set(TIMED)
    assert used[3:10] == [best] * 7
    others = [k for k, each in enumerate(used) if each is not best]
    assert 8 <= len(others) <= 12, "each of the others: once at first, then after 16, 64, 256 rounds"
    assert np.diff(others).max() > 100
    assert sum(seconds[each] for each in used) <= 1.1 * len(used)


def test_an_engine_that_becomes_faster_is_found_and_one_that_fails_is_left():
    choice = Choice()
    for engine, seconds in ((PROXIMAL, 1.0), (DUAL, 2.0), (PRIMAL, math.inf)):
        assert choice.engine() is engine
        choice = choice.after(engine, seconds)
    assert choice.best is PROXIMAL and choice.records[PRIMAL].cost == math.inf
    for _ in range(40):
        engine = choice.engine()
        choice = choice.after(engine, {PROXIMAL: 1.0, DUAL: 0.3, PRIMAL: math.inf}[engine])
    assert choice.best is DUAL
    assert choice.after(DUAL, math.inf).best is PROXIMAL


def test_one_slow_round_decides_nothing():
    choice = Choice({PROXIMAL: Record((1.0,)), DUAL: Record((0.5, 0.5)), PRIMAL: Record((2.0,), wait=9)})
    assert choice.after(DUAL, 50.0).best is DUAL
    assert choice.after(DUAL, 50.0).after(DUAL, 50.0).after(DUAL, 50.0).best is PROXIMAL


def binding(requests=150, columns=8, rows=120, seed=0):
    """Return a program in which nearly all resources bind, and a function that changes its capacities."""
    rng = np.random.default_rng(seed)
    program = ContinualProgram()
    capacity = np.full(rows, 0.05 * requests * columns * 3 / rows + 1.0)
    program.add_resources(range(rows), upper=capacity)
    for q in range(requests):
        usage = {}
        for column in range(columns):
            for row in rng.choice(rows, 3, replace=False).tolist():
                where, much = usage.setdefault(row, ([], []))
                where.append(column)
                much.append(float(rng.uniform(0.5, 2.0)))
        program.add_request(q, -rng.random(columns) - 0.1, usage, total=1.0)

    def change():
        program.update_resources(range(rows), upper=capacity * rng.uniform(0.9, 1.1, rows))

    return program, change


@pytest.fixture
def at_once(monkeypatch):
    """Let simplex win whatever the clock says: rounds of the proximal-point method count as slow."""
    real = Choice.after

    def after(choice, engine, seconds):
        return real(choice, engine, 1e3 + seconds if engine is PROXIMAL else seconds)

    monkeypatch.setattr(Choice, "after", after)
    monkeypatch.setattr(fastest, "_INVESTED", 1e9)
    monkeypatch.setattr(fastest, "_RUNAWAY", 1e9)
    monkeypatch.setattr(fastest, "_PATIENCE", 1e9)


def test_simplex_solves_later_rounds_with_the_same_optimum(at_once):
    program, change = binding()
    solver, reference, used = make_solver("copter"), make_solver("highs-simplex", tolerance=1e-9), []
    for number in range(12):
        if number % 4 == 3:  # columns come and go
            program.remove_request(number)
            program.add_request(("new", number), [-3.0, -2.0], {number: [1.0, 0.5]}, total=1.0)
        change()
        solution, best = solver.solve(program), reference.solve(program)
        assert solution.is_optimal(1e-6) and solution.gap <= 1e-6
        assert solution.objective == pytest.approx(best.objective, rel=2e-6)
        assert solution.bound <= best.objective + 1e-9 * abs(best.objective)
        used.append(solution.details["engine"])
    assert used[:2] == [PROXIMAL, PROXIMAL] and PROXIMAL not in used[2:] and {DUAL, PRIMAL} <= set(used)
    assert solver.solve(program).details["engine"] is PROXIMAL, "nothing changed: the last answer is given"


@pytest.mark.parametrize("kept", [True, False])
def test_a_search_that_is_cut_short_goes_on_soon_and_one_that_begins_again_waits(at_once, monkeypatch, kept):
    def cut(*_, **__):
        if not kept:
            raise Interrupted  # HiGHS had to be abandoned

    monkeypatch.setattr("copter.models.highs.HighsEngine.run_hot", cut)
    began, solved = fastest.EngineTimes.began, fastest.EngineTimes.solved
    monkeypatch.setattr(fastest.EngineTimes, "began", lambda self, _: began(self, 4.0))
    monkeypatch.setattr(fastest.EngineTimes, "solved", lambda self, by, _, **late: solved(self, by, 1.0))
    searched, point = [], fastest.EngineTimes.point
    monkeypatch.setattr(fastest.EngineTimes, "point", lambda *these: searched.append(number) or point(*these))
    program, change = binding()
    solver = make_solver("copter")
    for number in range(20):
        change()
        assert solver.solve(program).details["engine"] == "proximal", number
    assert searched == ([2, 4, 6, 9, 13, 18] if kept else [2, 8])  # after 5, 7, 9, ... seconds, or 5 and 11


def test_rounds_by_simplex_do_not_count_as_search(at_once, monkeypatch):
    """A model that is lost after many rounds is searched again with the whole share of the rounds' time."""
    monkeypatch.setattr(fastest, "_INVESTED", 0.5)
    real, limits = fastest.Clock, []
    monkeypatch.setattr(
        fastest, "Clock", lambda limit, parent: limits.append(limit) or real(limit, parent=parent)
    )
    monkeypatch.setattr(fastest.EngineTimes, "began", lambda self, _: setattr(self, "_spent", 4e3))
    program, change = binding()
    solver, used = make_solver("copter"), []
    for number in range(40):
        change()
        if number == 30:
            solver._times.has_model, solver._times._model = False, None
        used.append(solver.solve(program).details["engine"])
    assert used[1] == "proximal" and used[30] != "proximal" and used.count("proximal") < 8
    first, again = limits[0], limits[used[2:30].count("dual_simplex") + used[2:30].count("primal_simplex")]
    assert first == pytest.approx(2e3, rel=0.1) and again >= first


def test_only_the_name_copter_measures():
    program, change = binding()
    for solver in (ProximalPoint(), make_solver("copter", engine="proximal")):
        for _ in range(5):
            change()
            assert solver.solve(program).details["engine"] is PROXIMAL


@pytest.mark.parametrize("fault", ["late", "no optimum", "wrong"])
def test_the_proximal_method_solves_a_round_that_simplex_does_not(at_once, monkeypatch, fault):
    program, change = binding()
    solver = make_solver("copter")
    for _ in range(6):
        change()
        solution = solver.solve(program)
    assert solution.details["engine"] is not PROXIMAL
    asked = []

    def run_until(*_, **__):
        asked.append(fault)
        if fault == "late":
            raise Interrupted("late")

    def point(model):
        asked.append(fault)
        good = real(model)
        return None if good is None or fault == "no optimum" else (good[0], np.zeros_like(good[1]))

    real = KeptModel.point
    if fault == "late":
        monkeypatch.setattr("copter.models.highs.HighsEngine.run_hot", run_until)
    else:
        monkeypatch.setattr(KeptModel, "point", point)
    for _ in range(3):
        change()
        solution = solver.solve(program)
        assert solution.is_optimal(1e-6) and solution.details["engine"] is PROXIMAL
    assert asked


@pytest.mark.parametrize("how", [copy.copy, copy.deepcopy, lambda both: pickle.loads(pickle.dumps(both))])
def test_a_copy_makes_a_model_of_its_own(at_once, how):
    program, change = binding()
    solver = make_solver("copter")
    for _ in range(6):
        change()
        solver.solve(program)
    other, twin = (program, how(solver)) if how is copy.copy else how((program, solver))
    used = []
    for number in range(4):
        change()
        other.update_resources(0, upper=1.0 + number)
        mine, its = solver.solve(program), twin.solve(other)
        assert mine.is_optimal(1e-6) and its.is_optimal(1e-6)
        assert mine.details["engine"] is not PROXIMAL
        used.append(its.details["engine"])
    assert twin._times is not solver._times and set(used) - {PROXIMAL}


def test_another_program_begins_without_a_history(at_once):
    (one, change), (other, change_other) = binding(), binding(seed=1)
    solver = make_solver("copter")
    for _ in range(6):
        change()
        solver.solve(one)
    for number in range(2):
        change_other()
        solution = solver.solve(other)
        assert solution.is_optimal(1e-6) and solution.details["engine"] is PROXIMAL, number


def test_a_deadline_between_the_engines_times_is_met_by_simplex(monkeypatch):
    """The proximal-point method always misses the deadline, so simplex has no time of it to compare with."""
    program, change = binding()
    solver, real = make_solver("copter"), loop.by_steps
    change()
    solver.solve(program)
    monkeypatch.setattr(fastest, "by_steps", lambda run: real(run)._replace(status=Status.DEADLINE))
    ends = []
    for _ in range(8):
        change()
        ends.append(solver.solve(program, time_limit=5.0))
    assert ends[0].status is Status.DEADLINE and ends[0].details["engine"] is PROXIMAL
    assert all(end.is_optimal(1e-6) and end.details["engine"] is not PROXIMAL for end in ends[-5:])


def test_a_round_without_an_optimum_and_one_without_time_are_no_failures_of_simplex(at_once):
    program, change = binding()
    solver = make_solver("copter")
    for _ in range(6):
        change()
        assert solver.solve(program).is_optimal(1e-6)
    program.update_resources(0, lower=1e6, upper=2e6)
    assert solver.solve(program).status is Status.INFEASIBLE
    program.update_resources(0, lower=-np.inf, upper=2.0)
    solver.solve(program, time_limit=1e-9)
    for _ in range(3):
        change()
        solution = solver.solve(program)
    assert solution.is_optimal(1e-6) and solution.details["engine"] is not PROXIMAL


def test_rounds_with_few_edits_leave_the_model_for_the_others():
    choice = fastest.EngineTimes()
    choice.has_model, choice._model = True, object()
    records = {PROXIMAL: Record((9.0,), wait=9), DUAL: Record((1.0,)), PRIMAL: Record((2.0,), wait=9)}
    choice._choices[False] = Choice(records)
    choice._few = True
    choice.solved(PROXIMAL, 1e-4)
    assert choice.has_model, "few edits: the proximal-point method is best, but not with many"
    choice._choices[False] = choice._choices[True]
    choice.solved(PROXIMAL, 1e-4)
    assert not choice.has_model


def test_a_given_start_is_used(at_once):
    program, change = binding()
    solver = make_solver("copter")
    for _ in range(6):
        change()
        solution = solver.solve(program)
    assert solution.details["engine"] is not PROXIMAL
    change()
    solver.start_from(program, solution.nonzeros, solution.y)
    assert solver.solve(program).details["engine"] is PROXIMAL


def test_a_trial_that_fails_is_not_repeated_in_the_next_round(at_once, monkeypatch):
    program, change = binding()
    solver, tried, real = make_solver("copter"), [], fastest.EngineTimes.point

    def point(self, run, engine):
        tried.append(engine)
        return None if engine is PRIMAL else real(self, run, engine)

    monkeypatch.setattr(fastest.EngineTimes, "point", point)
    for _ in range(12):
        change()
        assert solver.solve(program).is_optimal(1e-6)
    assert tried.count(PRIMAL) == 1 and tried.count(DUAL) == 10


def test_a_slow_trial_of_the_proximal_method_ends_early_and_the_best_engine_solves_the_round(
    at_once, monkeypatch
):
    program, change = binding()
    solver, begun = make_solver("copter"), []

    def never_ends(run):
        begun.append(run)
        while not run.budget.late():
            time.sleep(1e-3)
        return loop.out_of_time(run)

    used = []
    monkeypatch.setattr(Choice, "limit", lambda choice, engine: 0.02 if engine is PROXIMAL else 1e9)
    for number in range(40):
        change()
        if number == 6:
            monkeypatch.setattr(fastest, "by_steps", never_ends)
        solution = solver.solve(program)
        assert solution.is_optimal(1e-6)
        used.append(solution.details["engine"])
    assert len(begun) == 1, "the first trial is after 16 rounds, the second 64 later"
    assert PROXIMAL not in used[6:]
