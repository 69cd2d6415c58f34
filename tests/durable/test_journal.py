"""Journals: the last completed round is found again, bit by bit; what is damaged is refused by name."""

from __future__ import annotations

import copy
import gc
import os
import pickle
import random
import shutil
import signal
import sqlite3
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

import copter.durable.journal
import copter.durable.program_file
import copter.durable.snapshot
import copter.program.index
from copter import ContinualProgram, Journal, LogTerm, ProximalPoint, make_solver
from copter.durable.edits import pack_edit
from copter.durable.program_file import ProgramFile
from copter.durable.values import encode
from copter.errors import ConcurrentUseError, CopterError, EditError, FileError
from copter.store.edit import Edit, EditedColumns, Entries, Runs
from support.amounts import longer
from support.journal_rounds import essence, make_round
from support.rich_program import edit, rich, same_answers
from support.strategies import snapshot


def open_journal(path, **options) -> Journal:
    return Journal(path, ProximalPoint(), **options)


def run(path, rounds: range) -> list:
    """Rounds of a journal; the answers."""
    with open_journal(path) as journal:
        answers = []
        for number in rounds:
            make_round(journal, number)
            answers.append(essence(journal.solve()))
        return answers


def undisturbed(rounds: int) -> tuple[ContinualProgram, list]:
    """The same rounds on a plain program."""
    program, solver, answers = ContinualProgram(), ProximalPoint(), []
    for number in range(rounds):
        make_round(program, number)
        answers.append(essence(solver.solve(program)))
    return program, answers


@pytest.mark.parametrize("compact_from", [0, 10**9])
def test_a_journal_opened_again_every_round_answers_as_one_process_does(tmp_path, monkeypatch, compact_from):
    monkeypatch.setattr(copter.durable.journal, "COMPACT_FROM", compact_from)
    program, expected = undisturbed(8)
    assert [answer for number in range(8) for answer in run(tmp_path, range(number, number + 1))] == expected
    with open_journal(tmp_path) as journal:
        assert snapshot(journal) == snapshot(program)
        assert journal.round == 8
        assert {path.name for path in tmp_path.iterdir()} >= {"journal.sqlite", "lock"}


@pytest.mark.parametrize("size", [1, 100])
def test_values_longer_than_a_row_can_be_lie_in_several(tmp_path, monkeypatch, size):
    monkeypatch.setattr(copter.durable.program_file, "PIECE", size)
    _, expected = undisturbed(3)
    assert run(tmp_path, range(2)) == expected[:2]
    with open_journal(tmp_path) as journal:
        journal.compact()
        before = snapshot(journal)
    with open_journal(tmp_path) as journal:
        assert snapshot(journal) == before
        (pieces,) = journal._file.database.execute("SELECT max(piece) FROM items").fetchone()
        assert pieces >= 5
        make_round(journal, 2)
        assert essence(journal.solve()) == expected[2]


def test_starts_that_a_solve_gave_back_are_there_for_the_next(tmp_path):
    with Journal(tmp_path) as journal:
        journal.add_resource("a", 1.0)
        journal.add_request("q", [1.0], {"a": 1.0}, start={0: 0.5}, upper=1e3)
        journal.return_starts(journal.take_starts())
        journal.commit()
    with Journal(tmp_path) as journal:
        ((columns, values),) = journal.take_starts().values()
        assert (columns.tolist(), values.tolist()) == ([0], [0.5])


def test_edits_without_a_completed_round_and_rejected_ones_are_not_in_it(tmp_path):
    with open_journal(tmp_path) as journal:
        make_round(journal, 0)
        for wrong in (
            lambda: journal.remove_request("nobody"),
            lambda: journal.add_request("x", [np.nan], {}),
        ):
            with pytest.raises(EditError):
                wrong()
        journal.commit()
        expected = snapshot(journal)
        journal.add_resource("later")
    with open_journal(tmp_path) as journal:
        assert snapshot(journal) == expected
        assert journal.round == 1


