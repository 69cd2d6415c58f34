"""A recording replays to the same program, template handles and nested verbs included."""

import numpy as np
import pytest
from scipy.sparse import csc_array

from copter.bench.recording import Recorder, RecordingProgram, Replayer, read_rounds
from copter.errors import EditError, FileError
from copter.program.program import ContinualProgram


def record(path):
    """Two rounds with every kind of handle; return the program as it was after each."""
    after = []
    with Recorder(path) as recorder:
        program = RecordingProgram(recorder)
        program.add_resource("a", upper=4.0)
        program.add_resource("b", 5.0, lower=1.0)
        old = program.share_columns({"a": 1.0}, 2)
        shared = program.share_columns({"a": [1.0, 0.0, 2.0], "b": ([1], [3.0])}, 3)
        program.add_request("x", [1.0, 2.0], old, total=1.0)
        program.add_requests(["y", "z"], np.arange(6.0), [3, 3], shared, totals=[1.0, 2.0])
        after.append(state(program))
        recorder.end_round()
        program.remove_request("x")
        program.forget(old)
        again = program.share_columns({"b": [1.0, 2.0]}, 2)
        program.add_request("w", [5.0, 6.0], usage=again, upper=1e3)
        program.add_requests(["v"], [7.0], [1], csc_array([[1.0], [0.0]]), upper=1e3)
        program.update_requests(["y"], scales=[2.0], overrides=([1], [0], [9.0]))
        program.update_resources("a", by=2)
        after.append(state(program))
        recorder.end_round()
    return after


def state(program: ContinualProgram):
    requests = {
        id: (program.requests[id].costs.tolist(), program.requests[id].total) for id in program.request_ids
    }
    return requests, {id: program.resources[id] for id in program.resource_ids}, program.nnz


def test_replay_reaches_the_same_program_after_each_round(tmp_path):
    expected = record(tmp_path / "rounds")
    replayer = Replayer()
    seen = []
    for edits in read_rounds(tmp_path / "rounds"):
        for edit in edits:
            replayer.apply(edit)
        seen.append(state(replayer.program))
    assert seen == expected


def test_a_verb_is_one_edit(tmp_path):
    record(tmp_path / "rounds")
    rounds = [[edit.verb for edit in edits] for edits in read_rounds(tmp_path / "rounds")]
    assert rounds[1][:3] == ["remove_requests", "forget_columns", "share_columns"]
    assert rounds[1].count("remove_requests") == 1


def test_a_rejected_edit_is_not_recorded(tmp_path):
    with Recorder(tmp_path / "rounds") as recorder:
        program = RecordingProgram(recorder)
        with pytest.raises(EditError):
            program.remove_request("nobody")
        program.add_resource("a")
        recorder.end_round()
    assert [[edit.verb for edit in edits] for edits in read_rounds(tmp_path / "rounds")] == [
        ["add_resources"]
    ]


def test_every_verb_that_edits_is_recorded(monkeypatch):
    """What changes the store is made by ``apply``, which records; a reservation changes nothing."""
    made = []
    apply = ContinualProgram.apply
    monkeypatch.setattr(
        ContinualProgram, "apply", lambda self, edit: (made.append(edit.verb), apply(self, edit))[1]
    )
    program = ContinualProgram()
    program.add_resource("a", upper=9.0)
    program.add_resources(["b", "c"])
    program.update_resources("b", upper=3.0)
    program.remove_resources("c")
    columns, costs = program.share_columns({"a": 1.0}, 2), [1.0, 2.0]
    program.add_request("x", costs, columns, upper=9.0)
    program.add_requests(["y", "z"], [costs] * 2, None, columns, upper=9.0)
    program.update_request("x", scale=2.0)
    program.update_requests(["y"], totals=1.0)
    program.price_moves(["x"], [1], 0.5)
    program.remove_request("x")
    program.remove_requests(["y", "z"])
    program.forget(columns)
    edits = ["add_resources"] * 2 + ["update_resources", "remove_resources", "share_columns"]
    edits += ["add_requests"] * 2 + ["update_requests"] * 3 + ["remove_requests"] * 2
    assert made == [*edits, "forget_columns"]


def test_a_damaged_or_foreign_recording_is_refused_by_name(tmp_path):
    path = tmp_path / "rounds"
    record(path)
    content = path.read_bytes()
    for at in (3, 9, len(content) // 2, len(content) - 1):
        for wrong in (content[:at], content[:at] + bytes([content[at] ^ 255]) + content[at + 1 :]):
            path.write_bytes(wrong)
            with pytest.raises(FileError, match=str(path)):
                for edits in read_rounds(path):
                    list(edits)
