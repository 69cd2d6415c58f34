"""Arguments of edit verbs that are no numbers, or of no use: an EditError names each, nothing changes."""

import copy
import math
import re

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.sparse import csc_array

import copter
from copter import ContinualProgram, ProximalPoint
from copter.errors import ArgumentTypeError, EditError
from support.amounts import examples


def small():
    program = ContinualProgram()
    program.add_resource("cpu", 10.0, lower=0.0)
    program.add_request("a", [1.0, 2.0], {"cpu": [1.0, 2.0]}, total=1.0)
    return program


VERBS = {
    "add_resource upper": lambda p, v: p.add_resource("new", v),
    "add_resource lower": lambda p, v: p.add_resource("new", 1e9, lower=v),
    "update_resources": lambda p, v: p.update_resources("cpu", upper=v),
    "update_resources many": lambda p, v: p.update_resources(["cpu"], upper=[v]),
    "update_resources by": lambda p, v: p.update_resources("cpu", by=v),
    "share_columns": lambda p, v: p.share_columns({"cpu": [1.0]}, v),
    "costs": lambda p, v: p.add_request("b", [v], {}),
    "coefficient": lambda p, v: p.add_request("b", [1.0], {"cpu": v}),
    "coefficients": lambda p, v: p.add_request("b", [1.0], {"cpu": [v]}),
    "pair": lambda p, v: p.add_request("b", [1.0], {"cpu": ([0], [v])}),
    "total": lambda p, v: p.add_request("b", [1.0], {}, total=v),
    "upper": lambda p, v: p.add_request("b", [1.0], {}, upper=v),
    "uppers": lambda p, v: p.add_request("b", [1.0], {}, upper=[v]),
    "scale": lambda p, v: p.add_request("b", [1.0], {}, scale=v),
    "override": lambda p, v: p.update_request("a", override={0: v}),
    "start": lambda p, v: p.update_request("a", start={0: v}),
    "totals": lambda p, v: p.update_requests(["a"], totals=[v]),
    "scales": lambda p, v: p.update_requests(["a"], scales=[v]),
    "sizes": lambda p, v: p.add_requests(["b"], [1.0], [v], p.share_columns({}, 1)),
    "usage": lambda p, v: p.add_request("b", [1.0], v),
    "usages": lambda p, v: p.add_requests(["b"], [1.0], [1], v),
}


@pytest.mark.parametrize("verb", VERBS)
@pytest.mark.parametrize("value", ["8", b"8", True, np.False_, 1j, math.nan, [[1.0], [2.0, 3.0]]], ids=repr)
def test_what_is_no_number_is_named(verb, value):
    program = small()
    with pytest.raises(EditError):
        VERBS[verb](program, value)
    assert program.request_ids == ["a"] and program.resource_ids == ["cpu"]
    assert program.resources["cpu"] == (0.0, 10.0) and program.requests["a"].costs.tolist() == [1.0, 2.0]


@pytest.mark.parametrize("field", ["override", "start"])
@pytest.mark.parametrize(
    ("column", "shown"),
    [
        ("0", ""),
        (True, ""),
        (None, ""),
        *((each, f"{each}: the request has no such column") for each in (2, -1, 0.5)),
    ],
)
def test_what_is_no_column_is_named(field, column, shown):
    with pytest.raises(EditError, match=f"'a': {field}.* = {shown}"):
        small().update_request("a", **{field: {column: 1.0}})


@pytest.mark.parametrize("usage", [[1.0], None, 3.0, "cpu"], ids=repr)
def test_a_usage_that_is_no_mapping_is_named(usage):
    program = small()
    for edit in (
        lambda: program.add_request("b", [1.0], usage),
        lambda: program.update_request("a", costs=[1.0], usage=[1.0] if usage is None else usage),
        lambda: program.share_columns(usage, 1),
        lambda: program.add_requests(["b"], [1.0], [1], usage),
    ):
        with pytest.raises(EditError, match="usage") as raised:
            edit()
        assert "template" not in str(raised.value)
    with pytest.raises(EditError, match="mapping of resource id to coefficients.*share_columns"):
        program.add_request("b", [1.0], usage)


