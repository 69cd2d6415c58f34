"""Every documented error: it names what was wrong, and leaves the program bit by bit as it was."""

from __future__ import annotations

import math
import pickle

import numpy as np
import pytest
from scipy.sparse import csc_array

from copter import ChooseOneShim, ContinualProgram, Journal, ProximalPoint, make_solver
from copter.errors import CopterError, EditError, UnknownSolverError
from copter.program.program import SharedColumns
from support.strategies import snapshot

INF, NAN = math.inf, math.nan
BULK = {"usage": csc_array((2, 3))}


@pytest.fixture
def program() -> ContinualProgram:
    """Two resources, a request with everything, one of a template, one with bounds per column."""
    program = ContinualProgram()
    program.add_resource("cpu", 8.0)
    program.add_resource("link", 5.0, lower=1.0)
    program.template = program.share_columns({"cpu": 1.0}, 3)
    program.add_request(
        "q",
        [1.0, 2.0],
        {"cpu": 1.0, "link": [1.0, 2.0]},
        total=1.0,
        scale=2.0,
        override={0: 5.0},
        start={0: 1.0},
    )
    program.add_request("t", [1.0, 2.0, 3.0], program.template, total=1.0, relation="==")
    program.add_request("u", [1.0, 2.0], {"cpu": 1.0}, upper=[1.0, 2.0])
    return program


RESOURCES = {
    "taken": (lambda p: p.add_resource("cpu", 1.0), "cpu", "id", "cpu"),
    "lower above upper": (lambda p: p.add_resource("new", 1.0, lower=2.0), "new", "lower", 2.0),
    "upper NaN": (lambda p: p.add_resource("new", NAN), "new", "upper", NAN),
    "lower NaN": (lambda p: p.add_resource("new", 1.0, lower=NAN), "new", "lower", NAN),
    "upper no number": (lambda p: p.add_resource("new", "many"), "new", "upper", "many"),
    "lower +inf": (lambda p: p.add_resource("new", INF, lower=INF), "new", "lower", INF),
    "upper -inf": (lambda p: p.add_resource("new", -INF), "new", "upper", -INF),
    "set unknown": (lambda p: p.update_resources("disk", upper=1.0), "disk", "id", "disk"),
    "set lower above": (lambda p: p.update_resources("cpu", lower=9.0), "cpu", "lower", 9.0),
    "set upper below": (lambda p: p.update_resources("link", upper=0.5), "link", "lower", 1.0),
    "set NaN": (lambda p: p.update_resources("cpu", upper=NAN), "cpu", "upper", NAN),
    "bulk unknown": (lambda p: p.update_resources(["cpu", "disk"], upper=[1, 2]), "disk", "id", "disk"),
    "bulk twice": (
        lambda p: p.update_resources(["cpu", "cpu"], upper=[1, 2]),
        "update_resources",
        "ids",
        "cpu",
    ),
    "bulk upper NaN": (lambda p: p.update_resources(["cpu", "link"], upper=[1, NAN]), "link", "upper", NAN),
    "bulk lower NaN": (lambda p: p.update_resources(["cpu", "link"], lower=[NAN, 1]), "cpu", "lower", NAN),
    "bulk upper below": (lambda p: p.update_resources(["cpu", "link"], upper=[1, 0.5]), "link", "lower", 1.0),
    "bulk both crossed": (
        lambda p: p.update_resources(["link", "cpu"], upper=[9, 1], lower=[8, 2]),
        "cpu",
        "lower",
        2.0,
    ),
    "bulk lower +inf": (
        lambda p: p.update_resources(["cpu", "link"], upper=[1, INF], lower=[1, INF]),
        "link",
        "lower",
        INF,
    ),
    "bulk upper -inf": (lambda p: p.update_resources(["cpu"], upper=[-INF]), "cpu", "upper", -INF),
    "bulk upper length": (
        lambda p: p.update_resources(["cpu"], upper=[1, 2]),
        "update_resources",
        "upper",
        (2,),
    ),
    "bulk lower length": (lambda p: p.update_resources(["cpu"], lower=[]), "update_resources", "lower", (0,)),
    "count unknown": (lambda p: p.update_resources("disk", by=1), "disk", "id", "disk"),
    "count negative": (lambda p: p.update_resources("cpu", by=-100), "cpu", "by", -100.0),
    "count NaN": (lambda p: p.update_resources("cpu", by=NAN), "cpu", "by", NAN),
    "count infinite": (lambda p: p.update_resources("cpu", by=-INF), "cpu", "by", -INF),
    "count below zero": (lambda p: p.update_resources("cpu", by=-9), "cpu", "by", -9.0),
    "count below lower": (lambda p: p.update_resources("link", by=-4.5), "link", "by", -4.5),
    "drop unknown": (lambda p: p.remove_resources("disk"), "disk", "id", "disk"),
    "capacity unknown": (lambda p: p.resources["disk"], "disk", "id", "disk"),
}

