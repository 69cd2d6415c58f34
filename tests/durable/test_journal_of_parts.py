"""A journal whose columns are in parts: opened, it is what it was; files of another kind are refused."""

from __future__ import annotations

import re
import sqlite3

import numpy as np
import pytest

from copter import ContinualProgram, Journal, ProximalPoint
from copter.errors import CopterError, FileError
from copter.ray.distributed import DistributedProgram
from support.in_parts import InProcess
from support.journal_rounds import essence, make_round


def opened(path, parts=3):
    return Journal(path, ProximalPoint(), program=DistributedProgram(InProcess(parts)))


def content(program):
    requests, rows = (dict(vars(each[:])) for each in (program.requests, program.resources))
    usage = requests.pop("usage").toarray()
    return [*sorted(requests.items()), ("usage", usage), *sorted(rows.items())]


@pytest.mark.parametrize("often", [False, True])
def test_it_goes_on_where_it_was(tmp_path, often):
    program, solver = ContinualProgram(), ProximalPoint()
    for number in range(5):
        with opened(tmp_path) as journal:
            assert journal.round == number + (number if often else 0)
            np.testing.assert_equal(content(journal), content(program))
            for each in (journal, program):
                make_round(each, number)
            assert essence(journal.solve()) == essence(solver.solve(program))
            assert not journal.store.executor.local  # its columns are in the parts
            if often:
                journal.compact()


def test_overrides_of_several_columns_come_back(tmp_path):
    with opened(tmp_path) as journal:
        template = journal.share_columns({}, 3)
        journal.add_request("own", [1.0, 2.0, 3.0], template, override={2: 7.0, 0: 5.0}, upper=1e3)
        journal.compact()
    with opened(tmp_path) as journal:
        assert journal.requests["own"].override == {0: 5.0, 2: 7.0}
        assert journal.requests["own"].costs.tolist() == [5.0, 2.0, 7.0]


def test_what_it_cannot_be_opened_with_is_said(tmp_path):
    with opened(tmp_path / "parts") as journal:
        make_round(journal, 0)
        journal.compact()
    with pytest.raises(
        FileError, match="has a program in 3 parts, and cannot be read into a program in 4 parts"
    ):
        opened(tmp_path / "parts", 4)
    with pytest.raises(FileError, match="cannot be read into a program of one process"):
        Journal(tmp_path / "parts", ProximalPoint())
    Journal(tmp_path / "whole").close()
    with pytest.raises(FileError, match="has a program of one process"):
        opened(tmp_path / "whole")
    full = DistributedProgram(InProcess(3))
    make_round(full, 0)
    with pytest.raises(CopterError, match="must be empty"):
        Journal(tmp_path / "new", program=full)


def test_damage_in_any_part_is_refused(tmp_path):
    with opened(tmp_path) as journal:
        make_round(journal, 0)
        journal.compact()
    file = sqlite3.connect(tmp_path / "journal.sqlite", isolation_level=None)
    names = file.execute("SELECT name, crc FROM items WHERE name LIKE 'part %'").fetchall()
    assert len(names) > 3 * 40
    for name, crc in names[::7]:
        file.execute("UPDATE items SET crc = crc + 1 WHERE name = ?", (name,))
        with pytest.raises(FileError, match=rf"journal\.sqlite: item '{re.escape(name)}' is damaged"):
            opened(tmp_path)
        file.execute("UPDATE items SET crc = ? WHERE name = ?", (crc, name))
    file.close()
    opened(tmp_path).close()
