"""A recording replays to the same program, template handles and nested verbs included."""

import numpy as np
import pytest
from scipy.sparse import csc_array

from copter.bench.recording import Recorder, RecordingProgram, Replayer, read_rounds
from copter.errors import EditError, FileError
from copter.program.program import VERBS, ContinualProgram


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
        program.add_request("w", [5.0, 6.0], usage=again)
        program.add_requests(["v"], [7.0], [1], csc_array([[1.0], [0.0]]))
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
    for deltas in read_rounds(tmp_path / "rounds"):
        for delta in deltas:
            replayer.apply(delta)
        seen.append(state(replayer.program))
    assert seen == expected


def test_a_verb_in_terms_of_another_is_one_delta(tmp_path):
    record(tmp_path / "rounds")
    rounds = [[verb for verb, _ in deltas] for deltas in read_rounds(tmp_path / "rounds")]
    assert rounds[1][0] == "remove_request"
    assert rounds[1].count("remove_requests") == 0


def test_a_rejected_edit_is_not_recorded(tmp_path):
    with Recorder(tmp_path / "rounds") as recorder:
        program = RecordingProgram(recorder)
        with pytest.raises(EditError):
            program.remove_request("nobody")
        program.add_resource("a")
        recorder.end_round()
    assert [[verb for verb, _ in deltas] for deltas in read_rounds(tmp_path / "rounds")] == [["add_resource"]]


def test_every_verb_that_edits_is_recorded():
    reading = {"take_starts", "return_starts", "save", "load", "to_arrays", "write", "reserve"}
    made_of_others = {"price_moves"}
    public = {
        name
        for name in dir(ContinualProgram)
        if callable(getattr(ContinualProgram, name)) and not name.startswith("_")
    }
    assert public - reading - made_of_others == set(VERBS)


def test_a_damaged_or_foreign_recording_is_refused_by_name(tmp_path):
    path = tmp_path / "rounds"
    record(path)
    content = path.read_bytes()
    for at in (3, 9, len(content) // 2, len(content) - 1):
        for wrong in (content[:at], content[:at] + bytes([content[at] ^ 255]) + content[at + 1 :]):
            path.write_bytes(wrong)
            with pytest.raises(FileError, match=str(path)):
                for deltas in read_rounds(path):
                    list(deltas)
