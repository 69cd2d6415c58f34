"""Every verb in any order: the program against a plain-Python model of it, its answers against HiGHS."""

from __future__ import annotations

from hypothesis import settings

from support.edit_machine import PROFILE, Edits


class EditsByDescent(Edits):
    """The same with coordinate descent, at the tolerance that it is meant for."""

    settings_of_solver = {"inner": "cd"}
    tolerance = 1e-4


TestEdits = Edits.TestCase
TestEdits.settings = PROFILE
TestEditsByDescent = EditsByDescent.TestCase
TestEditsByDescent.settings = settings(PROFILE, max_examples=15)