USAGE = {
    "unknown resource": ({"disk": 1.0}, "usage", "disk"),
    "unknown after a known": ({"cpu": 1.0, "disk": 1.0}, "usage", "disk"),
    "length": ({"cpu": [1.0, 2.0, 3.0]}, "usage['cpu']", (3,)),
    "two dimensions": ({"cpu": [[1.0, 2.0]]}, "usage['cpu']", (1, 2)),
    "NaN": ({"cpu": [1.0, NAN]}, "usage['cpu']", NAN),
    "infinite": ({"cpu": INF}, "usage['cpu']", INF),
    "no pair": ({"cpu": ([0], [1.0], [2.0])}, "usage['cpu']", ([0], [1.0], [2.0])),
    "a tuple of coefficients": ({"cpu": (1, 2)}, "usage['cpu']", (1, 2)),
    "three coefficients in a tuple": ({"cpu": (1.0, 2.5, 3.0)}, "usage['cpu']", (1.0, 2.5, 3.0)),
    "pair of two lengths": ({"cpu": ([0, 1], [1.0])}, "usage['cpu']", (1,)),
    "pair outside": ({"cpu": ([2], [1.0])}, "usage['cpu']", 2),
    "pair negative": ({"cpu": ([-1], [1.0])}, "usage['cpu']", -1),
    "pair twice": ({"cpu": ([1, 1], [1.0, 2.0])}, "usage['cpu']", "columns"),
    "pair NaN": ({"cpu": ([1], [NAN])}, "usage['cpu']", NAN),
}

FIELDS = {
    "costs NaN": ({"costs": [1.0, NAN]}, "costs", NAN),
    "costs infinite": ({"costs": [-INF, 1.0]}, "costs", -INF),
    "costs of two dimensions": ({"costs": [[1.0, 2.0]]}, "costs", (1, 2)),
    "no costs": ({"costs": []}, "costs", (0,)),
    "costs no numbers": ({"costs": ["a", "b"]}, "costs", ["a", "b"]),
    "total negative": ({"total": -0.5}, "total", -0.5),
    "total NaN": ({"total": NAN}, "total", NAN),
    "total infinite": ({"total": INF}, "total", INF),
    "total beyond floats": ({"total": 10**400}, "total", 10**400),
    "costs beyond floats": ({"costs": [10**400, 1]}, "costs", [10**400, 1]),
    "total no number": ({"total": "one"}, "total", "one"),
    "relation": ({"total": 1.0, "relation": ">="}, "relation", ">="),
    "equation without a total": ({"total": None, "relation": "=="}, "relation", "=="),
    "upper negative": ({"upper": -1.0}, "upper", -1.0),
    "upper NaN": ({"upper": [1.0, NAN]}, "upper", NAN),
    "upper length": ({"upper": [1.0, 1.0, 1.0]}, "upper", (3,)),
    "scale zero": ({"scale": 0.0}, "scale", 0.0),
    "scale negative": ({"scale": -1.0}, "scale", -1.0),
    "scale NaN": ({"scale": NAN}, "scale", NAN),
    "scale infinite": ({"scale": INF}, "scale", INF),
    "override outside": ({"override": {2: 1.0}}, "override", 2),
    "override negative": ({"override": {-1: 1.0}}, "override", -1),
    "override NaN": ({"override": {0: NAN}}, "override", NAN),
    "override infinite": ({"override": {0: INF}}, "override", INF),
    "override no mapping": ({"override": [1.0]}, "override", [1.0]),
    "start outside": ({"start": {0: 1.0, 7: 1.0}}, "start", 7),
    "start NaN": ({"start": {1: NAN}}, "start", NAN),
}

