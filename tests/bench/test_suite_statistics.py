"""Statistics of a suite, against definitions written out anew."""

import numpy as np
import pytest
from scipy.stats import gmean

from copter.bench import statistics
from copter.bench.result_files import LineResult, SolverResult, SuiteResult


def result(name, seconds, certified=True, status="measured"):
    records = [
        {"solver": name, "round": k, "seconds": t, "certified": certified} for k, t in enumerate(seconds)
    ]
    return SolverResult(name, name, 2, status, records=records)


def line(name, solvers, family="sia", limit=100.0):
    return LineResult(
        name, family, name, "", 1e-4, 2, 4, 1, limit, {}, "", tuple(solvers), dict(solvers.items())
    )


@pytest.fixture
def lines():
    rng = np.random.default_rng(0)
    made = []
    for k in range(6):
        solvers = {
            name: result(name, rng.uniform(1e-3, 1.0, 5), certified=(name, k) != ("b", 2))
            for name in ("copter", "a", "b")
        }
        if k == 4:
            solvers["a"] = SolverResult("a", "a", 2, "not run", "memory")
        made.append(line(f"line {k}", solvers))
    return made


def median(one, name):
    """Median by hand of the rounds after the first; infinite if the answers are not all certified."""
    records = one.solvers[name].records
    if not records or not all(record["certified"] for record in records):
        return np.inf
    seconds = sorted(record["seconds"] for record in records[1:])
    return (seconds[1] + seconds[2]) / 2


def test_means_are_geometric_over_shifted_seconds(lines):
    for name, (mean, certified, of) in statistics.means(lines, 0.25).items():
        seconds = [min(median(one, name), 100.0) for one in lines]
        assert mean == pytest.approx(gmean(np.array(seconds) + 0.25) - 0.25, rel=1e-12)
        assert certified == sum(np.isfinite(median(one, name)) for one in lines) and of == 6


def test_the_fastest_without_certified_answers_does_not_count():
    ours, quick, slow = (
        result("copter", [9, 2, 2, 2]),
        result("quick", [1, 1, 1, 1], False),
        result("s", [9, 4, 5, 8]),
    )
    found = statistics.verdict(line("x", {"copter": ours, "quick": quick, "s": slow}))
    assert (found.baseline, found.fastest, found.won) == ("s", "copter", True)
    assert (found.ratio, found.low, found.high) == (2.5, 2.0, 4.0)
    nobody = statistics.verdict(line("x", {"copter": ours, "quick": quick}))
    assert nobody.ratio == np.inf and nobody.won
    uncertified = statistics.verdict(line("x", {"copter": result("copter", [1, 1], False), "s": slow}))
    assert np.isnan(uncertified.ratio) and not uncertified.won


def test_a_solver_that_ended_early_is_not_compared_with_copter_s_fastest_rounds_only():
    ours = result("copter", [9.0, 1.0, 1.0, 4.0, 5.0])
    for seconds, expected in (
        ([50.0, 10.0, 20.0], (6.0, 6.0, 20.0)),  # the medians are 15 and 2.5, that of the ratios is 15
        ([50.0, 1.0, 8.0], (1.8, 1.0, 8.0)),
        ([50.0, 10.0, 20.0, 20.0, 20.0], (7.5, 4.0, 20.0)),  # it played all rounds
    ):
        one = line("x", {"copter": ours, "a": result("a", seconds)})
        assert statistics.ratios(one, "a", "copter") == pytest.approx(expected)


def test_lines_that_are_lost_are_listed(lines):
    def lost(one):
        ours = [record["seconds"] for record in one.solvers["copter"].records[1:]]
        baseline = min(("a", "b"), key=lambda name: median(one, name))
        theirs = [record["seconds"] for record in one.solvers[baseline].records[1:]]
        return np.median(np.divide(theirs, ours)) < 1

    suite = SuiteResult("full", "", {}, {}, "", 0.0, (), {one.name: one for one in lines})
    expected = [one.name for one in lines if lost(one)]
    assert [one.line for one in statistics.verdicts(suite) if not one.won] == expected
    assert 0 < len(expected) < 6
