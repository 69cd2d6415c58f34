"""Copies of a program: independent of it, the same in every bit, and the same in what they answer next."""

from __future__ import annotations

import copy
import pickle

import numpy as np
import pytest

from copter import ContinualProgram, make_solver
from copter.errors import CopterError, EditError
from support.strategies import random_plain

WAYS = {
    "copy": copy.copy,
    "deepcopy": copy.deepcopy,
    "pickle": lambda pair: pickle.loads(pickle.dumps(pair)),
    "old pickle": lambda pair: pickle.loads(pickle.dumps(pair, protocol=2)),
}


@pytest.mark.parametrize("name", ["highs-hot", "highs-simplex", "highs-ipm", "glop", "pdlp"])
@pytest.mark.parametrize("way", ["copy", "deepcopy", "pickle"])
def test_other_solvers_are_copied_too(name, way):
    program, solver = random_plain(np.random.default_rng(3), "packing").build(), make_solver(name)
    first = solver.solve(program)
    again = WAYS[way](solver)
    assert solver.solve(program).objective == pytest.approx(first.objective, rel=1e-5)
    assert again.solve(program).objective == pytest.approx(first.objective, rel=1e-5)


def test_a_copy_of_highs_hot_starts_cold():
    program, solver = random_plain(np.random.default_rng(3), "packing").build(), make_solver("highs-hot")
    solver.solve(program)
    twin, its = copy.deepcopy((program, solver))
    found = its.solve(twin)
    assert (found.warm_started, found.warm_reason) == (False, "nothing of the last round is left")
    assert solver.solve(program).warm_started


def test_handles_of_templates_are_good_for_copies_but_not_for_other_programs():
    one, other = ContinualProgram(), ContinualProgram()
    for program in (one, other):
        program.add_resource("a", 1.0)
    template, others = (program.share_columns({"a": 1.0}, 1) for program in (one, other))
    for way in WAYS.values():
        twin = way(one)
        twin.add_request("x", [1.0], template, upper=1e3)
        with pytest.raises(EditError, match="must be a handle of shared columns that this program made"):
            twin.add_request("y", [1.0], others)
    twin = copy.copy(one)
    mine, its = one.share_columns({"a": 2.0}, 1), twin.share_columns({"a": 3.0}, 1)
    with pytest.raises(CopterError):
        one.add_request("z", [1.0], its)
    with pytest.raises(CopterError):
        twin.forget(mine)


def test_ids_of_a_deep_copy_are_the_same_objects():
    program, job = ContinualProgram(), object()
    program.add_resource("a", 1.0)
    program.add_request(job, [-1.0], {"a": 1.0}, upper=1e3)
    assert copy.deepcopy(program).requests[job].costs.tolist() == [-1.0]
