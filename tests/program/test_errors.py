"""Errors of edit methods: each names the id, the argument and the value, and changes nothing.

The cases follow from the fields of requests and resources (:mod:`copter.program.fields`): each field with
each invalid value, in each edit method that has it, for one id and for many.
"""

from __future__ import annotations

import inspect
import math
import re
from functools import partial

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.sparse import csc_array

import copter
from copter import ChooseOneShim, ContinualProgram, Journal, LogTerm, make_solver
from copter.errors import ArgumentTypeError, CopterError, EditError, UnknownIdError
from copter.program.fields import REQUEST, RESOURCE
from copter.program.handles import SharedColumns
from support.amounts import examples
from support.strategies import snapshot

INF, NAN = math.inf, math.nan
MASKED = np.ma.array([1.0, 2.0], mask=[False, True])
NO_NUMBER = ["8", b"8", True, np.False_, 1j, 10**400, np.timedelta64(3, "ns"), object()]
GOOD = {
    "costs": [1.0, 1.5], "usage": {"cpu": 1.0}, "total": 2.0, "relation": "<=", "upper": [3.0, 4.0],
    "scale": 3.0, "override": {1: 4.0}, "integral": True, "start": {1: 0.5}, "term": LogTerm(1.0),
    "columns": ["a", "b"],
}  # fmt: skip
"""A valid argument for one request of each field."""
ROWS = {"lower": 0.0, "upper": 9.0, "by": 1.0}


class Wrong:
    """An invalid argument for one id.

    `shown` is the value that the error names, and `field` the argument. For many ids the error names the id,
    or, with ``whole``, the edit method and all values.
    """

    def __init__(self, value, shown=..., field="", whole=False):
        self.value, self.shown = value, value if shown is ... else shown
        self.field, self.whole = field, whole


def no_numbers(*more):
    return [Wrong(value, whole=True) for value in [*NO_NUMBER, *more]]


def no_vectors():
    """Vectors of columns with an entry that is no number, or of a shape that is wrong for two columns."""
    some = [*([1.0, value] for value in NO_NUMBER), [None, 1.0], [1.0, np.ma.masked], [[1.0], [2.0, 3.0]]]
    arrays = [np.array(["2020-01-01"] * 2, "M8[D]"), np.array([1, 2], "m8[ns]"), np.zeros(2, [("x", float)])]
    return [*(Wrong(value) for value in some + arrays), Wrong([1.0, NAN], NAN), Wrong(MASKED, np.ma.masked)]


def entries(finite):
    columns = [2, -1, 0.5]
    wrong = [Wrong({column: 1.0}, column) for column in columns]
    wrong += [Wrong({column: 1.0}, [column]) for column in ("0", True, None)]
    return [*wrong, Wrong([1.0]), Wrong({0: NAN}, NAN), Wrong({0: 1.0, 1: INF}, INF), *(
        Wrong({0: value}, [value]) for value in NO_NUMBER
    )]  # fmt: skip


def of_cpu(*values):
    return [Wrong({"cpu": own}, shown, "usage['cpu']") for own, shown in values]


