"""Modes of HiGHS, OR-Tools and cvxpy: the fastest certified one counts, hopeless ones end early."""

from dataclasses import replace

import pytest

from copter.bench.course import Course, Play, method_round
from copter.bench.report.sections import mode_cell
from copter.bench.rounds import BenchJob, play
from copter.bench.settings import SolverSettings
from copter.bench.statistics import fastest_mode, verdict, why_no_mode
from copter.bench.suite import _rival
from support.sample_suite import line, not_run, solver


class Paced(Course):
    """Six rounds, each of the given seconds; the first one takes ten times as long."""

    def __init__(self, seconds):
        self.seconds = seconds

    def small(self):
        return self

    def play(self, settings):
        return Play(
            method_round(
                settings.name, k, solve_seconds=self.seconds * (1 if k else 10), gap=0.0, status="optimal"
            )
            for k in range(6)
        )


def played(seconds, rival):
    job = BenchJob(Paced(seconds), SolverSettings("heuristic"), "bound", rounds=6, brief=True, rival=rival)
    return play(job)


HOPELESS = "ended after round 1, because it took 21 times the seconds of highs-dual"


@pytest.mark.parametrize(
    ("seconds", "rounds", "reason"), [(0.21, 2, HOPELESS), (0.005, 6, ""), (0.19, 6, "")]
)
def test_a_hopeless_mode_ends_after_two_rounds_and_says_so(seconds, rounds, reason):
    result = played(seconds, ("highs-dual", 0.01))
    assert (len(result.records), result.status, result.reason) == (rounds, "measured", reason)


def test_the_rival_is_the_fastest_certified_mode_of_the_same_solver():
    done = {
        one.solver: one
        for one in (
            solver("highs-dual", 0.02, noise=0.0),
            solver("highs-primal", 0.01, noise=0.0),
            solver("highs-ipm", 0.001, noise=0.0, certified=False),
            solver("pdlp", 0.0001, noise=0.0),
            not_run("highs-presolve", "no answer", "missed"),
        )
    }
    assert _rival("highs-pdlp", done) == ("highs-primal", pytest.approx(0.01))
    assert _rival("glop", done) == ("pdlp", pytest.approx(0.0001))
    assert _rival("clarabel", done) == ("", float("inf"))
    assert _rival("pop-4", done | {"pop-2": solver("pop-2", 0.1)}) == ("", float("inf"))


def test_the_fastest_certified_mode_counts():
    one = line(
        "a",
        "sia",
        [
            solver("copter", 0.01, noise=0.0),
            solver("highs-dual", 0.03, noise=0.0),
            solver("highs-primal", 0.02, noise=0.0),
            solver("highs-ipm", 0.001, noise=0.0, certified=False),
            not_run("pdlp", "round 0: deadline", "missed"),
            solver("cvxpy", 0.1, certified=False),
        ],
    )
    assert fastest_mode(one, "highs") == "highs-primal" == verdict(one).baseline
    assert mode_cell(one, "highs") == "20.0 ms, 2.00× (2.00× to 2.00×), highs-primal"
    assert fastest_mode(one, "ortools") == ""
    assert why_no_mode(one, "ortools") == mode_cell(one, "ortools") == "no answer in 60 s"
    later = replace(one, solvers={"pdlp": solver("pdlp", 61.0, rounds=2, status="missed")})
    assert why_no_mode(later, "ortools") == "over 60 s a round"
    assert why_no_mode(one, "cvxpy") == "not certified"
    alone = replace(one, solvers={"copter": one.solvers["copter"]})
    assert why_no_mode(alone, "highs") == "" and mode_cell(alone, "highs") == "–"
    waiting = replace(one, solvers={"pdlp": not_run("pdlp", "memory: a matrix of its own needs 9 GB")})
    assert why_no_mode(waiting, "ortools") == "not run"