def test_what_cannot_be_written_is_named_and_changes_nothing(tmp_path):
    with Journal(tmp_path) as journal:
        journal.add_resource("a")
        before, strange = snapshot(journal), object()
        with pytest.raises(EditError) as caught:
            journal.add_request(strange, [1.0], {"a": 1.0})
        assert caught.value.subject is strange and caught.value.field == "id"
        with pytest.raises(EditError) as caught:
            journal.add_requests(["x", strange], [1.0, 2.0], [1, 1], journal.share_columns({}, 1))
        assert caught.value.subject is strange
        with pytest.raises(EditError) as caught:
            journal.add_request("x", [1.0], {"a": strange})
        assert (caught.value.subject, caught.value.field) == ("x", "usage['a']")
        with pytest.raises(EditError) as caught:
            journal.add_request("x", [1.0], {"a": 1.0}, columns=[strange])
        assert (caught.value.subject, caught.value.field) == (strange, "columns")
        journal.forget(journal.shared_columns[0])
        assert journal.request_ids == [] and snapshot(journal)[4] == before[4]


def test_a_journal_begins_with_a_program_and_leaves_it_alone(tmp_path):
    program, solver = rich(), ProximalPoint()
    solver.solve(program)
    before = snapshot(program)
    with Journal(tmp_path, solver, program=program) as journal:
        assert snapshot(journal) == before
        edit(journal)
        assert journal.solve().warm_reason == "last round's x and prices"
        assert snapshot(program) == before
    with pytest.raises(CopterError, match="there is a journal already"):
        Journal(tmp_path, program=program)


def test_a_solver_may_come_later_and_must_be_of_the_same_kind(tmp_path):
    with Journal(tmp_path) as journal:
        journal.add_resource("a", 1.0)
        journal.add_request("x", [-1.0], {"a": 1.0}, upper=1e3)
        journal.commit()
        with pytest.raises(CopterError, match="the journal has no solver"):
            journal.solve()
    with pytest.raises(CopterError, match="highs-hot"):
        Journal(tmp_path, make_solver("highs-hot"))
    with open_journal(tmp_path) as journal:
        assert journal.solve().warm_reason == "no earlier round"
    with pytest.raises(FileError, match="not HighsHot"):
        Journal(tmp_path, make_solver("highs-hot"))
    with pytest.raises(CopterError, match="highs-hot"):
        Journal(tmp_path / "new", make_solver("highs-hot"))


@pytest.mark.parametrize("way", [copy.copy, copy.deepcopy, lambda pair: pickle.loads(pickle.dumps(pair))])
def test_a_copy_of_a_journal_is_a_plain_program(tmp_path, way):
    with open_journal(tmp_path) as journal:
        make_round(journal, 0)
        journal.solve()
        twin = way(journal)
        assert type(twin) is ContinualProgram
        assert snapshot(twin) == snapshot(journal)
        pair = copy.deepcopy((journal, journal.solver))
        make_round(pair[0], 1)
        make_round(journal, 1)
        same_answers((journal, journal.solver), pair)


def test_only_one_has_it_open(tmp_path):
    with Journal(tmp_path) as journal:
        with pytest.raises(CopterError, match="open already"):
            Journal(tmp_path)
        journal.add_resource("a")
    with pytest.raises(CopterError, match="closed"):
        journal.add_resource("b")
    with pytest.raises(CopterError, match="closed"):
        journal.commit()
    Journal(tmp_path).close()


def test_a_journal_that_was_dropped_is_free_at_once(tmp_path):
    gc.disable()  # whoever waits for the collection of cycles waits for minutes
    try:
        journal = open_journal(tmp_path)
        journal.add_resource("a")
        del journal
        open_journal(tmp_path).close()
    finally:
        gc.enable()


def test_a_journal_that_was_dropped_is_closed(tmp_path):
    def drop():
        journal = open_journal(tmp_path)
        journal.add_request("x", [-1.0], {}, upper=1.0)
        journal.solve()  # the solver remembers the journal: a cycle

    drop()
    gc.collect()
    journal = open_journal(tmp_path)
    assert journal.round == 1
    journal.close()
    others = [os.open(os.devnull, os.O_RDONLY) for _ in range(3)]  # may have the numbers of its handles
    journal.close()
    del journal
    gc.collect()
    for other in others:
        os.close(other)