PAIRS = [
    (([0], [1.0], [2.0]), ([0], [1.0], [2.0])), ((1, 2), (1, 2)), (([0, 1], [1.0]), (1,)), (([2], [1.0]), 2),
    (([-1], [1.0]), -1), (([1, 1], [1.0, 2.0]), "columns"), (([1], [NAN]), NAN), (([0], ["8"]), ["8"]),
]  # fmt: skip
WRONG = {
    "costs": [
        *no_vectors(), Wrong([-INF, 1.0], -INF), Wrong([[1.0, 2.0]], (1, 2)), Wrong([], (0,)), Wrong(3.0, ()),
        Wrong([1e200, 0.0], 1e200), Wrong(None),
    ],
    "usage": [
        *of_cpu(*PAIRS, ([1.0] * 3, (3,)), ([[1.0, 2.0]], (1, 2)), ([1.0, NAN], NAN), (INF, INF), ("8", "8")),
        *of_cpu((MASKED, np.ma.masked), ([1e200, 0.0], 1e200), (True, True)),
        *(Wrong(value) for value in ([1.0], 3.0, "cpu", None)), Wrong(csc_array((2, 3)), (2, 3)),
        Wrong({"cpus": 1.0}, "cpus"), Wrong({"cpu": 1.0, "disk": 1.0}, "disk"),
        Wrong(csc_array([[1e200, 1.0], [0.0, 1.0]]), 1e200), Wrong(csc_array([[NAN, 1.0], [0.0, 1.0]]), NAN),
    ],
    "total": [*map(Wrong, (-0.5, NAN, INF, 1e200)), *no_numbers()],
    "relation": [*map(Wrong, (">=", "", {}, None))],
    "upper": [*map(Wrong, (-1.0, NAN)), *no_vectors(), Wrong([1.0] * 3, (3,)), Wrong([1.0, -1.0], -1.0), *(
        Wrong(value) for value in ["many", None]
    )],
    "scale": [*map(Wrong, (0.0, -1.0, NAN, INF, 1e101, 1e-101)), *no_numbers()],
    "override": entries(finite=True),
    "integral": [*map(Wrong, ("yes", 1, None))],
    "start": entries(finite=True),
    "term": [
        Wrong(3.0), Wrong("log"), *(Wrong(LogTerm(weight), weight, "term.weight") for weight in (-1.0, NAN)),
        *(Wrong(LogTerm(1.0, offset), offset, "term.offset") for offset in (-0.5, INF)),
        *(
            Wrong(LogTerm(1.0, image=image), shown, "term.image")
            for image, shown in (([1.0, -2.0], -2.0), ([1.0, NAN], NAN), ([1.0] * 3, (3,)), (0.0, 0.0))
        ),
    ],
    "columns": [
        Wrong(["a"], 1), Wrong(["a", "a"], "a"), Wrong([["x"], "b"], ["x"]), Wrong([None, "b"], None),
        Wrong("ab"),
    ],
}  # fmt: skip
WRONG_ROWS = {
    "lower": [*map(Wrong, (NAN, INF, 99.0)), *no_numbers("many")],
    "upper": [*map(Wrong, (NAN, -INF)), Wrong(-0.5, 1.0, "lower"), *no_numbers("many")],
    "by": [*map(Wrong, (NAN, -INF, -100.0, -4.5)), *no_numbers("many")],
}


@pytest.fixture
def program() -> ContinualProgram:
    """Two resources, and requests with everything, with shared columns and with a bound for each column."""
    program = ContinualProgram()
    program.add_resource("cpu", 8.0)
    program.add_resource("link", 5.0, lower=1.0)
    program.shared = program.share_columns({"cpu": 1.0}, 3)
    usage = {"cpu": 1.0, "link": [1.0, 2.0]}
    program.add_request("q", [1.0, 2.0], usage, total=1.0, scale=2.0, override={0: 5.0}, start={0: 1.0})
    program.add_request("t", [1.0, 2.0, 3.0], program.shared, total=1.0, relation="==")
    program.add_request("u", [1.0, 2.0], {"cpu": 1.0}, upper=[1.0, 2.0])
    return program


def refuse(program, edit, subject, field, value=...):
    """The edit raises an EditError that names these, and nothing changes."""
    before = snapshot(program)
    with pytest.raises(EditError) as caught:
        edit(program)
    error = caught.value
    assert (error.subject, error.field) == (subject, field)
    assert value is ... or repr(error.value) == repr(value)
    assert str(error).startswith(f"{error.subject!r}: {field} = {error.value!r}: ")
    assert isinstance(error, CopterError) and isinstance(error, ValueError)
    assert snapshot(program) == before


