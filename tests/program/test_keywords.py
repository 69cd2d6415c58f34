"""Misspelt keywords and attributes: a TypeError or an AttributeError that is no EditError, and no edit."""

import copy
import inspect
import pickle

import pytest

from copter import (
    ChooseOneShim,
    ContinualProgram,
    FlowShim,
    Journal,
    ProximalPoint,
    Rounds,
    UtilisationShim,
    make_solver,
)
from copter.errors import CopterError, EditError, NoAllocationError, UnknownIdError, choices
from copter.solvers.api import SOLVERS, Solver
from support.machines import Machines
from support.rich_program import rich
from support.strategies import snapshot

EDIT_METHODS = sorted(
    name
    for name, method in vars(ContinualProgram).items()
    if inspect.isfunction(method) and hasattr(method, "__wrapped__")
)


def misspelt(names):
    """A name that is close to the last of some, and none of them."""
    return names[-1][:-1] + "_" + names[-1][-1]


@pytest.mark.parametrize("method", EDIT_METHODS)
@pytest.mark.parametrize("kept", ["in memory", "in a journal"])
def test_every_edit_method_names_the_keyword_and_the_nearest_one(method, kept, tmp_path):
    with Journal(tmp_path, ProximalPoint()) as journal:
        program = rich() if kept == "in memory" else journal
        verb = getattr(program, method)
        known = list(inspect.signature(verb).parameters)
        if not known:
            return
        wrong, before = misspelt(known), snapshot(program)
        with pytest.raises(TypeError) as raised:
            verb(**{wrong: 1})
        assert not isinstance(raised.value, CopterError)
        assert f"{method}() got an unexpected keyword argument {wrong!r}" in str(raised.value)
        assert f"did you mean {known[-1]}?" in str(raised.value)
        assert snapshot(program) == before


def test_there_are_the_edit_methods_that_the_test_above_is_about():
    assert {"add_request", "update_requests", "price_moves", "update_resources", "forget"} <= set(
        EDIT_METHODS
    )


@pytest.mark.parametrize(("given", "meant"), [("capacity", "upper"), ("totls", "total"), ("size", "sizes")])
def test_the_usual_words_for_others_are_known(given, meant):
    verb = {"upper": "add_resource", "total": "add_request", "sizes": "add_requests"}[meant]
    with pytest.raises(TypeError, match=f"did you mean {meant}"):
        getattr(rich(), verb)(**{given: 1})


@pytest.mark.parametrize(
    ("given", "meant"),
    [
        *(("tol", "tolerance"), ("eps", "tolerance"), ("timeout", "time_limit"), ("deadline", "time_limit")),
        *(("max_iter", "iteration_limit"), ("n_jobs", "threads"), ("iter", "iteration_limit")),
    ],
)
def test_short_and_usual_names_of_settings_are_known(given, meant):
    with pytest.raises(TypeError, match=f"keyword argument {given!r}; did you mean {meant}"):
        make_solver("copter", **{given: 1})


def test_only_one_of_several_longer_names_is_suggested():
    assert choices("high", ["highs-hot-start", "highs-simplex-cold"]).startswith("there are")
    assert choices("cos", ["cost_of_all_columns", "use"]).startswith("did you mean cost_of_all_columns?")


def test_a_type_error_of_right_keywords_stays_what_it_is():
    with pytest.raises(TypeError, match="missing 1 required positional argument: 'usage'"):
        rich().add_request("c", [1.0])


@pytest.mark.parametrize("name", SOLVERS)
def test_solvers_name_the_keyword_of_a_solve_and_the_attribute(name):
    solver = make_solver(name)
    with pytest.raises(
        TypeError, match="solve.. got an unexpected keyword argument 'time_limi'; did you mean t"
    ):
        solver.solve(rich(), time_limi=1.0)
    with pytest.raises(AttributeError, match="no attribute 'tolerence'; did you mean tolerance"):
        solver.tolerence = 1e-3
    assert not hasattr(solver, "tolerence")
    solver.tolerance = 1e-3
    for other in (copy.copy(solver), copy.deepcopy(solver), pickle.loads(pickle.dumps(solver))):
        assert other.tolerance == 1e-3
        with pytest.raises(AttributeError, match="no attribute 'time_limi'; did you mean time_limit"):
            other.time_limi = 1.0
    rounds = Rounds(Machines())
    with pytest.raises(AttributeError, match="Rounds has no attribute 'deadline'; did you mean time_limit"):
        rounds.deadline = 1.0
    with pytest.raises(TypeError, match="'deadline'; did you mean time_limit"):
        Rounds(Machines(), deadline=1.0)


