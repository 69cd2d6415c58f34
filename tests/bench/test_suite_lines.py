"""The lines of the suite: each can be sent to a process, and names solvers that there are."""

import pickle

import pytest

from copter.bench.case import PROFILES, Inputs, all_cases
from copter.bench.checks import CHECKERS
from copter.bench.result_files import FAMILIES
from copter.bench.solvers import BASELINES
from copter.bench.suite import DEFAULTS
from copter.solvers.api import SOLVERS

METHODS = {"cvxpy", "water-filling", "heuristic", "lp-top", "shortest"}
LINES = [line for profile in PROFILES for line in all_cases(profile, Inputs())]


@pytest.mark.parametrize("line", LINES, ids=[line.name for line in LINES])
def test_a_line_is_one_that_can_be_run(line):
    assert line.solvers[0].startswith("copter") and len(set(line.solvers)) == len(line.solvers)
    others = {name for name in line.solvers if not name.startswith("pop-")}
    assert others <= {*SOLVERS, *BASELINES, *METHODS}
    assert line.checker in CHECKERS and line.family in FAMILIES and line.left_out < line.rounds
    assert line.columns > 0 or line.family == "lp"
    pickle.dumps(line.make)


def test_every_family_is_in_every_profile_and_names_are_single():
    for profile in PROFILES:
        lines = all_cases(profile, Inputs())
        assert {line.family for line in lines} == FAMILIES.keys()
        assert len({line.name for line in lines}) == len(lines)
        assert profile == DEFAULTS[profile].profile


def test_ladders_grow():
    for profile in PROFILES:
        steps = {}
        for line in all_cases(profile, Inputs()):
            steps.setdefault((line.family, line.step_of), []).append(line.columns)
        assert all(columns == sorted(columns) for columns in steps.values())
