"""Every verb in any order, on a program that is copied, saved and loaded, or recovered, in between."""

from __future__ import annotations

import copy
import pickle
import shutil
import tempfile
from pathlib import Path

import numpy as np
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import precondition, rule

from copter import ContinualProgram, Journal, ProximalPoint
from support.edit_machine import PROFILE, Edits
from support.strategies import snapshot


class EditsOfCopies(Edits):
    """A copy takes the place of the program and its solver; handles, model and expectations stay."""

    def __init__(self) -> None:
        super().__init__()
        self.folder = Path(tempfile.mkdtemp())

    def teardown(self) -> None:
        shutil.rmtree(self.folder)

    def through_a_file(self, pair):
        program, solver = pair
        again = ProximalPoint(tolerance=self.tolerance)
        program.save(self.folder / "file", solver)
        return ContinualProgram.load(self.folder / "file", again), again

    def through_pickle(self, pair):
        return pickle.loads(pickle.dumps(pair))

    def swap(self, way) -> None:
        before = snapshot(self.program)
        twin, solver = way((self.program, self.solver))
        assert snapshot(twin) == before
        for one in (self.program, twin):
            one.add_resource("only in one of them")
            assert len(one.resource_ids) == len(self.plain.resources) + 1
            one.remove_resources("only in one of them")
        self.program, self.solver = twin, solver

    @rule(way=st.sampled_from(["deepcopy", "pickle", "file", "copy"]))
    def copy_takes_its_place(self, way):
        def both(pair):
            return copy.copy(pair[0]), ProximalPoint(tolerance=self.tolerance)

        ways = {
            "deepcopy": copy.deepcopy,
            "pickle": self.through_pickle,
            "file": self.through_a_file,
            "copy": both,
        }
        self.swap(ways[way])

    @precondition(lambda self: self.plain.requests)
    @rule()
    def copies_answer_alike(self):
        pairs = [copy.deepcopy((self.program, self.solver)), self.through_a_file((self.program, self.solver))]
        one, other = (solver.solve(program) for program, solver in pairs)
        assert (one.status, one.iterations, one.warm_reason) == (
            other.status,
            other.iterations,
            other.warm_reason,
        )
        assert all(map(np.array_equal, one.nonzeros, other.nonzeros)) and np.array_equal(one.y, other.y)


class EditsOfAJournal(Edits):
    """The program is a journal, closed and opened again now and then."""

    def __init__(self) -> None:
        super().__init__()
        self.folder = Path(tempfile.mkdtemp())
        self.program = Journal(self.folder, self.solver)

    def teardown(self) -> None:
        self.program.close()
        shutil.rmtree(self.folder)

    @rule(compact=st.booleans())
    def recover(self, compact):
        journal = self.program
        journal.compact() if compact else journal.commit()
        before, state = snapshot(journal), self.solver.save_state(journal)
        journal.close()
        self.solver = ProximalPoint(tolerance=self.tolerance)
        self.program = Journal(self.folder, self.solver)
        assert snapshot(self.program) == before
        again = self.solver.save_state(self.program)
        assert repr(again) == repr(state)


TestEditsOfCopies = EditsOfCopies.TestCase
TestEditsOfCopies.settings = settings(PROFILE, max_examples=12)
TestEditsOfAJournal = EditsOfAJournal.TestCase
TestEditsOfAJournal.settings = settings(PROFILE, max_examples=12)
