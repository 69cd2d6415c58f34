"""RayProgram: bit by bit the answers of one process, whatever the number of actors, and what they hold."""

from __future__ import annotations

import copy
import pickle

import numpy as np
import pytest

from copter import ContinualProgram, Journal, make_solver
from copter.errors import CopterError, EditError, SettingError, UnsupportedError, UnusableError
from copter.store.edit import Edit

pytest.importorskip("ray")

from ray_kills import Truth, make_round, new_solver, of_answer, of_content

pytestmark = pytest.mark.cluster


@pytest.fixture
def ray_program(local_ray):
    """Makes programs on actors that take no processor, so that any number of them runs at once."""
    from copter.ray import RayProgram

    made = []

    def make(actors, **options):
        made.append(RayProgram(actors, num_cpus=0, **options))
        return made[-1]

    yield make
    for program in made:
        program.close()


@pytest.mark.parametrize("actors", [1, 3])
def test_bitwise_the_answers_of_one_process(ray_program, actors):
    program, solver, truth = ray_program(actors, parts=8), new_solver(), Truth()
    truth.upto(3)
    for number in range(3):
        make_round(program, number)
        solution = solver.solve(program)
        assert solution.status == "optimal" and of_answer(solution) == truth.answers[number]
    assert of_content(program) == truth.contents[3]
    here = truth.program
    assert program.requests[("other", 2)].override == here.requests[("other", 2)].override
    assert repr(program).removeprefix("<RayProgram") == repr(here).removeprefix("<ContinualProgram")


def test_each_actor_holds_its_share(ray_program):
    program = ray_program(2, parts=8)
    template = program.share_columns({}, 50)
    rng = np.random.default_rng(0)
    program.add_requests(range(4000), rng.random(200_000), np.full(4000, 50), template, totals=1)
    held = [each["bytes"] for each in program.memory()]
    assert max(held) < 1.1 * min(held)
    assert min(held) >= 200_000 * 8 / 2
    assert not hasattr(program.store, "costs")  # no column is here


def test_a_refused_edit_changes_nothing_at_the_actors(ray_program):
    program = ray_program(2, parts=4)
    program.add_resource("a", upper=3.0)
    program.add_request("q", [1.0, 2.0], {"a": [1.0, 2.0]}, total=1)
    with pytest.raises(EditError):
        program.update_requests(["q"], costs=[[5.0, np.nan]], scales=2.0)
    assert program.requests["q"].costs.tolist() == [1.0, 2.0]


def test_what_it_cannot_do_is_said(ray_program):
    program = ray_program(1)
    for copied in (copy.copy, copy.deepcopy, pickle.dumps):
        with pytest.raises(UnsupportedError, match="cannot be copied"):
            copied(program)
    for actors, parts, why in (
        (5, 4, "parts = 4: must be at least the number of actors, 5"),
        (0, None, "actors = 0: must be at least 1"),
        (2, 0, "parts = 0: must be at least"),
    ):
        with pytest.raises(SettingError, match=why):
            ray_program(actors, parts=parts)
    with pytest.raises(SettingError, match="Ray has 0 tpu"):
        ray_program(1, resources={"tpu": 1})


def test_actors_without_a_place_are_reported_and_given_up(local_ray, monkeypatch, caplog):
    import copter.ray.actors
    from copter.ray import RayProgram

    with RayProgram(1, num_cpus=3) as first:
        first.memory()  # it has its place
        monkeypatch.setattr(copter.ray.actors, "_PLACE_GIVE_UP", 0.5)
        monkeypatch.setattr(copter.ray.actors, "_PLACE_WARN", 0.1)
        with RayProgram(2, num_cpus=1) as second:
            second.add_resource("a", upper=1.0)
            with pytest.raises(CopterError, match="has not started .* needs 1 CPU .Ray has 3, free"):
                make_solver("copter").solve(second)
    assert "actor 0 has not started" in caplog.text


def test_an_edit_that_an_actor_cannot_make_is_an_error_each_time(ray_program):
    program = ray_program(1)
    program.add_resource("a", upper=3.0)
    program.add_request("q", [-1.0, -2.0], {"a": [1.0, 2.0]}, total=1)
    _ = program.requests["q"].costs
    program.store.executor.log(Edit("forget_columns", slots=np.array([7])))
    for _ in range(2):
        with pytest.raises(UnusableError, match="actor 0 does not have all edits .KeyError: 7"):
            _ = program.requests["q"].costs
        with pytest.raises(UnusableError, match="actor 0 does not have all edits"):
            make_solver("copter").solve(program)
        program.update_request("q", scale=2.0)