def test_a_forked_child_neither_writes_nor_holds_the_lock(tmp_path):
    journal = Journal(tmp_path)
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            journal.commit()
        except CopterError as refused:
            os.write(writer, str(refused).encode())
        signal.pause()
    assert b"belongs to the parent process" in os.read(reader, 1000)
    journal.close()
    with Journal(tmp_path) as again:  # though the child lives
        again.add_resource("a")
        again.commit()
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)


def fill_the_disk(journal: Journal, full: bool = True) -> None:
    """Let a journal's file grow no more, as on a full disk, or let it grow again."""
    (pages,) = journal._file.database.execute("PRAGMA page_count").fetchone()
    journal._file.database.execute(f"PRAGMA max_page_count = {pages if full else 10**9}")


def test_a_round_that_could_not_be_written_can_be_tried_again(tmp_path):
    with open_journal(tmp_path) as journal:
        make_round(journal, 0)
        journal.add_request("much", np.arange(20_000.0), {}, upper=1e3)
        fill_the_disk(journal)
        with pytest.raises(OSError, match=r"disk is full.*journal\.sqlite"):
            journal.commit()
        assert journal.round == 0
        fill_the_disk(journal, full=False)
        assert journal.commit() == 1
        expected = snapshot(journal)
    with open_journal(tmp_path) as journal:
        assert snapshot(journal) == expected and journal.round == 1


def interrupted(*arguments, **options):
    raise KeyboardInterrupt


@pytest.mark.parametrize("late", [False, True])
def test_an_interrupted_round_can_be_completed(tmp_path, monkeypatch, late):
    """The interrupt comes before the round is on disk, or after that and before the journal knows it."""
    add = ProgramFile.add_round

    def add_and_interrupt(self, *arguments):
        add(self, *arguments)
        raise KeyboardInterrupt

    with open_journal(tmp_path) as journal:
        make_round(journal, 0)
        with monkeypatch.context() as failing:
            if late:
                failing.setattr(ProgramFile, "add_round", add_and_interrupt)
            else:
                failing.setattr(ProgramFile, "_put_last", interrupted)
            with pytest.raises(KeyboardInterrupt):
                journal.commit()
        journal.add_request("after", [1.0], {}, upper=1e3)
        assert journal.commit() == 1
        expected = snapshot(journal)
    with open_journal(tmp_path) as journal:
        assert snapshot(journal) == expected and journal.round == 1


@pytest.mark.parametrize("late", [False, True])
def test_rounds_after_an_interrupted_snapshot_are_kept(tmp_path, monkeypatch, late):
    begin = ProgramFile.begin_after

    def begin_and_interrupt(self, *arguments):
        begin(self, *arguments)
        raise KeyboardInterrupt

    with open_journal(tmp_path) as journal:
        make_round(journal, 0)
        journal.commit()
        with monkeypatch.context() as failing:
            if late:
                failing.setattr(ProgramFile, "begin_after", begin_and_interrupt)
            else:
                failing.setattr(copter.durable.journal, "pack", interrupted)
            with pytest.raises(KeyboardInterrupt):
                journal.compact()
        make_round(journal, 1)
        journal.commit()
        expected, number = snapshot(journal), journal.round
    with open_journal(tmp_path) as journal:
        assert (snapshot(journal), journal.round) == (expected, number)


