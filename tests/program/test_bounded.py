"""Every column has a bound: each edit that would leave one without is refused, and changes nothing."""

import math
from collections import Counter

import numpy as np
import pytest

from copter import ContinualProgram, LogTerm
from copter.durable.edits import make_edit
from copter.durable.values import ValueFormatError
from copter.errors import EditError, FileError
from copter.store.edit import Edit
from support.strategies import snapshot

INF = math.inf


def made(program=None):
    program = ContinualProgram() if program is None else program
    program.add_resource("r", upper=4)
    program.add_request("summed", [-1.0, -2.0], {"r": [1, 2]}, total=1)
    program.add_request("boxed", [-1.0, -2.0], {"r": [1, 2]}, upper=[1.0, 2.0], columns=["a", "b"])
    program.add_request("some", [-1.0, -2.0], {"r": [1, 2]}, upper=[1.0, INF], total=1.0)
    program.add_request("both", [-1.0], {"r": 1}, total=1, upper=2.0)
    return program


TABLE = {"request": ["n", "n"], "column": [0, 1], "resource": ["r", "r"], "use": [1, 2], "cost": [1, 1]}
REFUSED = {
    "upper that counts as infinite": (lambda p: p.add_request("n", [1.0], {"r": 1}, upper=1e20), "n", 0),
    "a named column": (
        lambda p: p.add_request("n", [1.0, 2.0], {"r": 1}, upper=[1.0, INF], columns=["x", "y"]),
        "n",
        "y",
    ),
    "a convex term": (lambda p: p.add_request("n", [0.0], {"r": 1}, term=LogTerm(1.0, 1.0, [1.0])), "n", 0),
    "integral": (lambda p: p.add_request("n", [1.0], {"r": 1}, integral=True), "n", 0),
    "add_requests": (lambda p: p.add_requests(["m", "n"], [[1.0], [2.0]], None, [{}, {}]), "m", 0),
    "one of many": (
        lambda p: p.add_requests(["m", "n"], [[1.0], [2.0]], None, [{}, {}], totals=[1.0, None]),
        "n",
        0,
    ),
    "each upper": (
        lambda p: p.add_requests(["m", "n"], [[1.0], [1.0, 2.0]], None, [{}, {}], upper=[1.0, [1.0, INF]]),
        "n",
        1,
    ),
    "add_table": (lambda p: p.add_table(TABLE), "n", 0),
    "without one upper": (lambda p: p.update_request("boxed", upper=[1.0, INF]), "boxed", "b"),
    "new columns": (
        lambda p: p.update_request("boxed", costs=[1.0], usage={"r": 1}, upper=INF),
        "boxed",
        0,
    ),
    "update_requests": (
        lambda p: p.update_requests(["both", "summed"], totals=[None, None], upper=[1.0, INF]),
        "summed",
        0,
    ),
    "add_columns": (lambda p: p.add_columns("boxed", ["c"], [1.0], {"r": 1}, upper=INF), "boxed", "c"),
    "add_columns without upper": (lambda p: p.add_columns("boxed", ["c"], [1.0], {"r": 1}), "boxed", "c"),
    "update_columns": (lambda p: p.update_columns("boxed", ["b"], upper=INF), "boxed", "b"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_an_edit_that_leaves_a_column_without_a_bound_is_refused(case):
    edit, request, column = REFUSED[case]
    program = made()
    before = snapshot(program)
    with pytest.raises(EditError) as refused:
        edit(program)
    assert (refused.value.subject, refused.value.field, refused.value.value) == (request, "upper", INF)
    assert f"column {column!r}" in str(refused.value)
    assert "upper= or total=" in str(refused.value) and "copter.from_arrays" in str(refused.value)
    assert snapshot(program) == before


def test_a_recorded_edit_is_refused():
    program = made()
    edit = Edit("update_requests", slots=np.array([0]), exact=False, totals=np.array([INF]))
    before = snapshot(program)
    with pytest.raises(ValueFormatError, match="column 0"):
        make_edit(program, edit)
    assert snapshot(program) == before


def test_a_file_with_an_unbounded_column_is_refused(tmp_path):
    for request in ("summed", "some"):
        program = made()
        program.store.requests.total[program.slot_of[request]] = INF
        program.save(tmp_path / "file")
        with pytest.raises(FileError, match="neither an upper bound nor a total"):
            ContinualProgram.load(tmp_path / "file")


def test_random_edits_are_refused_exactly_if_they_leave_a_column_unbounded():
    rng, counts = np.random.default_rng(0), Counter()
    program = ContinualProgram()
    program.add_resource("r", upper=4)
    mirror: dict = {}
    for number in range(600):
        n = int(rng.integers(1, 4))
        total = [None, 1.0, 2.0][rng.integers(3)]
        upper = [INF, 1.0, rng.choice([1.0, INF], n).tolist()][rng.integers(3)]
        new = not mirror or rng.random() < 0.4
        id = number if new else list(mirror)[rng.integers(len(mirror))]
        given = {}
        if new:
            given = {"total": total, "upper": upper}
            state = {"n": n} | given
        else:
            state = dict(mirror[id])
            if rng.random() < 0.6:
                state["total"] = given["total"] = total
            if rng.random() < 0.6:
                upper = upper if np.isscalar(upper) else rng.choice([1.0, INF], state["n"]).tolist()
                state["upper"] = given["upper"] = upper
        bounded = state["total"] is not None or np.isfinite(state["upper"]).all()
        counts[("add" if new else "update", bool(bounded))] += 1
        call = program.add_request if new else program.update_request
        if new:
            given |= {"costs": np.ones(n), "usage": {"r": 1.0}}
        before = snapshot(program)
        if bounded:
            call(id, **given)
            mirror[id] = state
        else:
            with pytest.raises(EditError, match="must be finite for column"):
                call(id, **given)
            assert snapshot(program) == before
    assert min(counts.values()) > 30, counts
