"""Sia beside its rivals: what runs how, what a row says, and the order on a small workload."""

import math

import pytest

from copter.bench.reproduction import Effort, reproductions
from copter.problems.cluster import make_policy
from copter.problems.sia import reproductions as module
from copter.problems.sia.comparison import COLUMNS, RIVALS, Setting, play, ratio, row


def test_rivals_run_as_in_the_thesis():
    for name, rival in RIVALS.items():
        policy = make_policy(rival.policy, **rival.settings)
        adaptive = name in ("Sia", "Pollux")
        assert policy.round_seconds == (60.0 if adaptive else 360.0)
        assert policy.kind == ("adaptive" if adaptive else "rigid")
        assert (rival.placer() is None) == (rival.estimator == "oracle") == (not adaptive)


def test_rows_are_means_beside_the_papers():
    outcomes = [
        {"average_jct_hours": 1.0, "unfair_fraction": 0.1},
        {"average_jct_hours": 3.0, "unfair_fraction": 0.2},
    ]
    first, second = row("Sia", outcomes, {"average JCT": 1.9}, ("average JCT", "unfair jobs"))
    assert (first.ours, first.paper, first.unit) == (2.0, 1.9, "h")
    assert first.std == pytest.approx(math.sqrt(2.0))
    assert second.ours == pytest.approx(15.0)
    assert math.isnan(second.paper)
    assert math.isnan(row("Sia", outcomes[:1], {}, ("average JCT",))[0].std)
    assert ratio("Sia", "below", 0.6, 1.0).ours == pytest.approx(40.0)


def test_a_quick_look_has_a_quarter_of_the_jobs_at_the_same_rate():
    whole = Setting("helios").scenario(Effort(), 0)
    quick = Setting("helios").scenario(Effort(quick=True), 0)
    assert (len(whole.jobs), len(quick.jobs)) == (160, 40)
    assert max(job.time for job in quick.jobs) <= 2 * 3600.0


def test_sia_is_below_gavel_with_tuned_jobs():
    """A few jobs of the kinds that are soon done; of hours of contention the tables tell."""
    scenario = Setting("new-trace", settings={"jobs": 12, "hours": 0.2}).scenario(Effort(), 2)
    assert {job.application for job in scenario.jobs} <= {"bert", "cifar10", "deepspeech2"}
    jct = {}
    for name in ("Sia", "Gavel+TJ"):
        figures, hours = play(scenario, RIVALS[name])
        assert figures["jobs_completed"] == 12
        assert all(figures[key] >= 0 for key, _, _ in COLUMNS.values())
        total = sum(hours.values())
        assert 0 < figures["gpu_hours_per_job"] <= total
        jct[name] = figures["average_jct_hours"]
    assert jct["Sia"] < jct["Gavel+TJ"]


def test_printed_tables_are_whole():
    assert all(len(values) == 7 for values in module.PAPER_33.values())
    assert {rival for _, rival in module.PAPER_33} | set(module.PAPER_34) | set(module.PAPER_37) == set(
        RIVALS
    )
    assert {one.name for one in module.REPRODUCTIONS} <= set(reproductions())


def test_fairness_is_shown_by_both_readings(monkeypatch):
    keys = {key: 0.25 for key, _, _ in COLUMNS.values()} | {"worst_ftf": 2.0, "worst_ftf_authors": 3.0}
    monkeypatch.setattr(module, "samples", lambda _, cases: {key: [(keys, {})] for key in cases})
    effort = Effort(1, None, 0, False, lambda _: None)
    for name, who in (("sia-figure-3.7", "Sia"), ("sia-table-3.3-helios", "Helios Sia")):
        shown = {one.column: one for one in reproductions()[name].measure(effort) if one.row == who}
        assert shown["worst FTF"].ours == 2.0 and shown["worst FTF, authors' reading"].ours == 3.0
        assert shown["unfair jobs"].ours == shown["unfair jobs, authors' reading"].ours == 25.0