def refuse_field(program, method, field, wrong, ids, arguments, fields):
    """Refuse an invalid argument of a method for one id, the last of `ids`, or for all of them."""
    id, edit = ids[-1], getattr(program, method)
    subject, name, value = id, wrong.field or field.one, wrong.shown
    if method.endswith("s"):
        names = {each.one: each.many for each in fields}
        valid = GOOD if fields is REQUEST else ROWS
        arguments = {names[one]: [valid[one], own] for one, own in arguments.items()}
        if wrong.whole:
            subject, name, value = method, field.many, arguments[field.many]
        id = ids
    if method == "add_requests":
        arguments["sizes"] = None
    refuse(program, lambda p: edit(id, **arguments), subject, name, value)


def test_each_field_of_an_edit_method_has_cases(program):
    for kind, fields, cases in (("request", REQUEST, WRONG), ("resource", RESOURCE, WRONG_ROWS)):
        one, many = {field.one for field in fields}, {field.many for field in fields}
        assert set(cases) == one - {"sizes"}
        for action in ("add", "update"):
            for names, method in ((one, f"{action}_{kind}"), (many, f"{action}_{kind}s")):
                own = set(inspect.signature(getattr(program, method)).parameters) - {"id", "ids"}
                assert own <= names and names - own <= {"by", "sizes"}


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("method", ["add_request", "update_request", "add_requests", "update_requests"])
@pytest.mark.parametrize(
    "field", [field for field in REQUEST if field.one in WRONG], ids=lambda each: each.one
)
def test_an_invalid_argument_of_a_request(program, field, method):
    new = method.startswith("add")
    unused = {"columns"} if field.one != "columns" else {"override", "start"}  # these have columns by number
    if not new and field.one not in ("usage", "columns"):
        unused.add("usage")
    ids = ["first", "new"] if new else ["u", "q"]
    for wrong in WRONG[field.one]:
        if wrong.value is not None or new:
            arguments = {one: value for one, value in GOOD.items() if one not in unused}
            arguments[field.one] = wrong.value
            refuse_field(program, method, field, wrong, ids, arguments, REQUEST)


@pytest.mark.parametrize("method", ["add_resource", "update_resource", "add_resources", "update_resources"])
@pytest.mark.parametrize("field", RESOURCE, ids=lambda each: each.one)
def test_an_invalid_argument_of_a_resource(program, field, method):
    new = method.startswith("add")
    if field.one == "by" and new:
        return
    for wrong in WRONG_ROWS[field.one]:
        arguments = {field.one: wrong.value}
        if field.one == "upper":
            arguments["lower"] = 1.0 if wrong.field else -INF
        elif field.one == "lower":
            arguments["upper"] = 9.0
        refuse_field(
            program, method, field, wrong, ["a", "new"] if new else ["cpu", "link"], arguments, RESOURCE
        )


@pytest.mark.parametrize("field", REQUEST, ids=lambda each: each.many)
@pytest.mark.parametrize("method", ["add_requests", "update_requests"])
def test_one_argument_for_two_requests(program, field, method):
    arguments = {"costs": [[1.0, 2.0]] * 2, "sizes": None, "usage": [{}, {}], "totals": 1.0, "upper": 1.0}
    arguments |= {field.many: [1] if field.many == "sizes" else [GOOD[field.one]]}
    length = {"sizes": (1,), "scales": (1,), "totals": (1,), "usage": "list"}.get(field.many, 1)
    ids = ["a", "b"] if method == "add_requests" else ["u", "q"]
    refuse(program, lambda p: getattr(p, method)(ids, **arguments), method, field.many, length)


