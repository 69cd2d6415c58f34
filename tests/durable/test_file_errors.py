"""Paths that are no file, or no folder, are named as they were given."""

from __future__ import annotations

import sqlite3

import pytest

from copter import ContinualProgram, ConvexTerm, Journal
from copter.durable.program_file import ProgramFile
from copter.errors import CopterError, FileError


def test_a_journal_wants_a_folder(tmp_path):
    file = tmp_path / "cluster"
    file.write_text("no journal")
    with pytest.raises(FileError, match=r"cluster: is a file; must be a folder") as caught:
        Journal(file)
    assert caught.value.path == str(file) and file.read_text() == "no journal"
    with pytest.raises(FileError, match="cluster: is a file; must be a folder"):
        Journal(file / "inner" / "journal")


def test_a_program_is_saved_to_a_folder_that_is_there(tmp_path):
    program = ContinualProgram()
    for path, named in ((tmp_path / "no" / "program", tmp_path / "no"), (tmp_path, tmp_path)):
        with pytest.raises(OSError) as caught:
            program.save(path)
        assert caught.value.filename == str(named) and ".part" not in str(caught.value)
    assert list(tmp_path.iterdir()) == []


def test_what_is_loaded_is_a_file(tmp_path):
    for path in (tmp_path / "nothing", tmp_path):
        with pytest.raises((OSError, CopterError), match=path.name):
            ContinualProgram.load(path)


def test_two_classes_of_terms_of_one_name_are_refused(tmp_path):
    """One of them would be read as the other."""
    own, other = (type("Own", (ConvexTerm,), {}) for _ in range(2))
    with pytest.raises(CopterError, match="Own is the name of several classes"):
        Journal(tmp_path / "journal", terms=[own, other])
    Journal(tmp_path / "journal", terms=[own, own]).close()


def test_a_program_that_the_disk_has_no_room_for_leaves_no_file(tmp_path, monkeypatch):
    def full(self, table, key, content):
        raise sqlite3.OperationalError("database or disk is full")

    monkeypatch.setattr(ProgramFile, "_put", full)
    with pytest.raises(OSError, match="disk is full"):
        ContinualProgram().save(tmp_path / "program")
    assert list(tmp_path.iterdir()) == []