def test_an_actor_is_made_again_from_nothing_that_lay_on_its_node(ray_program, monkeypatch):
    """What an actor returned lies where it ran."""
    import copter.ray.actors

    monkeypatch.setattr(copter.ray.actors, "_SNAPSHOT_FROM", 0)
    program, here, calls = ray_program(1), ContinualProgram(), []
    (actor,) = program.store.executor.workers.actors
    call = actor.call

    def noted(*arguments):
        ref = call(*arguments)
        calls.append((arguments, ref))
        return ref

    monkeypatch.setattr(actor, "call", noted)
    for number in range(3):
        for each in (program, here):
            each.add_resource(number, upper=3.0)
            costs = np.random.default_rng(number).random(4000)
            ids = [(number, k) for k in range(100)]
            each.add_requests(ids, costs, np.full(100, 40), [{}] * 100, totals=1)
        assert program.nnz == here.nnz
    returned = [ref for _, ref in calls]
    assert any("snapshot" in arguments for arguments, _ in calls)
    calls.clear()
    actor.revive(RuntimeError("its node died"))
    (stores,) = [arguments[1] for arguments, _ in calls if arguments[0] == "restore"]
    assert stores not in returned
    assert program.requests[(0, 5)].costs.tolist() == here.requests[(0, 5)].costs.tolist()
    assert program.requests[(2, 5)].costs.tolist() == here.requests[(2, 5)].costs.tolist()


def test_actors_that_were_filled_from_a_journal_are_made_again_and_closed_ones_say_so(ray_program, tmp_path):
    for opening in range(3):
        program = ray_program(1, parts=2)
        with Journal(tmp_path, make_solver("copter"), program=program) as journal:
            if opening == 0:
                journal.add_requests(["q", "r"], [1.0, 2.0, 3.0], [2, 1], [{}, {}], totals=1)
            if opening == 1:
                program.store.executor.workers.actors[0].revive(RuntimeError("killed"))
                journal.update_request("r", scale=2.0)
            assert journal.requests["q"].costs.tolist() == [1.0, 2.0]
            assert journal.requests["r"].costs.tolist() == [6.0 if opening else 3.0]
            journal.compact()
        program.close()
        for ask in (program.memory, lambda program=program: program.nnz):
            with pytest.raises(UnusableError, match="closed"):
                ask()


def test_an_answer_that_was_lost_with_its_node_is_asked_again(ray_program, monkeypatch):
    import ray

    from copter.ray import actors

    program = ray_program(1)
    program.add_request("q", [1.0, 2.0], {}, total=1)
    _ = program.requests["q"].costs
    get, lost = ray.get, []

    def lose(ref):
        if not lost:
            lost.append(ref)
            raise ray.exceptions.ObjectLostError(ref.hex(), None, "")
        return get(ref)

    monkeypatch.setattr(actors.ray, "get", lose)
    assert program.requests["q"].costs.tolist() == [1.0, 2.0]
    assert lost and program.store.executor.workers.actors[0].revived == 1


def test_an_actor_that_is_killed_is_made_again(ray_program):
    import ray

    program, solver, truth = ray_program(2, parts=4), new_solver(), Truth()
    truth.upto(2)
    for number in range(2):
        make_round(program, number)
        ray.kill(program.store.executor.workers.actors[number].handle)
        assert of_answer(solver.solve(program)) == truth.answers[number]


def test_no_ray_is_left_by_a_program_that_could_not_be_made(monkeypatch):
    import ray

    from copter.ray import RayProgram, session

    running = []
    monkeypatch.setattr(session, "_node", lambda: "here")
    monkeypatch.setattr(ray, "nodes", lambda: [{"Alive": True, "Resources": {"CPU": 1.0}}])
    monkeypatch.setattr(ray, "is_initialized", lambda: bool(running))
    monkeypatch.setattr(ray, "init", lambda *_, **__: running.append(1))
    monkeypatch.setattr(ray, "shutdown", running.clear)
    with pytest.raises(ValueError, match="cannot be negative"):
        RayProgram(1, resources={"x": -1})
    assert not running
