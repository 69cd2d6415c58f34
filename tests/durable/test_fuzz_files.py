"""Readers of files against anything: what they are given is read, or refused by their own error, never more.

Checksums keep nearly all damage from the readers, so here they are put right after the change.
COPTER_FUZZ=100 makes it run a hundred times as long.
"""

from __future__ import annotations

import json
import os
import struct
import zlib

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from rich_program import Square, rich
from scipy.sparse import csc_array

from copter import ContinualProgram, CopterError, FileError, Journal, LogTerm, ProximalPoint
from copter.bench.recording import Recorder, RecordingProgram, Replayer, read_rounds
from copter.durable.codec import CodecError, decode, encode
from copter.program.handles import SharedColumns

LONGER = int(os.environ.get("COPTER_FUZZ", "1"))
EXAMPLES = 40 * LONGER
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
    except CodecError:
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
    SharedColumns(1, 2, 3, 4),
]
MANY += [
    np.arange(6.0).reshape(2, 3),
    np.ones(2, np.bool_),
    csc_array(np.eye(2)),
    LogTerm(1.0, image=[1.0, 2.0]),
]


@settings(QUICK)
@given(how=changes)
def test_changed_values_are_values_or_refused(how):
    try:
        decode(changed(encode(MANY), how))
    except CodecError:
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


def resealed(content: bytes, block: int, how: list) -> bytes:
    """The file with one block (the last: its header) changed, and all lengths and checksums put right."""
    length = struct.unpack_from("<Q", content, 12)[0]
    header, at, blocks = json.loads(content[24 : 24 + length]), 24 + length, []
    for _, size, _ in header["blocks"]:
        blocks.append(content[at : at + size])
        at += size
    if block < len(blocks):
        blocks[block] = changed(blocks[block], how)
    for entry, part in zip(header["blocks"], blocks, strict=True):
        entry[1:] = len(part), zlib.crc32(part)
    new = json.dumps(header).encode()
    if block >= len(blocks):
        new = changed(new, how)
    head = content[:12] + struct.pack("<Q", len(new))
    return head + struct.pack("<I", zlib.crc32(new, zlib.crc32(head))) + new + b"".join(blocks)


@settings(QUICK, max_examples=5 * EXAMPLES)
@given(block=st.integers(0, 90), how=changes)
def test_changed_snapshots_are_programs_or_refused(saved, block, how):
    path, content = saved
    length = struct.unpack_from("<Q", content, 12)[0]
    count = len(json.loads(content[24 : 24 + length])["blocks"])
    path.write_bytes(resealed(content, block % (count + 1), how))
    try:
        program = ContinualProgram.load(path, ProximalPoint(), terms=[Square])
    except FileError as refused:
        assert refused.path == str(path)
        return
    for id in program.request_ids:  # what it points at is there
        program.requests[id].costs, program.requests[id].term
    program.remove_requests(program.request_ids)
    program.add_request("new", [1.0] * 5, dict.fromkeys(program.resource_ids, 1.0))


@pytest.fixture(scope="module")
def rounds(tmp_path_factory):
    folder = tmp_path_factory.mktemp("fuzz")
    with Journal(folder, ProximalPoint()) as journal:
        journal.add_resource("a", 3.0)
        template = journal.share_columns({"a": 1.0}, 2)
        journal.add_requests(["x", "y"], [-1.0, -2.0, -3.0, -4.0], [2, 2], template, totals=[1.0, 1.0])
        journal.solve()
        journal.update_requests(["x"], scales=[2.0])
        journal.add_request("z", [-1.0], csc := {"a": ([0], [2.0])}, upper=1.0, term=LogTerm(1.0))  # noqa: F841
        journal.solve()
    file = next(folder.glob("rounds-*"))
    return file, file.read_bytes()


@settings(QUICK, max_examples=5 * EXAMPLES)
@given(which=st.integers(0, 1), how=changes)
def test_changed_rounds_are_made_or_refused(rounds, which, how):
    file, content = rounds
    at, out = 64, bytearray(content[:64])
    for number in range(2):
        length = struct.unpack_from("<Q", content, at + 16)[0]
        part = content[at + 64 : at + 64 + length]
        part = changed(part, how) if number == which else part
        fields = struct.pack("<8sQQI", content[at : at + 8], number + 1, len(part), zlib.crc32(part))
        head = (fields + struct.pack("<I", zlib.crc32(fields))).ljust(56, b"\0") + content[at + 56 : at + 64]
        out += head + part + bytes(-len(part) % 64)
        at += 64 + length + -length % 64
    file.write_bytes(out)
    try:
        Journal(file.parent, ProximalPoint()).close()
    except FileError as refused:
        assert refused.path == str(file)


@settings(QUICK)
@given(how=changes)
def test_changed_recordings_are_refused_or_end_early(tmp_path, how):
    path = tmp_path / "rounds"
    with Recorder(path) as recorder:
        program = RecordingProgram(recorder)
        program.add_resource("a", 3.0)
        program.add_request("x", [1.0, 2.0], {"a": 1.0}, total=1.0)
        recorder.end_round()
    path.write_bytes(changed(path.read_bytes(), how))
    replayer = Replayer()
    try:
        for deltas in read_rounds(path):
            for delta in deltas:
                replayer.apply(delta)
    except CopterError:
        pass