FLAT = {
    "sizes of other requests": ({"sizes": [3]}, "add_requests", "sizes", (1,)),
    "sizes that are text": ({"sizes": ["1", "2"]}, "add_requests", "sizes", ["1", "2"]),
    "no column": ({"sizes": [3, 0]}, "b", "sizes", 0),
    "no sizes": ({"sizes": None}, "add_requests", "sizes", None),
    "costs of other columns": ({"sizes": [2, 2]}, "add_requests", "costs", (3,)),
    "costs": ({"costs": [1.0, NAN, 1.0]}, "b", "costs", NAN),
    "infinite costs": ({"costs": [INF, 1.0, 1.0]}, "a", "costs", INF),
    "one number": ({"costs": 1.0, "sizes": None}, "add_requests", "costs", ()),
    "upper of other columns": ({"upper": [1.0] * 4}, "add_requests", "upper", (4,)),
    "upper": ({"upper": [1.0, 1.0, -1.0]}, "b", "upper", -1.0),
    "totals": ({"totals": np.array([1.0, 1e200])}, "b", "total", 1e200),
    "no totals": ({"totals": np.empty(0)}, "add_requests", "totals", (0,)),
    "a total among none": ({"totals": [None, -1.0]}, "b", "total", -1.0),
    "equations without totals": ({"totals": None, "relation": "=="}, "add_requests", "relation", "=="),
    "an equation without a total": ({"totals": [1, None], "relation": ["<=", "=="]}, "b", "relation", "=="),
    "counts": ({"overrides": ([-1, 2], [0], [1.0])}, "a", "override counts", -1),
    "entries of other counts": (
        {"overrides": ([1, 1], [0], [0.0])}, "add_requests", "override columns", (1,),
    ),
    "columns": ({"overrides": ([1, 1], [0, 2], [0.0, 0.0])}, "b", "override", 2),
    "a column twice": ({"starts": ([0, 2], [1, 1], [1.0, 1.0])}, "b", "start", 1),
    "override costs": ({"overrides": ([1, 1], [0, 1], [0.0, NAN])}, "b", "override costs", NAN),
    "start values": ({"starts": ([1, 1], [0, 1], [NAN, 1.0])}, "a", "start values", NAN),
    "matrix shape": ({"usage": csc_array((2, 4))}, "add_requests", "usage", (2, 4)),
    "matrix row": (
        {"usage": csc_array(([1.0], [2], [0, 1, 1, 1]), shape=(2, 3))}, "add_requests", "usage", "indices",
    ),
    "matrix pointers": (
        {"usage": csc_array(([1.0], [0], [0, 1, 0, 1]), shape=(2, 3))}, "add_requests", "usage", "indices",
    ),
    "matrix": ({"usage": csc_array(([NAN], [0], [0, 1, 1, 1]), shape=(2, 3))}, "add_requests", "usage", NAN),
}  # fmt: skip


@pytest.mark.parametrize("case", FLAT)
def test_an_invalid_flat_argument(program, case):
    change, subject, field, value = FLAT[case]
    arguments = {"costs": [1.0] * 3, "sizes": [1, 2], "usage": csc_array((2, 3)), "totals": [1.0, 1.0]}
    refuse(program, lambda p: p.add_requests(["a", "b"], **(arguments | change)), subject, field, value)


UPDATES = {
    "usage without costs": ({"usage": [{}, {}]}, "update_requests", "costs", None),
    "bounds of old columns": ({"usage": [{}, {}], "costs": [[1.0]] * 2}, "u", "upper", None),
    "names without usage": ({"columns": [None, None]}, "update_requests", "columns", [None, None]),
    "sizes without costs": ({"sizes": [2, 3]}, "update_requests", "sizes", [2, 3]),
    "other sizes": ({"costs": [1.0] * 5, "sizes": [2, 2]}, "t", "sizes", 2),
    "costs of another length": ({"costs": [[1, 2], [1, 2]]}, "t", "costs", 2),
    "equation without a total": ({"relation": "=="}, "u", "relation", "=="),
    "equation whose total goes": ({"totals": [1, None], "relation": "=="}, "t", "relation", "=="),
    "parameters without a term": ({"terms": {"weight": [1.0, 1.0]}}, "u", "terms", "weight"),
}