UPDATES = {
    "unknown": (lambda p: p.update_request("z", scale=2.0), "z", "id", "z"),
    "usage without costs": (lambda p: p.update_request("q", usage={}), "q", "costs", None),
    "costs of another length": (lambda p: p.update_request("q", costs=[1.0] * 3), "q", "costs", 3),
    "bounds per column": (lambda p: p.update_request("u", costs=[1.0], usage={}), "u", "upper", None),
    "remove unknown": (lambda p: p.remove_request("z"), "z", "id", "z"),
    "remove one unknown": (lambda p: p.remove_requests(["q", "z"]), "z", "id", "z"),
    "remove twice": (lambda p: p.remove_requests(["q", "t", "q"]), "remove_requests", "ids", "q"),
    "costs unknown": (lambda p: p.requests["z"].costs, "z", "id", "z"),
    "total unknown": (lambda p: p.requests["z"].total, "z", "id", "z"),
    "bulk unknown": (lambda p: p.update_requests(["q", "z"], scales=[1, 2]), "z", "id", "z"),
    "bulk twice": (lambda p: p.update_requests(["q", "q"], scales=[1, 2]), "update_requests", "ids", "q"),
    "bulk total negative": (lambda p: p.update_requests(["q", "t"], totals=[1, -2]), "t", "total", -2.0),
    "bulk total NaN": (lambda p: p.update_requests(["q", "t"], totals=[NAN, 2]), "q", "total", NAN),
    "bulk total infinite": (lambda p: p.update_requests(["q", "t"], totals=[1, INF]), "t", "total", INF),
    "bulk totals length": (
        lambda p: p.update_requests(["q", "t"], totals=[1]),
        "update_requests",
        "totals",
        (1,),
    ),
    "bulk equation without a total": (
        lambda p: p.update_requests(["q", "u"], scales=[2, 2], relation="=="),
        "u",
        "relation",
        "==",
    ),
    "bulk equation whose total goes": (
        lambda p: p.update_requests(["q", "t"], totals=[1, None], relation="=="),
        "t",
        "relation",
        "==",
    ),
    "bulk scale too large": (lambda p: p.update_requests(["q", "t"], scales=[1, 1e101]), "t", "scale", 1e101),
    "bulk scale too small": (
        lambda p: p.update_requests(["t", "q"], scales=[1, 1e-101]),
        "q",
        "scale",
        1e-101,
    ),
    "bulk length": (lambda p: p.update_requests(["q"], scales=[1, 2]), "update_requests", "scales", (2,)),
    "equation without a total": (lambda p: p.update_request("u", relation="=="), "u", "relation", "=="),
    "equation whose total goes": (
        lambda p: p.update_request("t", total=None, relation="==", scale=2.0),
        "t",
        "relation",
        "==",
    ),
    "bulk costs NaN": (
        lambda p: p.update_requests(["q", "t"], costs=[[1, 2], [1, 2, NAN]]),
        "t",
        "costs",
        NAN,
    ),
    "bulk costs length": (
        lambda p: p.update_requests(["q", "t"], costs=[[1, 2], [1, 2]]),
        "t",
        "costs",
        2,
    ),
    "bulk costs count": (
        lambda p: p.update_requests(["q", "t"], costs=[[1, 2]]),
        "update_requests",
        "costs",
        1,
    ),
    "bulk scale": (lambda p: p.update_requests(["q", "t"], scales=[1, 0]), "t", "scale", 0.0),
    "bulk override outside": (
        lambda p: p.update_requests(["t", "q"], scales=[3, 3], overrides=([1, 1], [2, 2], [0, 0])),
        "q",
        "override",
        2,
    ),
    "bulk override twice": (
        lambda p: p.update_requests(["q", "t"], overrides=([1, 2], [1, 1, 1], [0, 0, 0])),
        "t",
        "override",
        1,
    ),
    "bulk override NaN": (
        lambda p: p.update_requests(["t", "q"], scales=[3, 3], overrides=([1, 1], [1, 1], [0, NAN])),
        "q",
        "override costs",
        NAN,
    ),
    "bulk override lengths": (
        lambda p: p.update_requests(["q", "t"], overrides=([1, 1], [1], [0])),
        "update_requests",
        "override columns",
        (1,),
    ),
}

