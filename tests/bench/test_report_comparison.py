"""Two folders of results compared: a planted regression is found, noise is not, what differs is said."""

import json
from dataclasses import replace

import numpy as np
import pytest
from scipy.stats import bootstrap

from copter.bench.report.comparison import compare, ratio_with_interval
from support.commands import invoke
from support.sample_suite import MACHINE, line, not_run, save, solver, suite


def measured(seed, *, slower=(), noise=0.05, rounds=9, **fields):
    """A suite of ten lines; copter takes half as much again on those of `slower`."""
    rng = np.random.default_rng(seed)
    lines = []
    for k in range(10):
        factor = 1.5 if k in slower else 1.0
        ours = solver("copter", 1e-3 * 2**k * factor, rng=rng, noise=noise, rounds=rounds)
        lines.append(line(f"sia-{k}", "sia", [ours, solver("highs-hot", 1.0, rng=rng)], columns=10.0**k))
    return suite(lines, **fields)


def changed(result, name, one):
    """The suite with another result of a solver on a line."""
    before = result.lines[name]
    lines = result.lines | {name: replace(before, solvers=before.solvers | {one.solver: one})}
    return replace(result, lines=lines)


def regressions(old, new):
    return [change for change in compare(old, new)[1] if change.regressed]


@pytest.mark.parametrize("seed", range(5))
def test_a_planted_regression_is_found_and_noise_is_not(seed):
    """Every round of both runs has noise of its own, of 5%."""
    found = regressions(measured(2 * seed), measured(2 * seed + 1, slower=(3, 7)))
    assert [change.line for change in found] == ["sia-3", "sia-7"]
    assert all(1.1 < change.low <= change.ratio <= change.high < 2.0 for change in found)
    assert not regressions(measured(2 * seed), measured(2 * seed + 1))


@pytest.mark.parametrize("rounds", [3, 6, 25])
def test_the_spread_is_that_of_a_bootstrap(rounds):
    """Against scipy's, of the median of the ratios."""
    rng = np.random.default_rng(rounds)
    old, new = rng.lognormal(0.0, 0.2, (2, rounds))
    ratio, low, high = ratio_with_interval(old, new)
    logs = np.log(new / old)
    other = bootstrap((logs,), np.median, method="percentile", n_resamples=4000, rng=rng)
    expected = np.median(logs), other.confidence_interval.low, other.confidence_interval.high
    assert np.log([ratio, low, high]) == pytest.approx(np.array(expected), abs=0.05)


@pytest.mark.parametrize(
    "worse",
    [
        solver("copter", 1e-3, certified=False),
        not_run("copter", "round 2: no answer within 60 s", "missed"),
        not_run("copter", "ValueError: no", "failed"),
    ],
    ids=["uncertified", "missed", "failed"],
)
def test_a_lost_certificate_is_a_regression_however_fast(worse):
    before = measured(1)
    after = changed(before, "sia-4", worse)
    (found,) = regressions(before, after)
    assert (found.line, found.outcome) == ("sia-4", "certificate lost")
    assert not regressions(after, before)


def test_what_else_differs_is_said():
    versions = MACHINE["versions"] | {"python": "3.12.1"}
    other = measured(1, machine=MACHINE | {"cores": 64, "versions": versions}, settings={"threads": 8})
    lines = dict(other.lines)
    lines["sia-2"] = replace(lines["sia-2"], tolerance=1e-2)
    del lines["sia-9"]
    found = " | ".join(compare(measured(1), replace(other, lines=lines))[0])
    for text in (
        "cores 2, not 64",
        "python 3.11.7, not 3.12.1",
        "threads 2, not 8",
        "sia-2, tolerance 0.0001, not 0.01",
        "sia-9 is only in the old folder",
    ):
        assert text in found


def test_the_command_fails_only_if_it_is_to(tmp_path):
    old, new = (
        save(tmp_path / "old", measured(1)),
        save(tmp_path / "new", measured(2, slower=(3,), settings={"threads": 8})),
    )
    result = invoke("bench", "compare", old, new)
    assert "sia-3" in result.output
    assert result.output.index("threads 2, not 8") < result.output.index("new / old")
    failing = ["bench", "compare", old, new, "--fail-on-regression"]
    invoke(*failing, code=1)
    invoke(*failing, "--threshold", "3")
    invoke("bench", "compare", new, old, "--fail-on-regression")
    result = invoke("bench", "compare", old, new, "--json", "-")
    document = json.loads(result.stdout)
    assert [one["line"] for one in document["changes"] if one["outcome"] == "slower"] == ["sia-3"]
    assert len(document["changes"]) == 10