@pytest.mark.parametrize(
    ("made", "wrong", "meant"),
    [
        (ProximalPoint, "tolerence", "tolerance"),
        (ProximalPoint, "warmstart", "warm_start"),
        (ChooseOneShim, "unplacd", "unplaced"),
        (UtilisationShim, "thetta", "theta"),
    ],
)
def test_constructors_name_the_keyword(made, wrong, meant):
    with pytest.raises(TypeError, match=f"{made.__name__}.. got an .*{wrong!r}; did you mean {meant}"):
        made(**{wrong: 1})
    assert meant in inspect.signature(made).parameters or made is ProximalPoint


@pytest.mark.parametrize("shim", [ChooseOneShim(), FlowShim(), UtilisationShim()])
def test_shims_name_the_keyword_of_a_rounding_the_attribute_and_what_is_no_solution(shim):
    program = rich()
    with pytest.raises(TypeError, match=r"round\(\) got .*'solutoin'; did you mean solution"):
        shim.round(program, solutoin=None)
    with pytest.raises(AttributeError, match=f"{type(shim).__name__} has no attribute 'unplacd'"):
        shim.unplacd = "allow"
    for wrong in (None, "optimal", 1.0):
        with pytest.raises(TypeError, match="must be a Solution"):
            shim.round(program, wrong)


class Counting(Solver):
    """A solver of somebody else, which sets what it likes while it is made."""

    def __init__(self, name="counting"):
        super().__init__(name)
        self.rounds, self.label = 0, "a"

    def solve(self, program, *, time_limit=None, raise_error=False):
        self.rounds += 1
        return make_solver("copter").solve(program, time_limit=time_limit, raise_error=raise_error)


def test_a_solver_of_ones_own_sets_what_it_likes_while_it_is_made():
    solver = Counting()
    solver.solve(rich())
    assert solver.rounds == 1
    with pytest.raises(AttributeError, match="Counting has no attribute 'round'"):
        solver.round = 2
    with pytest.raises(TypeError, match=r"Counting\(\) got an unexpected keyword argument 'label'"):
        Counting(label="b")


def test_look_ups_of_what_is_not_there_raise_one_class():
    program = ContinualProgram()
    program.add_resource("gpu", 1.0)
    program.add_request("a", [-1.0], {"gpu": 1.0}, total=1.0)
    solution = make_solver("copter").solve(program)
    rounded = ChooseOneShim().round(program, solution)
    look_ups = [
        lambda: program.requests["z"],
        lambda: program.resources["z"],
        lambda: program.requests[["a", "z"]],
        lambda: solution.x["z"],
        lambda: solution.x.nonzeros("z"),
        lambda: solution.price["z"],
        lambda: rounded.choice["z"],
        lambda: program.update_request("z", scale=2.0),
        lambda: program.remove_request("z"),
        lambda: program.price_moves("z", [0], 1.0),
    ]
    for look_up in look_ups:
        with pytest.raises(UnknownIdError, match="'z'") as raised:
            look_up()
        assert isinstance(raised.value, KeyError) and isinstance(raised.value, EditError)
        assert str(pickle.loads(pickle.dumps(raised.value))) == str(raised.value)
    assert solution.x.get("z") is None and solution.price.get("z") is None
    assert rounded.choice.get("z") is None and "z" not in program.requests


@pytest.mark.parametrize("name", SOLVERS)
def test_every_use_of_an_allocation_that_is_not_there_says_why(name):
    program = ContinualProgram()
    program.add_resource("gpu", 8.0)
    program.add_request("t", [1.0], {"gpu": 100.0}, total=1.0, relation="==")
    solution = make_solver(name).solve(program)
    assert not solution.found and not solution.x and solution.nonzeros.value.size == 0
    uses = [
        lambda x: x["t"],
        lambda x: x["z"],
        lambda x: x.get("t"),
        lambda x: x.nonzeros("t"),
        lambda x: x.arrays(),
        lambda x: x.choices(),
        lambda x: list(x),
        lambda x: len(x),
        lambda x: dict(x),
        lambda x: "t" in x,
    ]
    for x in (solution.x, pickle.loads(pickle.dumps(solution.x))):
        for use in uses:
            with pytest.raises(NoAllocationError, match="there is no allocation: infeasible: "):
                use(x)
        assert repr(x).startswith("<no allocation: infeasible: ")
