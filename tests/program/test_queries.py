"""What can be set can be read, and what is printed says what is there."""

from __future__ import annotations

import pytest

from copter import ContinualProgram, LogTerm


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