def test_a_round_is_complete_though_no_snapshot_could_be_taken(tmp_path, monkeypatch, caplog):
    monkeypatch.setattr(copter.durable.journal, "COMPACT_FROM", 0)

    def fail(*arguments):
        raise OSError("disk")

    def base(journal):
        return journal._file.get("snapshot")["round"]

    with open_journal(tmp_path) as journal:
        with monkeypatch.context() as failing:
            failing.setattr(copter.durable.program_file.ProgramFile, "begin_after", fail)
            number = 0
            while "no snapshot was taken" not in caplog.text:  # edits are fewer than the snapshot's bytes yet
                make_round(journal, number)
                number += 1
                assert journal.commit() == number
        assert "disk" in caplog.text and base(journal) == 0
        make_round(journal, number)
        journal.commit()  # tries again
        assert base(journal) == number + 1
        expected = snapshot(journal)
    with open_journal(tmp_path) as journal:
        assert (snapshot(journal), journal.round) == (expected, number + 1)


def refused_elsewhere(*uses) -> None:
    """Each use, in another thread, raises ConcurrentUseError."""
    with ThreadPoolExecutor(1) as pool:
        for use in uses:
            with pytest.raises(ConcurrentUseError, match="another thread"):
                pool.submit(use).result(30)


def test_nobody_edits_or_copies_while_a_round_is_completed(tmp_path, monkeypatch):
    with open_journal(tmp_path / "j") as journal:
        make_round(journal, 0)
        write, tried = ProgramFile.add_round, []

        def add_round(self, *arguments):
            tried.append(True)
            refused_elsewhere(
                lambda: journal.add_resource("x"),
                journal.commit,
                journal.compact,
                lambda: journal.save(tmp_path / "s"),
                lambda: copy.copy(journal),
                lambda: pickle.dumps(journal),
            )
            write(self, *arguments)

        monkeypatch.setattr(ProgramFile, "add_round", add_round)
        journal.commit()
        journal.compact()
        assert len(tried) == 2
        expected = snapshot(journal)
        journal.save(tmp_path / "s")
    with open_journal(tmp_path / "j") as journal:
        assert snapshot(journal) == expected == snapshot(ContinualProgram.load(tmp_path / "s"))


def test_a_callback_cannot_complete_the_round(tmp_path):
    with open_journal(tmp_path) as journal:
        make_round(journal, 0)
        refused = []

        def callback(iterations, certificate):
            for use in (journal.commit, journal.compact):
                with pytest.raises(ConcurrentUseError, match="being solved"):
                    use()
                refused.append(use)

        journal.solver.callback = callback
        journal.solve()
        assert refused and journal.round == 1


def test_an_edit_between_the_steps_of_another_is_refused(tmp_path, monkeypatch):
    with Journal(tmp_path) as journal:
        check = copter.program.index.Index.add

        def add(self, *arguments):
            refused_elsewhere(lambda: journal.add_resource("elsewhere"))
            return check(self, *arguments)

        with monkeypatch.context() as between:
            between.setattr(copter.program.index.Index, "add", add)
            journal.add_resource("here")
        write = journal._write

        def late(edit):  # it is made, and not written yet
            refused_elsewhere(lambda: journal.add_resource("late"))
            write(edit)

        monkeypatch.setattr(journal, "_write", late)
        journal.add_resource("there")
        journal.commit()
    with Journal(tmp_path) as journal:
        assert journal.resource_ids == ["here", "there"]


# ---- crashes -----------------------------------------------------------------------------------------


@pytest.fixture
def written(tmp_path):
    """The folder of a journal of three rounds, and the program after each round."""
    states = []
    with open_journal(tmp_path / "j") as journal:
        for number in range(3):
            states.append(snapshot(journal))
            journal.add_request(number, [-1.0], {}, upper=1e3)
            journal.commit()
        states.append(snapshot(journal))
    return tmp_path / "j", states


