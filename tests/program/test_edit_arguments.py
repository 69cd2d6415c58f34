"""Arguments of edit verbs that are no numbers, or of no use: an EditError names each, nothing changes."""

import copy
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from copter import ContinualProgram, EditError


def small():
    program = ContinualProgram()
    program.add_resource("cpu", 10.0, lower=0.0)
    program.add_request("a", [1.0, 2.0], {"cpu": [1.0, 2.0]}, total=1.0)
    return program


VERBS = {
    "add_resource upper": lambda p, v: p.add_resource("new", v),
    "add_resource lower": lambda p, v: p.add_resource("new", 1e9, v),
    "set_capacity": lambda p, v: p.set_capacity("cpu", v),
    "set_capacities": lambda p, v: p.set_capacities(["cpu"], upper=[v]),
    "add_resources": lambda p, v: p.add_resources("cpu", v),
    "add_template": lambda p, v: p.add_template({"cpu": [1.0]}, v),
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
    "sizes": lambda p, v: p.add_requests(["b"], [1.0], [v], p.add_template({}, 1)),
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
    assert program.capacity("cpu") == (0.0, 10.0) and program.costs("a").tolist() == [1.0, 2.0]


@pytest.mark.parametrize("column", ["0", True, 2, -1, 0.5, None])
def test_what_is_no_column_is_named(column):
    with pytest.raises(EditError, match="override"):
        small().update_request("a", override={column: 1.0})


@pytest.mark.parametrize("usage", [[1.0], None, 3.0, "cpu"], ids=repr)
def test_a_usage_that_is_no_mapping_is_named(usage):
    program = small()
    for edit in (
        lambda: program.add_request("b", [1.0], usage),
        lambda: program.update_request("a", costs=[1.0], usage=[1.0] if usage is None else usage),
        lambda: program.add_template(usage, 1),
        lambda: program.add_requests(["b"], [1.0], [1], usage),
    ):
        with pytest.raises(EditError, match="usage"):
            edit()


@pytest.mark.parametrize("width", [2.5, 0, -1, 2**31, 1e300, math.inf, None])
def test_a_template_has_a_whole_number_of_columns(width):
    with pytest.raises(EditError, match="n_columns"):
        small().add_template({}, width)


@pytest.mark.parametrize("bound", [1e20, 1e300, math.inf])
def test_bounds_from_1e20_on_are_infinite(bound):
    program = small()
    program.add_resource("r", bound, lower=-bound)
    program.set_capacity("cpu", upper=bound)
    assert program.capacity("r") == (-math.inf, math.inf) and program.capacity("cpu")[1] == math.inf
    program.set_capacities(["r", "cpu"], upper=[9.9e19, bound])
    assert program.capacity("r")[1] == 9.9e19 and program.capacity("cpu")[1] == math.inf
    program.add_request("one", [1.0, 1.0], {}, upper=bound)
    program.add_request("each", [1.0, 1.0], {}, upper=[bound, 3.0])
    store = program.store
    assert store.requests.upper[program.slot_of["one"]] == math.inf
    assert store.upper_bounds(program.slot_of["each"]).tolist() == [math.inf, 3.0]
    with pytest.raises(EditError, match="lower"):
        program.set_capacity("cpu", lower=bound)


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
@settings(max_examples=600, deadline=None)
def test_whatever_is_given_is_an_edit_or_an_edit_error(verb, value):
    program = small()
    before = copy.copy(program.request_ids), program.capacity("cpu"), program.costs("a").tolist()
    try:
        VERBS[verb](program, value)
    except EditError as error:
        assert str(error)
        assert (program.request_ids, program.capacity("cpu"), program.costs("a").tolist()) == before
