"""Snapshots: what is read is what was written, and what was not written by copter is refused by name."""

from __future__ import annotations

import random
import sqlite3

import numpy as np
import pytest

from copter import ContinualProgram, ProximalPoint, make_solver
from copter.durable.program_file import ProgramFile
from copter.durable.values import encode
from copter.errors import CopterError, EditError, FileError
from support.amounts import longer
from support.rich_program import Square, rich, same_answers
from support.strategies import snapshot


@pytest.fixture
def path(tmp_path):
    return tmp_path / "program.copter"


IDS = ["job", "", "ä\ud800", "\ud83d\ude00", 0, -1, 2**80, -(2**63), 1.5, float("inf"), None, b"\x00\xff"]
IDS += [(), ("rack", (1, None, 2.5)), True, np.int64(77), np.float32(0.1), np.str_("numpy")]


def test_ids_come_back_equal(path):
    program = ContinualProgram()
    for k, id in enumerate(IDS):
        program.add_resource(id, float(k))
        program.add_request(id, [float(k)], {id: 1.0}, upper=1e3)
    program.save(path)
    loaded = ContinualProgram.load(path)
    assert loaded.request_ids == IDS
    assert loaded.resource_ids == IDS
    assert [loaded.requests[id].costs.tolist() for id in IDS] == [[float(k)] for k in range(len(IDS))]


@pytest.mark.parametrize(
    "id",
    [object(), frozenset([1]), ("a", object()), (0, float("nan")), 1j, range(3)],
    ids=lambda id: type(id).__name__,
)
@pytest.mark.parametrize("verb", ["resource", "request"])
def test_an_id_that_cannot_be_written_is_named_and_nothing_is_written(path, id, verb):
    program = ContinualProgram()
    if verb == "resource":
        program.add_resource(id)
    else:
        program.add_request(id, [1.0], {}, upper=1e3)
    with pytest.raises(EditError) as caught:
        program.save(path)
    assert caught.value.subject is id
    assert list(path.parent.iterdir()) == []


def test_an_id_nested_too_deep_is_refused(path):
    program, id = ContinualProgram(), ()
    for _ in range(30):
        id = (id,)
    program.add_resource(id)
    with pytest.raises(EditError, match="deep") as caught:
        program.save(path)
    assert caught.value.field == "id"


def test_terms_of_a_class_of_the_users_own_need_the_class(path):
    program = ContinualProgram()
    program.add_resource("a", 1.0)
    program.add_request("x", [-1.0], {"a": 1.0}, term=Square(2.0), upper=1e3)
    program.save(path)
    with pytest.raises(FileError, match="class Square; give this class in `terms`"):
        ContinualProgram.load(path)
    loaded = ContinualProgram.load(path, terms=[Square])
    assert type(loaded.requests["x"].term) is Square
    same_answers((program, ProximalPoint()), (loaded, ProximalPoint()))


def test_two_classes_of_terms_of_one_name_cannot_be_told_apart(path):
    program = ContinualProgram()
    program.add_request("x", [-1.0], {}, term=Square(2.0), upper=1e3)
    program.add_request("y", [-1.0], {}, term=type("Square", (Square,), {})(1.0), upper=1e3)
    with pytest.raises(EditError, match="Square"):
        program.save(path)


def test_a_solver_must_be_of_the_kind_that_was_saved(path):
    program = rich()
    program.save(path)
    with pytest.raises(FileError, match="without a solver"):
        ContinualProgram.load(path, ProximalPoint())
    with pytest.raises(CopterError, match="highs-hot"):
        program.save(path, make_solver("highs-hot"))
    program.save(path, ProximalPoint())
    with pytest.raises(FileError, match="ProximalPoint, not HighsRebuild"):
        ContinualProgram.load(path, make_solver("highs-simplex"))


def test_saving_again_replaces_the_file_or_leaves_it(path):
    program = rich()
    program.save(path)
    program.add_resource("later", 1.0)
    program.save(path)
    assert "later" in ContinualProgram.load(path).resource_ids
    program.add_request(object(), [1.0], {}, upper=1e3)
    with pytest.raises(EditError):
        program.save(path)
    assert "later" in ContinualProgram.load(path).resource_ids
    assert [file.name for file in path.parent.iterdir()] == [path.name]


# ---- what is no snapshot -----------------------------------------------------------------------------


def refused(path, content) -> str:
    path.write_bytes(content)
    with pytest.raises(FileError) as caught:
        ContinualProgram.load(path, ProximalPoint())
    assert str(path) in str(caught.value)
    return caught.value.why


def refused_or_same(path, content, expected) -> bool:
    """Whether a file is refused; one that is read has the expected program."""
    path.write_bytes(content)
    try:
        program = ContinualProgram.load(path, ProximalPoint(), terms=[Square])
    except FileError as caught:
        assert caught.path == str(path)
        return True
    assert snapshot(program) == expected
    return False


@pytest.fixture
def content(path):
    program, solver = ContinualProgram(), ProximalPoint()
    program.add_resource("a", 1.0)
    program.add_request("x", [-1.0, -2.0], {"a": 1.0}, total=1.0)
    solver.solve(program)
    program.save(path, solver)
    return path.read_bytes()


def test_a_file_that_was_cut_off_is_refused_or_the_same(path, content):
    """SQLite does not miss the end of the last page if nothing is written there."""
    expected, page = snapshot(ContinualProgram.load(path)), 16384
    kept = [n for n in range(0, len(content), 997) if not refused_or_same(path, content[:n], expected)]
    assert all(length > len(content) - page for length in kept)
    assert refused(path, b"") == "is not a file of copter of this kind"


