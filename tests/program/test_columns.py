"""Columns with names, which come, go and change: the same as a program that is built anew."""

from __future__ import annotations

import gc
import tracemalloc

import numpy as np
import pytest

from copter import ContinualProgram, LogTerm, make_solver
from copter.errors import EditError, UnknownIdError
from support.amounts import longer
from support.strategies import snapshot


def rides(program):
    """Two rides with named drivers, and one whose columns have numbers."""
    program.add_resources(["north", "south"], upper=2.0)
    usage = {"north": [1.0, 0.0], "south": [0.0, 1.0]}
    program.add_request(
        "ride 1", [-3.0, -1.0], usage, total=1, columns=["ann", "bob"], override={"bob": -2.0}
    )
    program.add_request(
        "ride 2", [-1.0, -1.0], usage, total=1, columns=["bob", ("cy", 2)], start={"bob": 1.0}
    )
    program.add_request("plain", [-4.0, -2.0], usage, total=1, upper=0.5, override={1: -6.0})
    return program


def content(program, id):
    """What a request has, by name."""
    request = program.requests[id]
    usage = {
        row: {request.columns[j]: v for j, v in zip(columns.tolist(), values.tolist(), strict=True) if v}
        for row, (columns, values) in request.usage.items()
    }
    costs, bounds = (
        dict(zip(request.columns, each.tolist(), strict=True)) for each in (request.costs, request.upper)
    )
    return costs, usage, bounds, request.override


# ---- names -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("k", [4_000, longer(20_000)])
def test_one_tuple_for_many_requests_is_stored_once(k):
    program = ContinualProgram()
    names = tuple(f"option {j}" for j in range(50))
    shared = program.share_columns({}, 50)
    sizes, costs = np.full(k, 50), np.zeros(50 * k)
    program.add_requests(range(k), costs, sizes, shared, upper=1e3)
    program.requests[:]
    gc.collect()
    tracemalloc.start()
    program.remove_requests(range(k))
    program.add_requests(range(k), costs, sizes, shared, columns=[names] * k, upper=1e3)
    gc.collect()
    held = sum(
        stat.size
        for stat in tracemalloc.take_snapshot().statistics("filename")
        if "program/names.py" in stat.traceback[0].filename
    )
    tracemalloc.stop()
    assert held < 12 * k
    assert program.requests[k - 1].columns is names


@pytest.mark.parametrize(
    ("verb", "subject", "field"),
    [
        (lambda p: p.add_requests(["new"], [[1, 2]], None, [{}], columns=[]), "add_requests", "columns"),
        (lambda p: p.update_request("ride 1", columns=["x", "y"]), "ride 1", "columns"),
        (lambda p: p.update_request("ride 1", override={0: 1.0}), "ride 1", "override"),
        (lambda p: p.update_requests(["ride 1"], starts=[{"?": 1.0}]), "ride 1", "start"),
        (lambda p: p.share_columns({}, 2, columns=["a"]), "shared columns", "columns"),
        (lambda p: p.price_moves(["ride 1"], ["?"], 1.0), "ride 1", "columns"),
        (lambda p: p.add_columns("ride 1", ["ann"], 1.0, {}), "ride 1", "names"),
        (lambda p: p.add_columns("ride 1", None, 1.0, {}), "ride 1", "names"),
        (lambda p: p.add_columns("plain", ["ann"], 1.0, {}), "plain", "names"),
        (lambda p: p.add_columns("ride 1", ["x", "y"], [1.0], {}), "ride 1", "costs"),
        (lambda p: p.add_columns("ride 1", ["x"], 1.0, {"east": 1.0}), "ride 1", "usage"),
        (lambda p: p.add_columns(["ride 1", "plain"], ["x"], 1.0, {}), "add_columns", "names"),
        (lambda p: p.add_columns(["ride 1", "plain"], ["x", None], [1.0, np.nan], {}), "plain", "costs"),
        (
            lambda p: p.add_columns(["ride 1", "plain"], ["x", None], 1.0, {}, upper=[1.0, -1.0]),
            "plain",
            "upper",
        ),
        (lambda p: p.add_columns("?", ["x"], 1.0, {}), "?", "id"),
        (lambda p: p.remove_columns("ride 1", ["ann", "bob"]), "ride 1", "names"),
        (lambda p: p.remove_columns("ride 1", [0]), "ride 1", "names"),
        (lambda p: p.remove_columns("plain", [2]), "plain", "names"),
        (lambda p: p.remove_columns("plain", [True]), "plain", "names"),
        (lambda p: p.remove_columns(["plain", "plain"], [1, 1]), "plain", "names"),
        (lambda p: p.update_columns("ride 1", ["?"], costs=1.0), "ride 1", "names"),
        (lambda p: p.update_columns("ride 1", ["ann"], upper=-1.0), "ride 1", "upper"),
    ],
)
def test_what_is_wrong_is_named_and_changes_nothing(verb, subject, field):
    program = rides(ContinualProgram())
    before = snapshot(program)
    with pytest.raises(EditError) as caught:
        verb(program)
    assert (caught.value.subject, caught.value.field) == (subject, field)
    assert snapshot(program) == before


# ---- columns that come, go and change --------------------------------------------------------------------


def test_the_image_of_a_term_is_0_on_new_columns():
    program = ContinualProgram()
    program.add_request(
        "q", [0.0, 0.0], {}, term=LogTerm(2.0, 0.0, [1.0, 3.0]), columns=["a", "b"], upper=1e3
    )
    program.add_columns("q", ["c"], 1.0, {})
    assert program.requests["q"].term.image.tolist() == [1.0, 3.0, 0.0]
    program.remove_columns("q", ["a"])
    assert program.requests["q"].term.image.tolist() == [3.0, 0.0]
    with pytest.raises(EditError, match="image"):
        program.remove_columns("q", ["b"])


# ---- answers ---------------------------------------------------------------------------------------------


def test_an_answer_is_by_name_and_keeps_the_names_of_its_time():
    program, solver = rides(ContinualProgram()), make_solver("highs-simplex")
    first = solver.solve(program)
    held = dict(first.x["ride 1"])
    assert held == {"ann": 1.0, "bob": 0.0} and isinstance(first.x["plain"], np.ndarray)
    assert first.x.choices()["ride 1"] == "ann" and first.x.choices()["plain"] in (0, 1)
    with pytest.raises(UnknownIdError):
        first.x["ride 1"]["cy"]
    program.remove_columns("ride 1", ["ann"])
    second = solver.solve(program)
    program.add_columns("ride 1", ["zed"], -9.0, {})
    program.remove_request("ride 2")
    program.add_request("ride 3", [-1.0], {}, total=1)
    third = solver.solve(program)
    assert first.x["ride 1"] == held and second.x["ride 1"] == {"bob": 1.0}
    assert third.x["ride 1"] == {"bob": 0.0, "zed": 1.0} and list(first.x["ride 2"]) == ["bob", ("cy", 2)]


def test_names_cost_an_answer_nothing():
    program, k = ContinualProgram(), 50_000
    program.add_requests(
        range(k),
        np.zeros(k),
        np.ones(k, np.int64),
        program.share_columns({}, 1),
        columns=[("a",)] * k,
        upper=1e3,
    )
    now = program.column_names
    assert program.column_names is now
    program.add_columns(7, ["b"], 0.0, {})
    later = program.column_names
    assert now.of(7) == ("a",) and later.of(7) == ("a", "b") and later.of(8) is now.of(8)
