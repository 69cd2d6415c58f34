"""Paths that are no file, or no folder, are named as they were given."""

from __future__ import annotations

import pytest

from copter import ContinualProgram, CopterError, FileError, Journal


def test_a_journal_wants_a_folder(tmp_path):
    file = tmp_path / "cluster"
    file.write_text("no journal")
    with pytest.raises(FileError, match=r"cluster: is a file; a journal is a folder") as caught:
        Journal(file)
    assert caught.value.path == str(file) and file.read_text() == "no journal"
    with pytest.raises(FileError, match="cluster: is a file; a journal is a folder"):
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
