"""Every verb in any order on a program in parts: against a plain-Python model, its answers against HiGHS."""

from __future__ import annotations

from hypothesis import settings

from copter.program.spread import SpreadProgram
from copter.store.workers import InProcess
from support.edit_machine import PROFILE, Edits


class SpreadEdits(Edits):
    """The same machine on a program in three parts."""

    def empty_program(self):
        return SpreadProgram(InProcess(3))


TestSpreadEdits = SpreadEdits.TestCase
TestSpreadEdits.settings = settings(PROFILE, max_examples=12)