@pytest.mark.parametrize("step", [4001, longer(509)])
def test_a_write_that_was_cut_off_is_no_round(tmp_path, step):
    """Whatever part of the write-ahead log reached the disk: it is a sequence of completed rounds."""
    (tmp_path / "j").mkdir()
    with open_journal(tmp_path / "j") as journal:
        journal.compact()
        journal._file.database.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        states = [snapshot(journal)]
        for number in range(3):
            journal.add_request(number, [-1.0], {}, total=1)
            journal.commit()
            states.append(snapshot(journal))
        content, log = ((tmp_path / "j" / f"journal.sqlite{end}").read_bytes() for end in ("", "-wal"))
    found = []
    for length in [*range(0, len(log), step), len(log)]:
        folder = tmp_path / str(length)
        folder.mkdir()
        (folder / "journal.sqlite").write_bytes(content)
        (folder / "journal.sqlite-wal").write_bytes(log[:length])
        with open_journal(folder) as journal:
            assert snapshot(journal) == states[journal.round - 1]  # compact() completed one
            found.append(journal.round)
            journal.add_request("next", [1.0], {}, total=1)
            journal.commit()
        with open_journal(folder) as journal:
            assert journal.round == found[-1] + 1 and "next" in journal
    assert found == sorted(found) and set(found) == {1, 2, 3, 4}


@pytest.mark.parametrize("step", [1009, longer(251)])
def test_a_wrong_byte_is_refused_by_name_or_makes_no_difference(written, tmp_path, step):
    folder, states = written
    content, refused = (folder / "journal.sqlite").read_bytes(), 0
    for at in range(0, len(content), step):
        wrong = bytearray(content)
        wrong[at] ^= 0xA5
        (folder / "journal.sqlite").write_bytes(wrong)
        try:
            with open_journal(folder) as journal:
                assert (snapshot(journal), journal.round) == (states[3], 3)
        except FileError as why:
            assert why.path == str(folder / "journal.sqlite")
            refused += 1
        for left in folder.glob("journal.sqlite-*"):
            left.unlink()
    assert refused > 5000 / step
    (folder / "journal.sqlite").write_bytes(content)
    open_journal(folder).close()


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ("DELETE FROM rounds WHERE round = 2", "rounds are missing"),
        ("DELETE FROM rounds WHERE round = 3", "rounds are missing"),
        ("UPDATE rounds SET round = 9 WHERE round = 3", "rounds are missing"),
        ("UPDATE rounds SET edits = 2 WHERE round = 2", "must contain as many edits as its rounds"),
        ("UPDATE rounds SET edits = 'x' WHERE round = 2", "must contain as many edits as its rounds"),
        ("DELETE FROM edits WHERE round = 2", "must contain as many edits as its rounds"),
        ("UPDATE edits SET round = 5 WHERE round = 2", "edit 0 of round 2 is missing"),
        ("UPDATE edits SET number = 1 WHERE round = 2", "edit 0 of round 2 is missing"),
        ("UPDATE edits SET crc = crc + 1 WHERE round = 2", "edit 0 of round 2 is damaged"),
        ("UPDATE edits SET content = 'text' WHERE round = 2", "edit 0 of round 2 is damaged"),
        ("UPDATE edits SET (content, crc) = (SELECT content, crc FROM edits WHERE round = 1) "
         "WHERE round = 2", "edit 0 of round 2 is damaged"),
        ("DELETE FROM items WHERE name = 'last'", "item 'last' is missing"),
        ("DELETE FROM items WHERE name = 'store.costs.cost'", "item 'store.costs.cost' is missing"),
        ("UPDATE items SET piece = 1 WHERE name = 'last'", "item 'last' is damaged"),
        ("DROP TABLE edits", "no such table"),
        ("PRAGMA user_version = 9", "has version 9 of the format"),
        ("PRAGMA application_id = 9", "not a file of copter"),
    ],
)  # fmt: skip
def test_what_is_lost_or_exchanged_is_named(written, change, why):
    folder, _ = written
    file = sqlite3.connect(folder / "journal.sqlite", isolation_level=None)
    file.execute(change)
    file.close()
    with pytest.raises(FileError, match=why):
        open_journal(folder)


def test_a_log_whose_file_is_gone_is_not_thrown_away(tmp_path):
    with open_journal(tmp_path) as journal:
        journal.add_request("x", [1.0], {}, upper=1e3)
        journal.commit()
        shutil.copytree(tmp_path, tmp_path / "copy")
    (tmp_path / "copy" / "journal.sqlite").unlink()
    with pytest.raises(FileError, match="is missing, but its write-ahead log exists"):
        open_journal(tmp_path / "copy")