ADDED = {
    "taken": ((["a", "q"], [1.0] * 3, [1, 2]), BULK, "q", "id", "q"),
    "twice": ((["a", "a"], [1.0] * 3, [1, 2]), BULK, "add_requests", "ids", "a"),
    "empty": ((["a", "b"], [1.0] * 3, [3, 0]), BULK, "b", "sizes", 0),
    "sizes length": ((["a", "b"], [1.0] * 3, [3]), BULK, "add_requests", "sizes", (1,)),
    "costs length": ((["a", "b"], [1.0] * 3, [2, 2]), BULK, "add_requests", "costs", (3,)),
    "costs NaN": ((["a", "b"], [1.0, NAN, 1.0], [1, 2]), BULK, "b", "costs", NAN),
    "costs infinite": ((["a", "b"], [INF, 1.0, 1.0], [1, 2]), BULK, "a", "costs", INF),
    "totals": ((["a", "b"], [1.0] * 3, [1, 2]), BULK | {"totals": [1, -2]}, "b", "total", -2.0),
    "relation": (
        (["a", "b"], [1.0] * 3, [1, 2]),
        BULK | {"totals": [1, 2], "relation": "<"},
        None,
        "relation",
        "<",
    ),
    "upper": ((["a", "b"], [1.0] * 3, [1, 2]), BULK | {"upper": [1.0] * 4}, "add_requests", "upper", (4,)),
    "scales": ((["a", "b"], [1.0] * 3, [1, 2]), BULK | {"scales": [0, 1]}, "a", "scale", 0.0),
    "equations without totals": ((["a"], [1.0] * 3, [3]), BULK | {"relation": "=="}, None, "relation", "=="),
    "matrix shape": ((["a", "b"], [1.0] * 4, [2, 2]), BULK, "add_requests", "usage", (2, 3)),
    "matrix row outside": (
        (["a"], [1.0], [1]),
        {"usage": csc_array(([1.0], [2], [0, 1]), shape=(2, 1))},
        "add_requests",
        "usage",
        "indices",
    ),
    "matrix pointers that fall": (
        (["a", "b"], [1.0] * 3, [1, 2]),
        {"usage": csc_array(([1.0], [0], [0, 1, 0, 1]), shape=(2, 3))},
        "add_requests",
        "usage",
        "indices",
    ),
    "matrix NaN": (
        (["a"], [1.0], [1]),
        {"usage": csc_array([[NAN], [1.0]])},
        None,
        "usage",
        math.nan,
    ),
    "totals NaN": ((["a", "b"], [1.0] * 3, [1, 2]), BULK | {"totals": [1, NAN]}, "b", "total", NAN),
    "no totals, as kernels take them": (
        (["a"], np.ones(3), np.array([3])),
        BULK | {"totals": np.empty(0)},
        "add_requests",
        "totals",
        (0,),
    ),
    "scales NaN": ((["a", "b"], [1.0] * 3, [1, 2]), BULK | {"scales": [1, NAN]}, "b", "scales", NAN),
    "upper negative": (
        (["a", "b"], [1.0] * 3, [1, 2]),
        BULK | {"upper": [1.0, 1.0, -1.0]},
        "b",
        "upper",
        -1.0,
    ),
}