@pytest.mark.parametrize("case", UPDATES)
def test_an_argument_that_does_not_fit_the_present_requests(program, case):
    change, *expected = UPDATES[case]
    refuse(program, lambda p: p.update_requests(["u", "t"], scales=[2, 2], **change), *expected)


def test_new_columns_need_a_term_again(program):
    program.update_request("q", term=LogTerm(1.0))
    for change in ({}, {"term": {"weight": 2.0}}):
        new = {"costs": [1.0], "usage": {}, "upper": 1.0} | change
        refuse(program, lambda p, new=new: p.update_request("q", **new), "q", "term")


@pytest.mark.parametrize("value", [[1.0], (1.0,), np.ones(2)], ids=type)
def test_one_argument_is_not_several(program, value):
    for field in ("total", "relation", "scale", "integral"):
        refuse(program, partial(ContinualProgram.update_request, id="q", **{field: value}), "q", field, value)
    for field in ("lower", "upper", "by"):
        edit = partial(ContinualProgram.update_resource, id="cpu", **{field: value})
        refuse(program, edit, "cpu", field, value)
    refuse(program, lambda p: p.update_resources("cpu", upper=3, by=1), "update_resources", "by", 1)


# ---- ids ---------------------------------------------------------------------------------------------

OF_ONE = {
    "add_request": lambda p, id: p.add_request(id, [1.0], {}, total=1.0),
    "update_request": lambda p, id: p.update_request(id, scale=2.0),
    "remove_request": lambda p, id: p.remove_request(id),
    "add_resource": lambda p, id: p.add_resource(id),
    "update_resource": lambda p, id: p.update_resource(id, upper=1.0),
    "remove_resource": lambda p, id: p.remove_resource(id),
}
OF_MANY = {
    "add_requests": lambda p, ids: p.add_requests(ids, [[1.0]] * 2, None, [{}] * 2, totals=1.0),
    "update_requests": lambda p, ids: p.update_requests(ids, scales=[2.0] * 2),
    "remove_requests": lambda p, ids: p.remove_requests(ids),
    "price_moves": lambda p, ids: p.price_moves(ids, [0] * 2, 1.0),
    "read requests": lambda p, ids: p.requests[ids],
    "add_resources": lambda p, ids: p.add_resources(ids, upper=[1.0] * 2),
    "update_resources": lambda p, ids: p.update_resources(ids, upper=[3.0] * 2),
    "remove_resources": lambda p, ids: p.remove_resources(ids),
    "read resources": lambda p, ids: p.resources[ids],
}


@pytest.mark.parametrize("method", OF_ONE | OF_MANY)
def test_an_invalid_id(program, method):
    known = ["q", "t"] if "request" in method or method == "price_moves" else ["cpu", "link"]
    new, edit = method.startswith("add"), (OF_ONE | OF_MANY)[method]
    valid = "new" if new else known[1]
    wrong = {known[0]: known[0]} if new else dict.fromkeys(["z", 7, ("rack", 1)])
    for id in wrong:
        many = (
            (lambda p, id=id: edit(p, [valid, id])) if method in OF_MANY else (lambda p, id=id: edit(p, id))
        )
        refuse(program, many, id, "id", id)
    for id in () if new else ("zz", None):  # one id, in an edit of many too
        refuse(program, lambda p, id=id: edit(p, id), id, "id", id)
    if method in OF_ONE:
        refuse(program, lambda p: edit(p, ["b"]), ["b"], "id", ["b"])
        if new:
            refuse(program, lambda p: edit(p, NAN), NAN, "id", NAN)
        return
    label = method.removeprefix("read ")
    refuse(program, lambda p: edit(p, [valid, valid]), label, "ids", valid)
    refuse(program, lambda p: edit(p, [valid, ["b"]]), ["b"], "id", ["b"])
    refuse(program, lambda p: edit(p, {valid: 1, known[0]: 2}), "ids", "type", "dict")
    if new:
        refuse(program, lambda p: edit(p, [valid, NAN]), label, "id", NAN)