def refuse_round(path, edit, begin):
    """Write an edit into the journal's second round, which it is then not opened with."""
    with Journal(path) as journal:
        begin(journal)
        journal.commit()
        journal._file.add_round(2, [edit], {})
    with pytest.raises(FileError, match=r"journal\.sqlite: round 2 cannot be replayed"):
        Journal(path)


def one_column(row=0):
    return EditedColumns(np.array([1]), np.array([0, 1]), np.array([row]), np.ones(1))


@pytest.mark.parametrize(
    "edit",
    [
        pack_edit(Edit("share_columns", sizes=np.array([2**40]), columns=one_column())),
        pack_edit(Edit("share_columns", sizes=np.array([1]), columns=one_column(row=7))),
        pack_edit(Edit("no_such_verb")),
        pack_edit(Edit("remove_requests", ids=["nobody"], slots=np.array([0]))),
        pack_edit(Edit("update_requests", slots=np.array([0]), scales=2.0)),
        pack_edit(Edit("add_requests", ids=["x"], sizes=np.array([1]), usage=0)),
        pack_edit(Edit("forget_columns", slots=np.array([0]))),
        pack_edit(Edit("update_resources", slots=np.array([1]), lower=np.zeros(1), upper=np.ones(1))),
        encode({"verb": "add_resources", "ids": [["no", "id"]]}),
        encode({"verb": "add_resources", "nothing": 1}),
        encode(["add_resources"]),
        b"",
    ],
)
def test_a_round_that_was_never_made_is_refused_by_name(tmp_path, edit):
    refuse_round(tmp_path, edit, lambda journal: journal.add_resource("a"))


def runs(*values):
    return Runs(np.array([len(values)]), np.array(values))


@pytest.mark.parametrize(
    "fields",
    [
        {"scales": np.array([np.inf])},
        {"scales": np.array([0.0])},
        {"costs": runs(np.nan, 1.0)},
        {"costs": runs(1.0)},
        {"upper": runs(-1.0, 1.0)},
        {"upper": -1.0},
        {"totals": np.array([-1.0]), "exact": False},
        {"totals": np.array([np.inf]), "exact": True},
        {"totals": np.array([np.inf])},
        {"overrides": Entries(None, np.array([2]), np.array([0, 2]), np.ones(2))},
        {"overrides": Entries(None, np.array([2]), np.array([0, 0]), np.ones(2))},
        {"overrides": Entries(None, np.array([2]), np.array([0]), np.ones(1))},
        {"starts": Entries(np.array([False]), np.array([1]), np.array([0]), np.ones(1))},
        {"starts": Entries(None, np.array([1]), np.array([-1]), np.ones(1))},
        {"names": ("weight",), "parameters": np.ones((1, 1))},
        {"terms": np.array([LogTerm(1.0)], object)},
        {"integral": 1},
        {"sizes": np.array([2])},
    ],
)
def test_numbers_that_no_verb_takes_are_refused(tmp_path, fields):
    edit = pack_edit(Edit("update_requests", slots=np.array([0]), **fields))
    refuse_round(tmp_path, edit, lambda journal: journal.add_request("x", [1.0, 2.0], {}, total=1.0))


@pytest.mark.parametrize(
    "columns",
    [
        EditedColumns(np.array([1]), np.array([0, 1]), np.array([0, 0]), np.ones(1)),
        EditedColumns(np.array([1]), np.array([0, 2]), np.array([0]), np.ones(1)),
        EditedColumns(np.array([1]), np.array([-1, 1]), np.array([0]), np.ones(1)),
        EditedColumns(np.array([1]), np.array([1, 0]), np.array([0]), np.ones(1)),
        EditedColumns(np.array([1]), np.array([0, 1]), np.array([0]), np.array([np.inf])),
        EditedColumns(np.array([1]), np.array([0, 1]), np.array([0.5]), np.ones(1)),
        EditedColumns(np.array([2]), np.array([0, 1]), np.array([0]), np.ones(1)),
    ],
)
def test_columns_that_do_not_fit_are_refused(tmp_path, columns):
    edit = pack_edit(Edit("share_columns", sizes=np.array([1]), columns=columns))
    refuse_round(tmp_path, edit, lambda journal: journal.add_resource("a", 1.0))