def refuse(program, verb, subject, field, value):
    """The verb raises an EditError that says so, and nothing has changed."""
    before = snapshot(program)
    with pytest.raises(EditError) as caught:
        verb(program)
    error = caught.value
    assert error.field == field
    assert error.value == value or (value != value and error.value != error.value)
    assert subject is None or error.subject == subject
    assert str(error).startswith(f"{error.subject!r}: {field} = {error.value!r}: ")
    assert isinstance(error, CopterError) and isinstance(error, ValueError)
    assert snapshot(program) == before


def test_a_snapshot_sees_a_change_of_any_part(program):
    verbs = [
        lambda: program.update_resources("cpu", upper=7.0),
        lambda: program.update_request("t", costs=[1.0, 2.0, 2.5]),
        lambda: program.update_request("q", override={0: 5.5}),
        lambda: program.update_request("u", upper=[1.0, 2.5]),
        lambda: program.update_request("q", start={0: 0.5}),
        lambda: program.remove_resources("link"),
        lambda: program.forget(program.template),
        lambda: program.remove_request("q"),
    ]
    seen = [snapshot(program)]
    for verb in verbs:
        verb()
        seen.append(snapshot(program))
    assert all(seen[i] != seen[j] for i in range(len(seen)) for j in range(i))


@pytest.mark.parametrize("case", RESOURCES)
def test_resources(program, case):
    refuse(program, *RESOURCES[case])


@pytest.mark.parametrize("case", USAGE)
@pytest.mark.parametrize("verb", ["add_request", "update_request", "share_columns"])
def test_usage(program, verb, case):
    usage, field, value = USAGE[case]
    if verb == "share_columns":
        refuse(program, lambda p: p.share_columns(usage, 2), "shared columns", field, value)
    else:
        id = "new" if verb == "add_request" else "q"
        change = {"costs": [1.0, 1.0], "usage": usage, "scale": 3.0, "override": {1: 4.0}, "total": 2.0}
        refuse(program, lambda p: getattr(p, verb)(id, **change), id, field, value)


@pytest.mark.parametrize("case", FIELDS)
@pytest.mark.parametrize("verb", ["add_request", "update_request", "update_columns"])
def test_fields(program, verb, case):
    given, field, value = FIELDS[case]
    everything = {"total": 2.0, "upper": 3.0, "scale": 3.0, "override": {1: 4.0}, "start": {1: 0.5}}
    if verb == "add_request":
        change = {"costs": [1.0, 1.0], "usage": {"cpu": 1.0}} | everything | given
        refuse(program, lambda p: p.add_request("new", **change), "new", field, value)
    else:
        new = {"usage": {"cpu": 1.0}} if verb == "update_columns" else {}
        change = {"costs": [1.0, 1.0]} | new | everything | given
        refuse(program, lambda p: p.update_request("q", **change), "q", field, value)


@pytest.mark.parametrize("case", UPDATES)
def test_updates_and_removals(program, case):
    refuse(program, *UPDATES[case])


@pytest.mark.parametrize("case", ADDED)
def test_bulk_additions(program, case):
    args, options, subject, field, value = ADDED[case]
    refuse(program, lambda p: p.add_requests(*args, **options), subject, field, value)


def test_an_addition_of_a_taken_id(program):
    refuse(program, lambda p: p.add_request("q", [1.0], {}), "q", "id", "q")


def test_negative_counts_of_a_bulk_override(program):
    before = snapshot(program)
    with pytest.raises(EditError, match="override counts"):
        program.update_requests(["q", "t"], overrides=([-1, 2], [0], [1.0]))
    assert snapshot(program) == before


# ---- templates ---------------------------------------------------------------------------------------