@pytest.mark.parametrize("step", [523, longer(131)])
def test_a_file_with_a_wrong_byte_is_refused_or_the_same(path, content, step):
    expected, random_bytes = snapshot(ContinualProgram.load(path)), random.Random(1)
    count = 0
    for at in range(0, len(content), step):
        wrong = bytearray(content)
        wrong[at] ^= random_bytes.randrange(1, 256)
        count += refused_or_same(path, bytes(wrong), expected)
    assert count > 3900 / step


@pytest.mark.parametrize(
    "foreign", [b"PK\x03\x04" * 50, b"\x80\x05cos\nsystem\n", b"{}", b"\x89PNG\r\n" * 9, b"\0" * 999]
)
def test_a_foreign_file_is_refused(path, foreign):
    assert refused(path, foreign) == "cannot be read: file is not a database"


def put(path, name: str, value) -> None:
    """Write another value of an item, with its checksum."""
    file = ProgramFile(path)
    file.database.execute("DELETE FROM items WHERE name = ?", (name,))
    file._put("items", (name,), encode(value))
    file.database.execute("PRAGMA journal_mode = OFF")
    file.close()


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("store.counts", np.array([2])),
        ("store.counts", np.array([2.0, 2.0])),
        ("store.counts", np.array([2, 3])),
        ("store.requests.total", np.ones(2)),
        ("store.requests.total", np.ones((1, 1))),
        ("store.requests.total", np.ones(1, np.int64)),
        ("store.requests.total", None),
        ("store.requests.free", np.array([0])),
        ("store.edits.after", np.array([10**9])),
        ("store.edits.after", np.array([-1])),
        ("store.edits.slot", np.array([-1])),
        ("store.edits.revision", np.array([10**9])),
        ("store.costs.free", np.array([1])),
        ("store.terms.kind", np.zeros(1, np.int16)),
        ("store.terms.start", np.zeros(1, np.int64)),
        ("requests", (["x", "x"], np.array([0, 0]))),
        ("requests", (["x", "y"], np.array([0, 1]))),
        ("requests", (["x"], np.array([1]))),
        ("requests", (["x", "y"], np.array([0]))),
        ("requests", ["x"]),
        ("store.requests.usage", np.array([1])),
        ("store.rows.free", np.array([1])),
        ("store.rows.free", np.array([0])),
        ("starts", {0: (np.array([5]), np.array([1.0]))}),
        ("starts", {3: (np.array([0]), np.array([1.0]))}),
        ("starts", {0: (np.array([0]), np.array([1.0, 2.0]))}),
        ("starts", None),
        ("shared columns", np.array([[0, 2, 1, 1]])),
        ("parts", 2),
        ("store", {"kinds": [], "arrays": []}),
        ("store", {"kinds": [("LogTerm", [1])], "arrays": ["counts"]}),
        ("last", 2),
        ("last", {"round": "one"}),
        ("last", {"round": 0, "solver": "ProximalPoint", "state": 3}),
    ],
)
def test_a_value_that_does_not_fit_is_refused(path, content, name, value):
    put(path, name, value)
    refused(path, path.read_bytes())


def test_a_later_version_is_named(path, content):
    file = sqlite3.connect(path, isolation_level=None)
    file.execute("PRAGMA user_version = 9")
    file.close()
    assert refused(path, path.read_bytes()) == "has version 9 of the format; this copter reads version 4"


@pytest.mark.parametrize(
    ("part", "field", "value"),
    [
        ("requests", "usage", 5),
        ("requests", "cost_start", 10**9),
        ("requests", "n_columns", -2),
        ("requests", "upper_start", 0),
        ("usages", "entry_start", -8),
        ("usages", "nnz", 2**62),
        ("usages", "references", 3),
        ("entries", "row", 7),
        ("pointers", "pointer", 2**30),
    ],
)
def test_what_points_nowhere_is_refused(path, part, field, value):
    program = rich()
    getattr(getattr(program.store, part), field)[0] = value
    program.save(path)
    with pytest.raises(FileError, match="is inconsistent"):
        ContinualProgram.load(path)


def test_a_state_that_points_nowhere_is_refused(path):
    program, solver = rich(), ProximalPoint()
    solver.solve(program)
    solver._state.x.x.column[0] = 10**9
    program.save(path, solver)
    with pytest.raises(FileError, match="must be a column of its request"):
        ContinualProgram.load(path, ProximalPoint())
    assert snapshot(ContinualProgram.load(path)) == snapshot(program)


def test_a_log_that_has_forgotten_half_of_an_edit_is_read_again(tmp_path):
    program = ContinualProgram()
    program.add_resource("a", 1e6)
    shared = program.share_columns({"a": [1.0]}, 1)
    program.add_requests(range(2000), [-1.0] * 2000, [1] * 2000, shared, totals=1.0)
    for _ in range(4):  # more entries than are kept, many of one revision
        program.update_requests(range(1500), scales=2.0)
    assert program.store.edits.complete_after == program.store.edits.arrays()["revision"][0]
    program.save(tmp_path / "program")
    again = ContinualProgram.load(tmp_path / "program")
    mine, other = program.store.edits.arrays(), again.store.edits.arrays()
    for name in ("after", "revision", "slot"):
        np.testing.assert_array_equal(mine[name], other[name])
