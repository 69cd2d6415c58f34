"""Readers of files against anything: what they are given is read, or refused by their own error, never more.

Checksums keep nearly all damage from the readers, so here they are put right after the change.
COPTER_FUZZ=100 makes it run a hundred times as long.
"""

from __future__ import annotations

import os

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from copter import ContinualProgram, Journal, LogTerm, ProximalPoint
from copter.durable.program_file import ProgramFile
from copter.durable.values import ValueFormatError, decode, encode
from copter.errors import FileError
from support.amounts import examples
from support.rich_program import Square, rich

LONGER = int(os.environ.get("COPTER_FUZZ", "1"))
EXAMPLES = examples(40) * LONGER
QUICK = settings(
    max_examples=EXAMPLES,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)

scalars = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(allow_nan=False),
    st.text(st.characters()),
    st.binary(),
    st.builds(range, st.integers(-9, 9), st.integers(-9, 9), st.integers(1, 3)),
)
keys = st.one_of(st.integers(), st.text(), st.tuples(st.text(), st.integers()))
values = st.recursive(
    scalars,
    lambda inner: (
        st.one_of(
            st.lists(inner),
            st.lists(st.integers()),
            st.lists(st.floats(allow_nan=False)),
            st.lists(st.text()),
        )
        | st.tuples(inner, inner)
        | st.dictionaries(keys, inner)
    ),
    max_leaves=12,
)
changes = st.lists(
    st.tuples(
        st.integers(0, 2**20), st.sampled_from(["flip", "zero", "ones", "cut", "double"]), st.integers(1, 255)
    ),
    min_size=1,
    max_size=4,
)


def changed(content: bytes, how: list) -> bytes:
    wrong = bytearray(content)
    for place, what, byte in how:
        at = place % max(1, len(wrong))
        if what == "flip":
            wrong[at : at + 1] = bytes([wrong[at] ^ byte]) if wrong else b""
        elif what == "cut":
            del wrong[at : at + byte]
        elif what == "double":
            wrong[at:at] = wrong[at : at + byte]
        else:
            wrong[at : at + 8] = (b"\0" if what == "zero" else b"\xff") * len(wrong[at : at + 8])
    return bytes(wrong)


@settings(QUICK)
@given(value=values)
def test_values_come_back(value):
    again = decode(encode(value))
    assert again == value
    assert repr(again) == repr(value)


@settings(QUICK)
@given(content=st.binary(max_size=60))
def test_any_bytes_are_a_value_or_refused(content):
    try:
        decode(content)
    except ValueFormatError:
        pass


MANY = [
    1,
    2.5,
    "text",
    (None, b"x"),
    {"a": [1.0, 2.0]},
    ["a", "bc"],
    [1, 2],
    range(3),
    2**70,
]
MANY += [
    np.arange(6.0).reshape(2, 3),
    np.ones(2, np.bool_),
    LogTerm(1.0, image=[1.0, 2.0]),
]


@settings(QUICK)
@given(how=changes)
def test_changed_values_are_values_or_refused(how):
    try:
        decode(changed(encode(MANY), how))
    except ValueFormatError:
        pass


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    path = tmp_path_factory.mktemp("fuzz") / "program"
    program, solver = rich(), ProximalPoint()
    solver.solve(program)
    program.update_request("own", start={0: 1.0})
    program.add_request("square", [1.0], {}, term=Square(1.0), upper=1.0)
    program.save(path, solver)
    return path, path.read_bytes()


def rewrite(file: ProgramFile, table: str, key: tuple, how: list) -> None:
    """Change the bytes of a value, and put its checksum right."""
    where = "name = ?" if table == "items" else "round = ? AND number = ?"
    (old,) = file.database.execute(f"SELECT content FROM {table} WHERE {where}", key).fetchone()
    file.database.execute(f"DELETE FROM {table} WHERE {where}", key)
    file._put(table, key, changed(old, how))


@settings(QUICK, max_examples=5 * EXAMPLES)
@given(which=st.integers(0, 200), how=changes)
def test_changed_snapshots_are_programs_or_refused(saved, which, how):
    path, content = saved
    path.write_bytes(content)
    file = ProgramFile(path)
    names = [name for (name,) in file.database.execute("SELECT name FROM items ORDER BY name")]
    rewrite(file, "items", (names[which % len(names)],), how)
    file.database.execute("PRAGMA journal_mode = OFF")
    file.close()
    try:
        program = ContinualProgram.load(path, ProximalPoint(), terms=[Square])
    except FileError as refused:
        assert refused.path == str(path)
        return
    for id in program.request_ids:  # what it points at is there
        program.requests[id].costs, program.requests[id].term
    program.remove_requests(program.request_ids)
    program.add_request("new", [1.0] * 5, dict.fromkeys(program.resource_ids, 1.0), total=1)


@pytest.fixture(scope="module")
def rounds(tmp_path_factory):
    folder = tmp_path_factory.mktemp("fuzz")
    with Journal(folder, ProximalPoint()) as journal:
        journal.add_resource("a", 3.0)
        template = journal.share_columns({"a": 1.0}, 2)
        journal.add_requests(["x", "y"], [-1.0, -2.0, -3.0, -4.0], [2, 2], template, totals=[1.0, 1.0])
        journal.solve()
        journal.update_requests(["x"], scales=[2.0])
        journal.add_request("z", [-1.0], {"a": ([0], [2.0])}, upper=1.0, term=LogTerm(1.0))
        journal.solve()
    return folder, (folder / "journal.sqlite").read_bytes()


@settings(QUICK, max_examples=5 * EXAMPLES)
@given(which=st.integers(0, 99), how=changes)
def test_changed_rounds_are_made_or_refused(rounds, which, how):
    folder, content = rounds
    (folder / "journal.sqlite").write_bytes(content)
    file = ProgramFile(folder / "journal.sqlite")
    keys = file.database.execute("SELECT round, number FROM edits ORDER BY round, number").fetchall()
    assert len(keys) == 5
    rewrite(file, "edits", keys[which % len(keys)], how)
    file.close()
    try:
        Journal(folder, ProximalPoint()).close()
    except FileError as refused:
        assert refused.path == str(folder / "journal.sqlite")