@pytest.mark.parametrize("width", [2.5, 0, -1, 2**31, 1e300, math.inf, None])
def test_a_template_has_a_whole_number_of_columns(width):
    with pytest.raises(EditError, match="n_columns"):
        small().share_columns({}, width)


@pytest.mark.parametrize("bound", [1e20, 1e300, math.inf])
def test_bounds_from_1e20_on_are_infinite(bound):
    program = small()
    program.add_resource("r", bound, lower=-bound)
    program.update_resources("cpu", upper=bound)
    assert program.resources["r"] == (-math.inf, math.inf) and program.resources["cpu"][1] == math.inf
    program.update_resources(["r", "cpu"], upper=[9.9e19, bound])
    assert program.resources["r"][1] == 9.9e19 and program.resources["cpu"][1] == math.inf
    program.add_request("one", [1.0, 1.0], {}, upper=bound, total=1.0)
    program.add_request("each", [1.0, 1.0], {}, upper=[bound, 3.0], total=1.0)
    store = program.store
    assert store.requests.upper[program.slot_of["one"]] == math.inf
    assert store.upper_bounds(program.slot_of["each"]).tolist() == [math.inf, 3.0]
    with pytest.raises(EditError, match="lower"):
        program.update_resources("cpu", lower=bound)


junk = st.recursive(
    st.one_of(
        st.none(),
        st.booleans(),
        st.one_of(st.integers(-1000, 1000), st.sampled_from([2**31, 2**63, 10**400])),
        st.one_of(st.floats(-1e3, 1e3), st.sampled_from([math.inf, -math.inf, math.nan, 1e300, -0.0])),
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


@given(verb=st.sampled_from(sorted(VERBS)), value=junk)
@settings(max_examples=examples(600), deadline=None)
def test_whatever_is_given_is_an_edit_or_an_edit_error(verb, value):
    program = small()
    before = copy.copy(program.request_ids), program.resources["cpu"], program.requests["a"].costs.tolist()
    try:
        VERBS[verb](program, value)
    except EditError as error:
        assert str(error)
        assert (program.request_ids, program.resources["cpu"], program.requests["a"].costs.tolist()) == before


ADD = {"costs": [1.0], "usage": {"cpu": [1.0]}}
WRONG = {
    "empty relation": (lambda p: p.update_request("a", relation={}), "'a': relation = {}"),
    "empty text": (lambda p: p.update_request("a", relation=""), "'a': relation = ''"),
    "array": (lambda p: p.update_request("a", relation=np.array(["<=", "=="])), "'a': relation = array"),
    "list as id": (lambda p: p.add_request(["b"], **ADD), r"\['b'\]: id = .* must be hashable to be an id"),
    "lists as ids": (lambda p: p.remove_requests([["b"]]), r"\['b'\]: id = .* must be hashable to be an id"),
    "mapping as id": (
        lambda p: p.update_resources({}, upper=1.0),
        "'ids': type = 'dict': must be an id or a sequence of ids, and not a mapping; give its keys",
    ),
    "lists of resources": (lambda p: p.add_resources([[1]]), r"\[1\]: id = .* must be hashable to be an id"),
    "text is one id": (
        lambda p: p.remove_requests("ab"),
        "'ab': id = 'ab': there is no request with this id",
    ),
    "no ids": (lambda p: p.remove_requests(None), "None: id = None: there is no request with this id"),
    "a slice": (
        lambda p: p.requests[1:],
        r"'requests': ids = slice.*: must be an id, a sequence of ids, or \[:\] for all; slices",
    ),
    "dates": (lambda p: p.update_request("a", costs=np.array(["2020-01-01"] * 2, "M8[D]")), "'a': costs = "),
    "times": (lambda p: p.update_request("a", costs=np.array([1, 2], "m8[ns]")), "'a': costs = "),
    "a time": (
        lambda p: p.update_request("a", total=np.timedelta64(3, "ns")),
        "'a': total = .* must be a number",
    ),
    "records": (lambda p: p.update_request("a", costs=np.zeros(2, [("x", float)])), "'a': costs = "),
    "True beside": (lambda p: p.update_request("a", costs=[True, 1.0]), r"'a': costs = \[True, 1.0\]"),
    "True among bounds": (
        lambda p: p.update_resources(["cpu"], upper=[np.True_]),
        "upper = .* must be numbers",
    ),
    "None beside": (lambda p: p.update_request("a", costs=[None, 1.0]), "'a': costs = .* must be numbers"),
    "masked": (
        lambda p: p.update_request("a", costs=MASKED),
        "'a': costs = masked: entry 1 must be a number, and is masked",
    ),
    "masked usage": (lambda p: p.add_request("b", [1, 1], {"cpu": MASKED}), r"'b': usage\['cpu'\] = masked"),
    "masked bounds": (lambda p: p.update_request("a", upper=MASKED), "'a': upper = masked"),
    "masked beside": (lambda p: p.update_request("a", costs=[1.0, np.ma.masked]), "'a': costs = "),
    "vast total": (
        lambda p: p.update_request("a", total=1e200),
        r"'a': total = 1e\+200: must be at most",
    ),
    "vast totals": (
        lambda p: p.update_requests(["a"], totals=[1e200]),
        r"'a': total = 1e\+200: must be at most",
    ),
    "vast totals, bulk": (
        lambda p: p.add_requests(
            ["b"], np.ones(1), np.ones(1, int), p.share_columns({}, 1), totals=np.array([1e200])
        ),
        r"'b': total = 1e\+200: must be at most",
    ),
    "vast usage": (lambda p: p.add_request("b", [1.0], {"cpu": [1e200]}), r"'b': usage\['cpu'\] = 1e\+200"),
    "vast matrix": (
        lambda p: p.add_request("b", [1.0], csc_array([[1e200]])),
        r"'b': usage = 1e\+200: coefficients must be finite, and at most",
    ),
    "unknown resource": (lambda p: p.add_request("b", [1.0], {"cpus": [1.0]}), "'b': .* did you mean 'cpu'"),
    "unknown request": (lambda p: p.remove_request("aa"), "'aa': id .* did you mean 'a'"),
}
MASKED = np.ma.array([1.0, 2.0], mask=[False, True])


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("case", WRONG)
def test_what_is_wrong_is_named_and_nothing_changes(case):
    program = small()
    edit, why = WRONG[case]
    before = program.to_arrays(), program.request_ids, program.resource_ids
    with pytest.raises(EditError, match=why):
        edit(program)
    after = program.to_arrays(), program.request_ids, program.resource_ids
    assert after[1:] == before[1:]
    for name in ("c", "upper", "row_lower", "row_upper"):
        np.testing.assert_array_equal(getattr(after[0], name), getattr(before[0], name))


def test_a_mask_that_hides_nothing_is_none():
    program = small()
    program.update_request("a", costs=np.ma.array([3.0, 4.0], mask=False))
    assert program.to_arrays().c.tolist() == [3.0, 4.0]


def test_an_allocation_names_a_request_that_it_does_not_have():
    x = ProximalPoint().solve(small()).x
    assert repr(x) == "<Allocation of 1 requests: 0 nonzeros>"
    with pytest.raises(KeyError, match="'zz'.*there was no such request when this solution was returned"):
        x["zz"]


def test_prices_name_a_resource_that_they_do_not_have():
    price = ProximalPoint().solve(small()).price
    assert price == dict(price)
    with pytest.raises(KeyError, match="'zz'.*there was no such resource when this solution was returned"):
        price["zz"]


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda: copter.Model("x.mps"), "'Model': source = 'x.mps': must be a GeneralLP"),
        (lambda: copter.write_mps("x", "y.mps"), "'program': type = 'str': must be a ContinualProgram or"),
        (lambda: copter.to_mathopt("x"), "'program': type = 'str': must be a ContinualProgram or"),
        (lambda: copter.from_mathopt("x"), "'from_mathopt': model = 'x': must be a model of OR-Tools"),
    ],
)
def test_something_else_than_a_model_is_named(call, said, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ArgumentTypeError, match=re.escape(said)):
        call()