def test_an_unknown_id_names_the_nearest_one(program):
    program.add_request("job 17", [1.0], {}, total=1.0)
    for look_up in (lambda: program.remove_request("job 71"), lambda: program.requests["job 71"]):
        with pytest.raises(UnknownIdError, match="'job 71': id .* did you mean 'job 17'"):
            look_up()
    with pytest.raises(EditError, match="'b': .* did you mean 'cpu'"):
        program.add_request("b", [1.0], {"cpus": [1.0]})
    with pytest.raises(
        EditError, match=r"'requests': ids = slice.*an id, a sequence of ids, or \[:\] for all"
    ):
        program.requests[1:]


# ---- shared columns ----------------------------------------------------------------------------------


@pytest.mark.parametrize("wrong", WRONG["usage"])
def test_an_invalid_usage_of_shared_columns(program, wrong):
    field = wrong.field or "usage"
    refuse(program, lambda p: p.share_columns(wrong.value, 2), "shared columns", field, wrong.shown)


@pytest.mark.parametrize("width", [2.5, 0, -1, 2**31, 1e300, INF, None, *NO_NUMBER])
def test_an_invalid_number_of_columns(program, width):
    refuse(program, lambda p: p.share_columns({}, width), "shared columns", "n_columns", width)


def test_shared_columns_need_costs_of_their_own_length(program):
    shared = program.shared
    refuse(program, lambda p: p.add_request("new", [1.0], shared), "new", "costs", 1)
    refuse(program, lambda p: p.update_request("q", costs=[1.0], usage=shared), "q", "costs", 1)
    refuse(program, lambda p: p.add_requests(["a", "b"], [1.0] * 5, [3, 2], shared), "b", "costs", 2)


@pytest.mark.parametrize("case", ["unknown", "forgotten", "own columns", "slot used again", "other program"])
def test_a_handle_that_the_program_does_not_have(program, case):
    handle = program.shared
    if case == "unknown":
        handle = SharedColumns(77, 3)
    elif case == "own columns":
        handle = SharedColumns(int(program.store.requests.usage[program.request_slots[0]]), 2)
    elif case == "other program":
        handle = ContinualProgram().share_columns({}, 3)
    elif case == "slot used again":
        handle = program.share_columns({"cpu": 1.0}, 2)
        program.forget(handle)
        program.share_columns({"link": 9.0}, 2)
    else:
        program.forget(handle)
    costs = [1.0] * handle.n_columns
    for subject, edit in (
        ("new", lambda p: p.add_request("new", costs, handle)),
        ("add_requests", lambda p: p.add_requests(["new"], costs, [len(costs)], handle)),
        ("q", lambda p: p.update_request("q", costs=costs, usage=handle)),
        ("forget", lambda p: p.forget(handle)),
    ):
        refuse(program, edit, subject, "usage", handle)


# ---- any argument ------------------------------------------------------------------------------------

junk = st.recursive(
    st.one_of(
        st.none(),
        st.booleans(),
        st.one_of(st.integers(-1000, 1000), st.sampled_from([2**31, 2**63, 10**400])),
        st.one_of(st.floats(-1e3, 1e3), st.sampled_from([INF, -INF, NAN, 1e300, -0.0])),
        st.complex_numbers(),
        st.text(max_size=3),
        st.binary(max_size=3),
        st.sampled_from([np.float32(1.5), np.int8(-3), np.datetime64("2020-01-01"), object()]),
        st.just(np.zeros((2, 2))),
    ),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.tuples(inner, inner),
        st.dictionaries(st.one_of(st.integers(-1, 3), st.sampled_from(["cpu", "x"])), inner, max_size=2),
    ),
    max_leaves=4,
)
METHODS = [f"{action}_{kind}" for action in ("add", "update") for kind in ("request", "resource")]


