"""Bulk verbs take what singular ones take, in every form, and leave the same program behind."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from copter import ContinualProgram
from copter.errors import EditError
from support.amounts import examples
from support.edit_forms import bulk, empty, requests, same
from support.in_parts import made


@given(some=st.lists(requests(), min_size=1, max_size=4), form=st.sampled_from(["parts", "flat"]))
@settings(max_examples=examples(60), deadline=None)
def test_added_in_bulk_or_one_at_a_time(some, form):
    one, many = empty(), empty()
    for k, request in enumerate(some):
        one.add_request(k, **request)
    many.add_requests(range(len(some)), **bulk(some, form))
    same(one, many)


@given(data=st.data(), some=st.lists(requests(), min_size=1, max_size=4))
@settings(max_examples=examples(60), deadline=None)
def test_updated_in_bulk_or_one_at_a_time(data, some):
    one, many = empty(), empty()
    for program in (one, many):
        program.add_requests(range(len(some)), **bulk(some, "parts"))
    form = data.draw(st.sampled_from(["parts", "flat"]))
    if data.draw(st.booleans()):
        new = [data.draw(requests()) for _ in some]
        fields = ["costs", "usage", "upper", "term"]
    else:
        new = [data.draw(requests(len(r["costs"]))) for r in some]
        fields = data.draw(st.lists(st.sampled_from(["costs", "upper", "term"]), unique=True))
    optional = ["scale", "override", "integral", "start"]
    fields += data.draw(st.lists(st.sampled_from(optional), unique=True))
    fields += ["total", "relation"] if data.draw(st.booleans()) else []
    for k, request in enumerate(new):
        one.update_request(k, **{name: request[name] for name in fields})
    plural = {name: f"{name}s" for name in ("total", "scale", "override", "start", "term")}
    names = [plural.get(name, name) for name in fields] + (["sizes"] if "costs" in fields else [])
    arguments = bulk(new, form)
    many.update_requests(range(len(some)), **{name: arguments[name] for name in names})
    same(one, many)


@given(some=st.lists(requests(), max_size=4))
@settings(max_examples=examples(40), deadline=None)
def test_what_is_read_can_be_added_again(some):
    program, twin = empty(), ContinualProgram()
    for k, request in enumerate(some):
        program.add_request(k, **request)
    twin.add_resources(**vars(program.resources[:]))
    twin.add_requests(**vars(program.requests[:]))
    same(program, twin)


@pytest.mark.parametrize("parts", [0, 3])
def test_an_edit_of_several_requests_leaves_each_as_an_edit_of_one_does(parts):
    """A bound for all columns stays one, although the bounds of a neighbour in the same edit differ."""
    edits = {
        "add_requests": lambda p, ids: None,
        "add_columns": lambda p, ids: p.add_columns(ids, None, 1.0, {"r": 1}),
        "remove_columns": lambda p, ids: p.remove_columns(ids, [1] * len(ids)),
        "update_columns": lambda p, ids: p.update_columns(ids, [1] * len(ids), usage={"r": 3}),
        "upper of columns": lambda p, ids: p.update_columns(ids, [0] * len(ids), upper=1.0),
        "update_requests": lambda p, ids: p.update_requests(ids, upper=[UPPER[id] for id in ids]),
    }
    for edit in edits.values():
        found = []
        for groups in ([["a", "b", "c"]], [["a"], ["b"], ["c"]]):
            program = made(parts, ContinualProgram)
            program.add_resource("r", upper=4)
            for ids in groups:
                bounds = [UPPER[id] for id in ids]
                usage = [{"r": [1, 2, 3]}] * len(ids)
                program.add_requests(ids, [[1.0] * 3] * len(ids), None, usage, upper=bounds, totals=9.0)
            for ids in groups:
                edit(program, ids)
            accepted = {}
            for id in "abc":
                try:
                    program.update_request(id, costs=[1.0], usage={"r": [1]})
                    accepted[id] = program.requests[id].upper.tolist()
                except EditError as error:
                    accepted[id] = error.field
            found.append(accepted)
        assert found[0] == found[1] and (found[0]["a"], found[0]["b"]) == ([1.0], "upper")


UPPER = {"a": 1.0, "b": [1.0, 2.0, 3.0], "c": np.inf}


def test_one_id_or_many():
    program = ContinualProgram()
    program.add_resources("cpu", upper=4.0)
    program.add_resources([("rack", 1), ("rack", 2)], upper=[1.0, 2.0])
    program.update_resources("cpu", by=1.0)
    program.update_resources(("rack", 1), by=1.0)  # one id, for there is one of this name
    program.update_resources(("cpu", ("rack", 2)), upper=9.0, lower=[1.0, 2.0])
    program.update_resources(np.array(["cpu"]), by=[-2.0])
    program.update_resources((id for id in ["cpu"]), by=-1.0)
    assert program.resources["cpu"] == (1.0, 6.0)
    assert [program.resources[id].upper for id in (("rack", 1), ("rack", 2))] == [2.0, 9.0]
    assert program.resources[("rack", 1),].ids == [("rack", 1)]
    program.add_requests(("a", "b"), [1.0, 2.0], [1, 1], [{}, {}], upper=1e3)
    program.update_requests("a", scales=3.0)
    assert program.requests["a", "b"].scales.tolist() == [3.0, 1.0]
    assert list(program.requests) == ["a", "b"] and "a" in program.requests and len(program.requests) == 2
    program.remove_requests("a")
    program.remove_resources(("rack", 1))
    assert program.request_ids == ["b"] and program.resource_ids == ["cpu", ("rack", 2)]