def test_a_template_fits_costs_of_its_own_length(program):
    template = program.template
    refuse(program, lambda p: p.add_request("new", [1.0], template), "new", "costs", 1)
    refuse(program, lambda p: p.update_request("q", costs=[1.0], usage=template), "q", "costs", 1)
    bulk = ["a", "b"], [1.0] * 5, [3, 2]
    refuse(program, lambda p: p.add_requests(*bulk, template), "b", "costs", 2)
    refuse(program, lambda p: p.share_columns({"cpu": 1.0}, 0), "shared columns", "n_columns", 0)


def refuse_template(program, template):
    n = template.n_columns
    refuse(program, lambda p: p.add_request("new", [1.0] * n, template), "new", "usage", template)
    refuse(
        program,
        lambda p: p.add_requests(["new"], [1.0] * n, [n], template),
        "add_requests",
        "usage",
        template,
    )
    refuse(program, lambda p: p.update_request("q", costs=[1.0] * n, usage=template), "q", "usage", template)
    refuse(program, lambda p: p.forget(template), "forget", "usage", template)


def test_a_template_that_never_was(program):
    refuse_template(program, SharedColumns(77, 3))


def test_a_dropped_template_that_is_still_used(program):
    program.forget(program.template)
    refuse_template(program, program.template)


def test_the_columns_of_a_request_are_no_template(program):
    slot = int(program.store.requests.usage[program.request_slots[0]])
    refuse_template(program, SharedColumns(slot, 2))


def test_a_dropped_template_whose_slot_is_used_again(program):
    old = program.share_columns({"cpu": 1.0}, 2)
    program.forget(old)
    program.share_columns({"link": 9.0}, 2)
    refuse_template(program, old)


def test_a_template_of_another_program(program):
    other = ContinualProgram()
    other.add_resource("r", 1.0)
    refuse_template(program, other.share_columns({"r": 5.0}, 3))


# ---- solvers -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "setting", [{"inner": "simplex"}, {"tolerance": 0.0}, {"tolerance": 1.0}, {"tolerance": NAN}]
)
def test_settings_of_the_solver(setting):
    name, value = next(iter(setting.items()))
    with pytest.raises(ValueError, match=f"{name} = {value!r}"):
        ProximalPoint(**setting)


def test_an_unknown_solver_names_the_known_ones():
    with pytest.raises(UnknownSolverError, match=r"no solver .cplex.; there are: copter, .*highs-hot"):
        make_solver("cplex")


def test_an_edit_error_survives_pickling():
    error = EditError("q", "costs", 1.0, "must be better")
    copy = pickle.loads(pickle.dumps(error))
    assert (str(copy), copy.subject, copy.field, copy.value) == (str(error), "q", "costs", 1.0)


def test_numpy_values_are_as_good_as_floats(program):
    program.add_request("new", np.ones(2), {"cpu": np.float32(2)}, total=np.int64(1), scale=np.float64(2))
    assert program.requests["new"].costs.tolist() == [2.0, 2.0]


def test_an_id_that_equals_nothing_is_refused(program):
    before = snapshot(program)
    for edit in (
        lambda: program.add_request(NAN, [1.0], {}),
        lambda: program.add_requests(["x", NAN], [[1.0], [2.0]], None, [{}, {}]),
        lambda: program.add_resources([1.5, NAN]),
    ):
        with pytest.raises(EditError, match="must not be NaN, because NaN does not equal itself"):
            edit()
    assert snapshot(program) == before


def test_what_is_no_solver_and_no_program_is_said_at_once(program, tmp_path):
    with pytest.raises(EditError, match="exact = 3: must be a solver"):
        ChooseOneShim(exact=3)
    with pytest.raises(CopterError, match="solver = 'copter': must be a solver"):
        Journal(tmp_path / "new", "copter")
    with pytest.raises(CopterError, match="program = 3: must be a ContinualProgram"):
        Journal(tmp_path / "new", program=3)
    assert not (tmp_path / "new").exists()
    with pytest.raises(EditError, match="program = 3: must be a ContinualProgram"):
        make_solver("copter").solve(3)
    for name in (None, ["copter"]):
        with pytest.raises(UnknownSolverError):
            make_solver(name)
