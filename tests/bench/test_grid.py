"""Tables of reproductions, and grids of what is played: figures are those of a calculation by hand."""

import inspect
import math
import sys
from dataclasses import replace
from importlib import import_module

import pytest

from copter.bench import reproduction
from copter.bench.grid import grid
from copter.bench.reproduction import Effort, read_table, reproductions

AXES = {"load": {"low": {"jobs": 2}, "high": {"jobs": 4}}, "policy": ["ours", "theirs"]}


def play(effort, row, k, *, jobs, policy, extra=0.0):
    """Seconds that grow with the jobs, and twice as many for the other policy."""
    effort.say(row)
    seconds = jobs * (1.0 if policy == "ours" else 2.0) + effort.seed + k + extra
    return {"seconds": seconds, "jobs": float(jobs)}


def measured(effort=None, **settings):
    figures = grid(effort or Effort(2), play, {"seconds": "s"}, row="{load}: {policy}", axes=AXES, **settings)
    return {(one.row, one.column): one for one in figures}


def test_all_choices_are_rows_and_all_columns_are_shown():
    found = measured(extra=1.0)
    assert [row for row, column in found if column == "jobs"] == [
        *("low: ours", "low: theirs", "high: ours", "high: theirs")
    ]
    one = found["high: theirs", "seconds"]
    assert (one.ours, one.std, one.unit) == (9.5, pytest.approx(math.sqrt(0.5)), "s")
    assert measured(columns=["jobs"]).keys() == {key for key in found if key[1] == "jobs"}


RATIO = {"column": "ratio", "of": "{load}: {policy}", "over": "{load}: ours"}


def test_ratios_are_those_of_samples_or_of_means():
    samples = measured(derived=[RATIO])
    assert samples.keys() == {("low: theirs", "ratio"), ("high: theirs", "ratio")}  # none over itself
    assert samples["low: theirs", "ratio"].ours == pytest.approx((4 / 2 + 5 / 3) / 2)
    means = measured(derived=[RATIO | {"paired": False}])
    assert means["low: theirs", "ratio"].ours == pytest.approx(4.5 / 2.5)
    assert math.isnan(means["low: theirs", "ratio"].std)
    itself = measured(derived=[RATIO | {"itself": True, "how": "below"}])
    assert (itself["low: ours", "ratio"].ours, itself["low: ours", "ratio"].unit) == (0.0, "%")
    above = measured(derived=[RATIO | {"how": "above", "paired": False}])
    assert above["low: theirs", "ratio"].ours == pytest.approx(80.0)


def test_places_that_are_the_same_are_pooled():
    one = RATIO | {"row": "all"}
    ratios = [(4 / 2 + 5 / 3) / 2, (8 / 4 + 9 / 5) / 2]
    for pick, value in (("mean", sum(ratios) / 2), ("least", ratios[0]), ("most", ratios[1])):
        assert measured(derived=[one | {"pick": pick}])["all", "ratio"].ours == pytest.approx(value)


def test_the_papers_data_stand_beside_rows_and_ratios():
    def paper(effort, *, jobs, policy):
        return {"seconds": 10.0 * jobs if policy == "ours" else 15.0 * jobs}

    found = measured(paper=paper, columns=["seconds"], derived=[RATIO])
    assert found["low: ours", "seconds"].paper == 20.0
    assert found["high: theirs", "ratio"].paper == pytest.approx(1.5)


# ---- tables --------------------------------------------------------------------------------------------

TABLE = """
[defaults]
measure = "figures"
[texts]
kind = "of a kind"
[a]
title = "A"
source = "a paper"
differs = "jobs {kind}"
takes = { minutes = 2, data = true }
samples = 2
size = 4
axes = { x = [1, 2], y = [3] }
printed = [["", "one", "two"], ["row", 1.5, ""], ["bound", "<9", ">8"]]
claims = [{ says = "It is {kind}", printed = "2", row = "row", column = "one", share = true }]
quick = { size = 1, axes = { x = [1] } }
[b]
like = "a"
title = "B"
takes = { seeds = 7, deviations = "rounds" }
claimed_in = "section 1, {kind}"
printed = []
quick.compared = false
"""


@pytest.fixture
def module(tmp_path, monkeypatch):
    code = (
        "from copter.bench.reproduction import PaperFigure\n"
        "def figures(effort, size, axes, samples):\n"
        "    shown = {'one': size, 'two': len(axes['x'])}\n"
        "    return [PaperFigure('row', column, '', float(value)) for column, value in shown.items()]\n"
    )
    (tmp_path / "papers_of_a_test.py").write_text(code)
    (tmp_path / "papers_of_a_test.toml").write_text(TABLE)
    monkeypatch.syspath_prepend(tmp_path)
    yield "papers_of_a_test"
    sys.modules.pop("papers_of_a_test", None)  # the next test has another one


def test_a_section_is_a_reproduction(module):
    a, b = read_table(module)
    assert (a.name, a.title, a.differs, a.minutes, a.seeds, a.needs_data) == (
        *("a", "A", "jobs of a kind", 2, 3, True),
    )
    assert a.printed == {("row", "one"): 1.5, ("bound", "one"): 9.0, ("bound", "two"): 8.0}
    assert a.bounds == {("bound", "one"): "<", ("bound", "two"): ">"}
    (claim,) = a.claims
    assert (claim.says, claim.place) == ("It is of a kind", "a paper")
    assert claim.better == "more" and claim.share
    assert (b.title, b.source, b.minutes, b.seeds, b.needs_data) == ("B", "a paper", 2, 7, True)
    assert b.printed == {} and b.claims == (replace(claim, place="section 1, of a kind"),)
    assert (a.played(9), a.played(1), a.deviations) == (2, 1, "samples")
    assert (b.played(9), b.deviations) == (2, "rounds")


def test_a_quick_look_replaces_settings(module):
    a, b = read_table(module)
    whole, quick = a.measure(Effort()), a.measure(Effort(quick=True))
    assert [one.ours for one in whole] == [4.0, 2.0] and [one.ours for one in quick] == [1.0, 1.0]
    assert whole[0].paper == quick[0].paper == 1.5 and math.isnan(whole[1].paper)


def test_a_table_that_cannot_be_read_takes_no_others_away(monkeypatch):
    entries, known = dict(reproduction.installed(reproduction.GROUP)), set(reproductions())
    broken = type(entries["afs"])("broken", "copter.nowhere", reproduction.GROUP)
    monkeypatch.setattr(reproduction, "installed", lambda group: {"broken": broken} | entries)
    with pytest.warns(UserWarning, match=r"no reproductions of 'broken' \(copter.nowhere\): ImportError"):
        assert set(reproductions()) == known


@pytest.mark.parametrize("name", [name for name, one in reproductions().items() if one.measure])
def test_sections_have_settings_that_their_functions_take(name):
    one = reproductions()[name]
    function = getattr(import_module(one.measure.module), one.measure.function)
    for quick in ({}, one.measure.quick):
        settings = {**one.measure.settings, **quick}
        settings.pop("compared", None)
        inspect.signature(function).bind(Effort(), **settings)
