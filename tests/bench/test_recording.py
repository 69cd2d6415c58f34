"""A recording replays to the same program, template handles and nested verbs included."""

import numpy as np
import pytest
from scipy.sparse import csc_array

from copter.bench.recording import Recorder, read_rounds
from copter.errors import FileError
from copter.program.program import ContinualProgram


def record(path):
    """Two rounds with every kind of handle; return the program as it was after each."""
    after = []
    with Recorder(path) as program:
        program.add_resource("a", upper=4.0)
        program.add_resource("b", 5.0, lower=1.0)
        old = program.share_columns({"a": 1.0}, 2)
        shared = program.share_columns({"a": [1.0, 0.0, 2.0], "b": ([1], [3.0])}, 3)
        program.add_request("x", [1.0, 2.0], old, total=1.0)
        program.add_requests(["y", "z"], np.arange(6.0), [3, 3], shared, totals=[1.0, 2.0])
        after.append(state(program))
        program.end_round()
        program.remove_request("x")
        program.forget(old)
        again = program.share_columns({"b": [1.0, 2.0]}, 2)
        program.add_request("w", [5.0, 6.0], usage=again, upper=1e3)
        program.add_requests(["v"], [7.0], [1], csc_array([[1.0], [0.0]]), upper=1e3)
        program.update_requests(["y"], scales=[2.0], overrides=([1], [0], [9.0]))
        program.update_resources("a", by=2)
        after.append(state(program))
        program.end_round()
    return after


def state(program: ContinualProgram):
    requests = {
        id: (program.requests[id].costs.tolist(), program.requests[id].total) for id in program.request_ids
    }
    return requests, {id: program.resources[id] for id in program.resource_ids}, program.nnz


def test_replay_reaches_the_same_program_after_each_round(tmp_path):
    expected = record(tmp_path / "rounds")
    program, seen = ContinualProgram(), []
    for edits in read_rounds(tmp_path / "rounds", program):
        for edit in edits:
            edit()
        seen.append(state(program))
    assert seen == expected
    assert record(tmp_path / "rounds") == expected  # one that was read is replaced


def test_a_damaged_or_foreign_recording_is_refused_by_name(tmp_path):
    path = tmp_path / "rounds"
    record(path)
    content = path.read_bytes()
    for wrong in (b"", content[:9], b"a" + content[1:], content[: len(content) // 2]):
        path.write_bytes(wrong)
        with pytest.raises(FileError, match=str(path)):
            for edits in read_rounds(path, ContinualProgram()):
                list(edits)