@pytest.mark.parametrize("statement", range(1, 60, 7))
def test_a_crash_while_a_snapshot_is_taken_loses_nothing(tmp_path, monkeypatch, statement):
    program, expected = undisturbed(4)
    answers = run(tmp_path / "j", range(3))
    put, calls = ProgramFile._put, iter(range(1, 999))

    def crash(self, *arguments):
        if next(calls) == statement:  # the files as they are now are what a crash leaves
            shutil.copytree(tmp_path / "j", tmp_path / "crashed")
        return put(self, *arguments)

    with open_journal(tmp_path / "j") as journal, monkeypatch.context() as failing:
        journal.commit()
        failing.setattr(ProgramFile, "_put", crash)
        journal._compact()
        assert next(calls) > statement
    with open_journal(tmp_path / "crashed") as journal:
        assert journal.round == 4
        make_round(journal, 3)
        assert [*answers, essence(journal.solve())] == expected
        assert snapshot(journal) == snapshot(program)


def write_until_killed(path: Path, said: int) -> None:
    """Rounds without end, in a process of its own; says each number when the round is complete."""
    with open_journal(path) as journal:
        os.write(said, b"open\n")
        while True:
            make_round(journal, journal.round)
            journal.solve()
            os.write(said, b"%d\n" % journal.round)


def kill_one(path: Path, rounds: int, seconds: float) -> list[str]:
    """Kill a writer so many rounds and then seconds after it opened the journal; return what it said."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            write_until_killed(path, writer)
        finally:
            os._exit(1)
    os.close(writer)
    with open(reader) as lines:
        first = [lines.readline() for _ in range(1 + rounds)]
        if seconds:
            time.sleep(seconds)
        os.kill(child, signal.SIGKILL)
        _, status = os.waitpid(child, 0)
        assert os.WIFSIGNALED(status), "the writer ended by itself"
        return [*first, *lines]


def kill_and_recover(path: Path, kills: int, rng: random.Random, pause: float) -> tuple[int, list[str]]:
    """Kill a process that writes a journal again and again; return the rounds at last, and what was wrong.

    A writer is killed after up to three rounds, and at any instant of the `pause` seconds that follow.
    """
    truth, wrong, done = (ContinualProgram(), ProximalPoint()), [], 0
    for kill in range(kills):
        lines = kill_one(path, rng.randrange(int(kill == 0), 4), rng.random() * pause)
        said = int(lines[-1]) if len(lines) > 1 else done
        with open_journal(path) as journal:
            if not said <= journal.round <= said + 1:
                wrong.append(f"kill {kill}: said {said}, found {journal.round}")
            for number in range(done, journal.round):
                make_round(truth[0], number)
                truth[1].solve(truth[0])
            done = journal.round
            if snapshot(journal) != snapshot(truth[0]):
                wrong.append(f"kill {kill}: another program after round {done}")
            answers = []
            for program, solver in (copy.deepcopy((journal, journal.solver)), copy.deepcopy(truth)):
                make_round(program, done)
                answers.append(essence(solver.solve(program)))
            if answers[0] != answers[1]:
                wrong.append(f"kill {kill}: another answer after round {done}")
    return done, wrong


@pytest.mark.parametrize(("kills", "pause"), [(3, 0.0), pytest.param(20, 0.4, marks=pytest.mark.long)])
@pytest.mark.parametrize("compact_from", [0, 10**9])
def test_a_killed_process_loses_no_completed_round(tmp_path, monkeypatch, compact_from, kills, pause):
    monkeypatch.setattr(copter.durable.journal, "COMPACT_FROM", compact_from)
    rounds, wrong = kill_and_recover(tmp_path, kills, random.Random(5), pause)
    assert wrong == []
    assert rounds > 0
