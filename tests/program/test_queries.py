"""What can be set can be read, and what is printed says what is there."""

from __future__ import annotations

import pytest

from copter import ContinualProgram, EditError, LogTerm


@pytest.fixture
def program() -> ContinualProgram:
    program = ContinualProgram()
    program.add_resource_rows(["cpu", "link"], upper=[8.0, 5.0], lower=[0.0, 1.0])
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
    program.add_request("plain", [1.0], {})
    return program


def test_every_field_of_a_request(program):
    assert program.costs("q").tolist() == [2.0, 5.0] and program.base_costs("q").tolist() == [1.0, 2.0]
    assert program.scale("q") == 2.0 and program.override("q") == {1: 5.0}
    assert (program.total("q"), program.relation("q")) == (1.0, "==")
    assert program.upper("q").tolist() == [1.0, 3.0] and program.integral("q") is True
    assert program.start("q") == {0: 0.5} and program.term("q").parameters == {"weight": 1.0, "offset": 0.5}
    used = {row: [part.tolist() for part in own] for row, own in program.usage("q").items()}
    assert used == {"cpu": [[0, 1], [1.0, 1.0]], "link": [[1], [2.0]]}


def test_what_a_request_does_not_have(program):
    id = "plain"
    assert program.total(id) is None and program.relation(id) is None and program.start(id) is None
    assert program.override(id) == {} and program.usage(id) == {} and program.term(id) is None
    assert program.scale(id) == 1.0 and program.integral(id) is False and program.template(id) is None


def test_usage_leaves_out_dropped_resources(program):
    program.drop_resource("link")
    assert list(program.usage("q")) == ["cpu"]
    assert program.read_requests(["q"]).usage.shape == (1, 2)


def test_some_requests_and_resources_in_the_order_asked_for(program):
    data = program.read_requests(["plain", "q"])
    assert data.ids == ["plain", "q"] and data.sizes.tolist() == [1, 2]
    assert data.usage.toarray().tolist() == [[0.0, 1.0, 1.0], [0.0, 0.0, 2.0]]
    rows = program.read_resources(["link"])
    assert (rows.ids, rows.upper.tolist(), rows.lower.tolist()) == (["link"], [5.0], [1.0])


GETTERS = ("costs", "base_costs", "scale", "override", "usage", "template", "total", "relation", "upper")


@pytest.mark.parametrize("getter", [*GETTERS, "integral", "start", "term"])
def test_an_unknown_request_is_named(program, getter):
    with pytest.raises(EditError, match="nobody"):
        getattr(program, getter)("nobody")
    with pytest.raises(EditError, match="nobody"):
        program.read_requests(["q", "nobody"])


def test_reading_gives_copies(program):
    program.costs("q")[:] = program.upper("q")[:] = program.base_costs("q")[:] = 9.0
    program.read_requests().costs[:] = 9.0
    program.override("q")[0] = 9.0
    for _, values in program.usage("q").values():
        values[:] = 9.0
    assert program.costs("q").tolist() == [2.0, 5.0] and program.upper("q").tolist() == [1.0, 3.0]
    assert program.usage("q")["cpu"][1].tolist() == [1.0, 1.0]


def test_terms_and_templates_say_what_they_are(program):
    assert repr(LogTerm(1.5)) == "LogTerm(weight=1.5, offset=0.0, image=1.0)"
    assert repr(program.term("q")) == "LogTerm(weight=1.0, offset=0.5, image=[1., 2.])"
    assert len(repr(LogTerm(1.0, image=[1.0] * 1000))) < 100
    assert repr(program.add_template({"cpu": 1.0}, 3)).startswith("Template(slot=2, n_columns=3")


def test_a_program_says_what_it_holds(program):
    assert repr(ContinualProgram()) == "<ContinualProgram: 0 requests, 0 columns, 0 resources>"
    assert repr(program) == (
        "<ContinualProgram: 2 requests, 3 columns, 2 resources, 1 sum row, 3 nonzeros, 1 convex term, "
        "1 integral request>"
    )
