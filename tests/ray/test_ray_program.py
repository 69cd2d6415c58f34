"""RayProgram: bit by bit the answers of one process, whatever the number of actors, and what they hold."""

from __future__ import annotations

import copy
import pickle

import numpy as np
import pytest

from copter import ContinualProgram, make_solver
from copter.errors import EditError, SettingError, UnsupportedError

pytest.importorskip("ray")


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


def fill(program, rng):
    """Requests that share a template, some with costs that they share, and some with all of their own."""
    program.add_resource_rows(["a", "b", "c"], [20.0, 30.0, 25.0])
    usage = {"a": ([1, 2, 3], [1, 2, 4]), "b": ([4, 5, 6], [1, 2, 4]), "c": ([7, 8], [1, 2])}
    template = program.add_template(usage, 9)
    vector = program.add_cost_vector(-3 * rng.random(9))
    costs = -4 * rng.random(9 * 120)
    program.add_requests(list(range(120)), costs, np.full(120, 9), template, totals=1.0)
    scales = rng.random(20) + 0.5
    ids = [("shared", k) for k in range(20)]
    program.add_requests(ids, vector, None, template, totals=1.0, relation="==", scales=scales)
    program.update_request(("shared", 3), override={2: -0.5, 4: -7.0})
    for k in range(7):
        own = {"a": [1, 2, 0], "b": [0.0, 1, 1 + k]}
        program.add_request(("own", k), -rng.random(3), own, upper=[1.0, 2.0, 0.5])


def edit(program, rng):
    """A round's edits: some requests go, some come, some change, and a row."""
    gone = rng.choice([id for id in program.request_ids if isinstance(id, int)], 10, replace=False).tolist()
    program.remove_requests(gone)
    changed = [id for id in program.request_ids[:60] if isinstance(id, int)]
    program.update_requests(changed, scales=rng.random(len(changed)) + 0.5)
    program.update_request(("own", 2), costs=-rng.random(3), upper=[0.5, 1.0, 0.25])
    for id in gone[:4]:
        program.add_request(("new", id, program.store.clock), -rng.random(2), {"c": [1.0, 0.5]}, total=1)
    program.set_capacity("a", upper=float(rng.integers(15, 25)))


def answers(program):
    """What three rounds say, bit by bit."""
    rng, solver, said = np.random.default_rng(7), make_solver("copter", tolerance=1e-6), []
    fill(program, rng)
    for _ in range(3):
        solution = solver.solve(program)
        assert solution.status == "optimal"
        x = [part.tobytes() for part in solution.nonzeros]
        said.append((solution.objective, solution.bound, solution.primal_residual, x))
        edit(program, rng)
    return said


@pytest.mark.parametrize("actors", [1, 4])
def test_bitwise_the_answers_of_one_process(ray_program, actors):
    program = ray_program(actors, parts=8)
    assert answers(program) == answers(here := ContinualProgram())
    ours, theirs = vars(program.read_requests()), vars(here.read_requests())
    assert ours.keys() == theirs.keys()
    for name in ("ids", "totals", "relation", "starts", "terms"):
        assert ours[name] == theirs[name]
    for name in ("costs", "sizes", "upper", "scales", "integral"):
        np.testing.assert_array_equal(ours[name], theirs[name])
    np.testing.assert_array_equal(ours["usage"].toarray(), theirs["usage"].toarray())
    assert program.override(("shared", 3)) == here.override(("shared", 3))
    assert repr(program).removeprefix("<RayProgram") == repr(here).removeprefix("<ContinualProgram")


def test_each_actor_holds_its_share(ray_program):
    program = ray_program(2, parts=8)
    template = program.add_template({}, 50)
    rng = np.random.default_rng(0)
    program.add_requests(range(4000), rng.random(200_000), np.full(4000, 50), template)
    held = [each["bytes"] for each in program.memory()]
    assert max(held) < 1.1 * min(held)
    assert min(held) >= 200_000 * 8 / 2
    assert program.store.costs.used == 0


def test_a_refused_edit_changes_nothing_at_the_actors(ray_program):
    program = ray_program(2, parts=4)
    program.add_resource("a", upper=3.0)
    program.add_request("q", [1.0, 2.0], {"a": [1.0, 2.0]})
    with pytest.raises(EditError):
        program.update_requests(["q"], costs=[[5.0, np.nan]], scales=2.0)
    assert program.costs("q").tolist() == [1.0, 2.0]


def test_what_it_cannot_do_is_said(ray_program):
    program = ray_program(1)
    for copied in (copy.copy, copy.deepcopy, pickle.dumps):
        with pytest.raises(UnsupportedError, match="cannot be copied"):
            copied(program)
    with pytest.raises(SettingError, match="actors"):
        ray_program(5, parts=4)


def test_an_actor_that_is_killed_is_made_again(ray_program):
    import ray

    program, here = ray_program(2, parts=4), ContinualProgram()
    for each in (program, here):
        fill(each, np.random.default_rng(1))
    solvers = [make_solver("copter", tolerance=1e-6) for _ in range(2)]
    for k in range(2):
        ray.kill(program.store.places.actors[k].handle)
        found, wanted = (solver.solve(p) for solver, p in zip(solvers, (program, here), strict=True))
        assert (found.objective, found.bound) == (wanted.objective, wanted.bound)
        for each in (program, here):
            edit(each, np.random.default_rng(k))
