"""What can be set can be read, and what is printed says what is there."""

from __future__ import annotations

import pytest

from copter import ContinualProgram, LogTerm
from copter.errors import EditError


@pytest.fixture
def program() -> ContinualProgram:
    program = ContinualProgram()
    program.add_resources(["cpu", "link"], upper=[8.0, 5.0], lower=[0.0, 1.0])
    program.add_request(
        "q",
        [1.0, 2.0],
        {"cpu": 1.0, "link": [0.0, 2.0]},
        total=1.0,
        relation="==",
        upper=[1.0, 3.0],
        scale=2.0,
        override={1: 5.0},
        integral=True,
        start={0: 0.5},
        term=LogTerm(1.0, 0.5, image=[1.0, 2.0]),
    )
    program.add_request("plain", [1.0], {}, upper=1e3)
    return program


def test_every_field_of_a_request(program):
    assert program.requests["q"].costs.tolist() == [2.0, 5.0] and program.requests[
        "q"
    ].base_costs.tolist() == [1.0, 2.0]
    assert program.requests["q"].scale == 2.0 and program.requests["q"].override == {1: 5.0}
    assert (program.requests["q"].total, program.requests["q"].relation) == (1.0, "==")
    assert program.requests["q"].upper.tolist() == [1.0, 3.0] and program.requests["q"].integral is True
    assert program.requests["q"].start == {0: 0.5} and program.requests["q"].term.parameters == {
        "weight": 1.0,
        "offset": 0.5,
    }
    used = {row: [part.tolist() for part in own] for row, own in program.requests["q"].usage.items()}
    assert used == {"cpu": [[0, 1], [1.0, 1.0]], "link": [[1], [2.0]]}


def test_what_a_request_does_not_have(program):
    id = "plain"
    assert (
        program.requests[id].total is None
        and program.requests[id].relation is None
        and program.requests[id].start is None
    )
    assert (
        program.requests[id].override == {}
        and program.requests[id].usage == {}
        and program.requests[id].term is None
    )
    assert (
        program.requests[id].scale == 1.0
        and program.requests[id].integral is False
        and program.requests[id].shared_columns is None
    )


def test_usage_leaves_out_dropped_resources(program):
    program.remove_resources("link")
    assert list(program.requests["q"].usage) == ["cpu"]
    assert program.requests[["q"]].usage.shape == (1, 2)


def test_some_requests_and_resources_in_the_order_asked_for(program):
    data = program.requests[["plain", "q"]]
    assert data.ids == ["plain", "q"] and data.sizes.tolist() == [1, 2]
    assert data.usage.toarray().tolist() == [[0.0, 1.0, 1.0], [0.0, 0.0, 2.0]]
    rows = program.resources[["link"]]
    assert (rows.ids, rows.upper.tolist(), rows.lower.tolist()) == (["link"], [5.0], [1.0])


GETTERS = (
    "costs",
    "base_costs",
    "scale",
    "override",
    "usage",
    "shared_columns",
    "total",
    "relation",
    "upper",
)


@pytest.mark.parametrize("getter", [*GETTERS, "relation", "upper", "integral", "start", "term"])
def test_an_unknown_request_is_named(program, getter):
    with pytest.raises(EditError, match="nobody"):
        getattr(program.requests["nobody"], getter)
    request = program.requests["q"]
    program.remove_request("q")
    with pytest.raises(EditError, match="'q'"):
        getattr(request, getter)
    with pytest.raises(EditError, match="nobody"):
        program.requests[["plain", "nobody"]]


def test_reading_gives_copies(program):
    program.requests["q"].costs[:] = program.requests["q"].upper[:] = program.requests["q"].base_costs[:] = (
        9.0
    )
    program.requests[:].costs[:] = 9.0
    program.requests["q"].override[0] = 9.0
    for _, values in program.requests["q"].usage.values():
        values[:] = 9.0
    assert program.requests["q"].costs.tolist() == [2.0, 5.0] and program.requests["q"].upper.tolist() == [
        1.0,
        3.0,
    ]
    assert program.requests["q"].usage["cpu"][1].tolist() == [1.0, 1.0]


def test_terms_and_templates_say_what_they_are(program):
    assert repr(LogTerm(1.5)) == "LogTerm(weight=1.5, offset=0.0, image=1.0)"
    assert repr(program.requests["q"].term) == "LogTerm(weight=1.0, offset=0.5, image=[1., 2.])"
    assert len(repr(LogTerm(1.0, image=[1.0] * 1000))) < 100
    assert repr(program.share_columns({"cpu": 1.0}, 3)).startswith("SharedColumns(slot=2, n_columns=3")


def test_a_program_says_what_it_holds(program):
    assert repr(ContinualProgram()) == "<ContinualProgram: 0 requests, 0 columns, 0 resources>"
    assert repr(program) == (
        "<ContinualProgram: 2 requests, 3 columns, 2 resources, 1 sum row, 3 nonzeros, 1 convex term, "
        "1 integral request>"
    )


def test_what_is_printed_says_what_there_is(program):
    assert repr(program.requests) == "<2 requests: 'q', 'plain'>"
    assert repr(program.resources) == "<2 resources: 'cpu', 'link'>"
    assert repr(program.requests["q"]) == "<request 'q': 2 columns, sum == 1>"
    assert repr(program.requests["plain"]) == "<request 'plain': 1 column>"
    program.add_resources(range(3))
    assert repr(program.resources) == "<5 resources: 'cpu', 'link', 0, ...>"