@given(method=st.sampled_from([*METHODS, *(f"{method}s" for method in METHODS)]), data=st.data(), value=junk)
@settings(max_examples=examples(600), deadline=None)
def test_any_argument_makes_an_edit_or_an_edit_error(method, data, value):
    program = ContinualProgram()
    program.add_resource("cpu", 10.0, lower=0.0)
    program.add_request("a", [1.0, 2.0], {"cpu": [1.0, 2.0]}, total=1.0)
    edit, new = getattr(program, method), method.startswith("add")
    name = data.draw(st.sampled_from(list(inspect.signature(edit).parameters)[1:]))
    id = "new" if new else "cpu" if "resource" in method else "a"
    arguments = {"costs": [1.0], "usage": {"cpu": 1.0}} if "add_request" in method else {}
    if method == "add_requests":
        arguments = {"costs": [1.0], "sizes": [1], "usage": [{"cpu": 1.0}]}
    before = snapshot(program)
    try:
        edit([id] if method.endswith("s") else id, **(arguments | {name: value}))
    except EditError as error:
        assert str(error) and snapshot(program) == before


@pytest.mark.parametrize("bound", [1e20, 1e300, INF])
def test_bounds_from_1e20_on_are_infinite(program, bound):
    program.add_resource("r", bound, lower=-bound)
    program.update_resource("cpu", upper=bound)
    assert program.resources["r"] == (-INF, INF) and program.resources["cpu"].upper == INF
    program.update_resources(["r", "cpu"], upper=[9.9e19, bound])
    assert program.resources["r"].upper == 9.9e19 and program.resources["cpu"].upper == INF
    program.add_requests(
        ["one", "each"], [[1.0, 1.0]] * 2, None, [{}] * 2, upper=[bound, [bound, 3.0]], totals=1
    )
    assert program.requests[["one", "each"]].upper.tolist() == [INF, INF, INF, 3.0]
    refuse(program, lambda p: p.update_resource("cpu", lower=bound), "cpu", "lower", INF)


def test_a_snapshot_sees_a_change_of_any_part(program):
    edits = [
        lambda: program.update_resources("cpu", upper=7.0),
        lambda: program.update_request("t", costs=[1.0, 2.0, 2.5]),
        lambda: program.update_request("q", override={0: 5.5}),
        lambda: program.update_request("u", upper=[1.0, 2.5]),
        lambda: program.update_request("q", start={0: 0.5}),
        lambda: program.remove_resource("link"),
        lambda: program.forget(program.shared),
        lambda: program.remove_request("q"),
    ]
    seen = [snapshot(program)]
    for edit in edits:
        edit()
        seen.append(snapshot(program))
    assert all(seen[i] != seen[j] for i in range(len(seen)) for j in range(i))


# ---- other calls -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda: ChooseOneShim(exact=3), "exact = 3: must be a solver"),
        (lambda: Journal("new", "copter"), "solver = 'copter': must be a solver"),
        (lambda: Journal("new", program=3), "program = 3: must be a ContinualProgram"),
        (lambda: make_solver("copter").solve(3), "program = 3: must be a ContinualProgram"),
        (lambda: make_solver(None), "no solver None"),
        (lambda: make_solver(["copter"]), "no solver ['copter']"),
        (lambda: copter.Model("x.mps"), "'Model': source = 'x.mps': must be a LinearProgram"),
        (lambda: copter.write_mps("x", "y.mps"), "'program': type = 'str': must be a ContinualProgram or"),
        (lambda: copter.to_mathopt("x"), "'program': type = 'str': must be a ContinualProgram or"),
        (lambda: copter.from_mathopt("x"), "'from_mathopt': model = 'x': must be a model of OR-Tools"),
    ],
)
def test_an_argument_of_another_type_is_named(call, said, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(CopterError, match=re.escape(said)) as caught:
        call()
    assert said[0] != "'" or isinstance(caught.value, ArgumentTypeError)
    assert not list(tmp_path.iterdir())
