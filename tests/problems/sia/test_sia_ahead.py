"""Jobs that can wait: they start when it is cheap, are done in time, and leave the others alone."""

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from copter.errors import InputError
from copter.problems.cluster import Cluster, GpuType, JobSubmission, Scenario, Simulator
from copter.problems.cluster.jobs import Timer
from copter.problems.cluster.policy import ClusterState
from copter.problems.cluster.prices import Prices, read_prices, total_cost
from copter.problems.cluster.profiles.tables import ReplicaProfile
from copter.problems.cluster.results import Segment
from copter.problems.cluster.simulation.jobs import SimulatedJob
from copter.problems.sia import Sia
from copter.problems.sia.ahead import WAITING, Plan, PriceError

CLUSTER = Cluster([GpuType("A", 1, 2), GpuType("B", 1, 2)])
HOURLY = {"m": ReplicaProfile("m", 0.0, 3600.0, {"A": (1, 1.0), "B": (1, 1.0)})}
"""An hour on one GPU of either type."""
HOUR = 3600.0


def play(prices, deadlines, cluster=CLUSTER, profiles=HOURLY, **options):
    """Records of jobs that come at 0, and what they cost."""
    jobs = [
        JobSubmission(str(k), 0.0, "", "m", max_gpus=1, deadline=None if at is None else at * HOUR)
        for k, at in enumerate(deadlines)
    ]
    policy = Sia(prices=prices, **options) if prices is not None else Sia()
    simulator = Simulator(Scenario(cluster, jobs, profiles), policy).play()
    priced = Prices({type: [1.0] for type in cluster.names}) if prices is None else prices
    return simulator.job_results(), total_cost(simulator.segments, priced), simulator.segments


@given(
    table=st.lists(st.floats(0.0, 10.0), min_size=1, max_size=5),
    begin=st.floats(0.0, 1e5),
    seconds=st.floats(0.0, 3e4),
)
def test_what_is_held_costs_the_sum_of_its_seconds(table, begin, seconds):
    prices = Prices({"A": table})
    cuts = sorted({begin, begin + seconds, *np.arange(0.0, begin + seconds, HOUR)})
    expected = sum(
        3 * (b - a) / HOUR * prices.at("A", a) for a, b in itertools.pairwise(c for c in cuts if c >= begin)
    )
    assert prices.cost("A", 3, begin, begin + seconds) == pytest.approx(expected, abs=1e-9)


def test_a_job_waits_for_the_cheapest_hour_before_its_deadline():
    prices = Prices({"A": [5, 4, 3, 1, 2, 9], "B": [5, 5, 5, 5, 5, 5]})
    for deadline, starts, cost in (
        (1.0, 0, 5.0),
        (2.5, 1, 4.0),
        (3.5, 2, 3.0),
        (6.0, 3, 1.0),
        (60.0, 3, 1.0),
    ):
        (job,), paid, segments = play(prices, [deadline], forecast="known")
        assert (job.started, segments[0].type) == (starts * HOUR, "A")
        assert paid == pytest.approx(cost) and job.finished <= deadline * HOUR


def test_who_cannot_wait_is_served_at_once_and_others_come_in_between():
    prices = Prices({"A": [9, 1, 1, 9], "B": [9, 9, 9, 9]})
    jobs, _, _ = play(prices, [None, None, 4.0, 0.5], forecast="known")
    assert [job.started for job in jobs] == [0.0, 0.0, HOUR, 0.0]  # the last one is late either way


def test_without_prices_nobody_waits():
    jobs, _, _ = play(None, [4.0, 8.0])
    assert [job.started for job in jobs] == [0.0, 0.0]


@settings(max_examples=12, deadline=None)
@given(
    table=st.lists(st.tuples(st.integers(1, 9), st.integers(1, 9)), min_size=6, max_size=6),
    deadlines=st.lists(st.integers(1, 6), min_size=1, max_size=5),
)
def test_plans_cost_what_the_best_assignment_does(table, deadlines):
    """Jobs of an hour on GPUs for an hour: which is found by trying all ways."""
    prices = Prices({"A": [a for a, _ in table], "B": [b for _, b in table]})
    jobs, paid, _ = play(prices, [float(at) for at in deadlines], forecast="known")
    slots = [(type, hour) for hour in range(6) for type in ("A", "B") for _ in range(2)]

    def best(left, taken):
        if not left:
            return 0.0
        found, tried = np.inf, set()
        for number, (type, hour) in enumerate(slots):
            if number in taken or hour >= left[0] or (type, hour) in tried:
                continue
            tried.add((type, hour))
            found = min(found, prices.at(type, hour * HOUR) + best(left[1:], taken | {number}))
        return found

    least = best(deadlines, frozenset())
    if np.isfinite(least):
        assert all(job.finished <= at * HOUR + 1e-6 for job, at in zip(jobs, deadlines, strict=True))
        assert least - 1e-6 <= paid <= 1.02 * least + 1e-6  # delta, a thousandth an hour of waiting


def test_what_was_on_earlier_days_is_expected_again():
    day = [5.0] * 8 + [1.0] * 4 + [5.0] * 12
    prices = Prices({"A": day, "B": day})
    jobs = [JobSubmission(str(k), 24.0 * HOUR * k, "", "m", deadline=24.0 * HOUR * (k + 1)) for k in range(3)]
    starts = {}
    for forecast in ("past", "known"):
        simulator = Simulator(Scenario(CLUSTER, jobs, HOURLY), Sia(prices=prices, forecast=forecast)).play()
        starts[forecast] = [job.started / HOUR % 24.0 for job in simulator.job_results()]
    assert starts["known"] == [8.0, 8.0, 8.0]
    assert starts["past"][1:] == [8.0, 8.0]
    before = Prices({"A": day, "B": day}, first=-24)  # and a day of which is known before
    simulator = Simulator(Scenario(CLUSTER, jobs, HOURLY), Sia(prices=before)).play()
    assert [job.started / HOUR % 24.0 for job in simulator.job_results()] == [8.0, 8.0, 8.0]


def test_files_of_prices_and_what_is_wrong_with_them(tmp_path):
    path = tmp_path / "prices.csv"
    path.write_text("hour,A,B\n0,1.5,2\n1,0.5,3\n")
    prices = read_prices(path)
    assert prices.of_hours("A", 1, 3).tolist() == [0.5, 1.5, 0.5] and prices.at("B", 4000.0) == 3.0
    path.write_text("hour,A\n-2,1\n-1,2\n0,3\n")
    assert [read_prices(path).at("A", hour * HOUR) for hour in range(4)] == [3.0, 1.0, 2.0, 3.0]
    for text, where in (
        ("hour\n0\n", "line 1"),
        ("hour,A\n1,1\n", "line 2, hour"),
        ("hour,A\n0,1\n2,1\n", "line 3, hour"),
        ("A\n-1\n", "line 2, A"),
        ("A\n", "file"),
        ("A,B\n1,\n", "line 2, B"),
    ):
        path.write_text(text)
        with pytest.raises(InputError, match=where):
            read_prices(path)
    with pytest.raises(InputError, match="No such file"):
        read_prices(tmp_path / "none.csv")
    with pytest.raises(PriceError, match="none of 'B'; only of A"):
        play(Prices({"A": [1.0]}), [4.0])
    with pytest.raises(ValueError, match="needs one for every hour"):
        Prices({"A": [1.0], "B": [1.0, 2.0]})


def test_a_segment_costs_its_hours():
    fields = {"place": None, "restart_seconds": 0.0, "progress": 0.0}
    one = Segment("a", 1800.0, 7200.0, "A", 4, 1, **fields)
    assert total_cost([one], Prices({"A": [2.0, 1.0]})) == pytest.approx(4 * (0.5 * 2.0 + 1.0))


@settings(max_examples=40, deadline=None)
@given(
    time=st.floats(0.0, 3.5 * HOUR),
    seconds=st.floats(1.0, 4.0 * HOUR),
    ahead=st.floats(0.01, 12.0),
    table=st.lists(st.floats(0.1, 9.0), min_size=20, max_size=20),
)
def test_columns_hold_and_cost_what_a_plain_loop_says(time, seconds, ahead, table):
    cluster, timer = Cluster([GpuType("A", 2, 1), GpuType("B", 1, 1)]), Timer()
    timer.time = time
    profile = ReplicaProfile("m", 0.0, seconds, {"A": (1, 1.0), "B": (1, 0.5)})
    job = SimulatedJob(
        JobSubmission("j", time, "", "m", deadline=time + ahead * HOUR), profile, "adaptive", timer
    )
    prices = Prices({"A": table, "B": table[::-1]})
    plan, now = Plan(prices, "known"), ClusterState(time, 0, 60.0, cluster, {"j": job})
    plan.waiting["j"] = job
    hours = plan._begin(now)
    costs, usage = plan._request(job, now, hours)
    wanted, shares = [], np.zeros((len(hours.resources), len(costs) + 1))
    hour = int(time // HOUR)
    for configuration in cluster.configurations:
        took = float(profile.clock(configuration)[-1])
        for start in range(hour, hours.last):
            begin = max(start * HOUR, time)
            if begin + took > min(job.submission.deadline, hours.last * HOUR) or took == np.inf:
                continue
            for at, (type, each) in enumerate(hours.resources):
                there = min(begin + took, (each + 1) * HOUR) - max(begin, each * HOUR)
                if type == configuration.type and there > 0 and len(wanted) < shares.shape[1]:
                    shares[at, len(wanted)] = configuration.gpus * there / HOUR
            wanted.append((prices.cost(configuration.type, configuration.gpus, begin, begin + took), start))
    assert len(wanted) == len(costs)
    if wanted:
        least = min(cost for cost, _ in wanted)
        expected = [cost + WAITING * max(least, 1e-9) * (start - hour) for cost, start in wanted]
        assert costs == pytest.approx(expected, rel=1e-9, abs=1e-12)
        assert usage.toarray() == pytest.approx(shares, abs=1e-9)


def test_who_comes_later_in_the_hour_finds_the_gpus_of_those_before_taken():
    """Two jobs of three hours on one GPU of each type: the second one goes to the dearer type, in time."""
    cluster = Cluster([GpuType("A", 1, 1), GpuType("B", 1, 1)])
    long = {"m": ReplicaProfile("m", 0.0, 3 * 3600.0, {"A": (1, 1.0), "B": (1, 1.0)})}
    prices = Prices({"A": [1.0], "B": [1.2]})
    for later in (0.0, 60.0, 600.0):
        jobs = [
            JobSubmission(str(k), at, "", "m", max_gpus=1, deadline=4 * HOUR)
            for k, at in enumerate((0.0, later))
        ]
        simulator = Simulator(Scenario(cluster, jobs, long), Sia(prices=prices, forecast="known")).play()
        assert all(job.finished <= 4 * HOUR for job in simulator.job_results())
        assert [one.type for one in simulator.segments] == ["A", "B"]


def test_who_waits_is_planned_anew_when_somebody_comes_within_the_hour():
    """At 0.8 h it is too late for the slow type, on which the older job could have begun at 0 h."""
    cluster = Cluster([GpuType("A", 1, 1), GpuType("B", 1, 1)])
    profiles = {
        "old": ReplicaProfile("old", 0.0, 1800.0, {"A": (1, 1.0), "B": (1, 0.5 / 1.9)}),
        "new": ReplicaProfile("new", 0.0, 0.7 * 3600.0, {"A": (1, 1.0)}),
    }
    jobs = [
        JobSubmission("old", 0.0, "", "old", max_gpus=1, deadline=2 * HOUR),
        JobSubmission("new", 0.8 * HOUR, "", "new", max_gpus=1, deadline=2.5 * HOUR),
    ]
    prices = Prices({"A": [100.0, 1.0, 100.0], "B": [10.0, 10.0, 10.0]})
    simulator = Simulator(Scenario(cluster, jobs, profiles), Sia(prices=prices, forecast="known")).play()
    old, new = simulator.job_results()
    assert old.finished <= 2 * HOUR and new.finished <= 2.5 * HOUR


@pytest.mark.parametrize("seconds", [3600.0, np.nextafter(3600.0, 4000.0), np.nextafter(3600.0, 0.0), 7200.0])
def test_jobs_of_whole_hours_but_for_rounding_are_planned(seconds):
    cluster = Cluster([GpuType("A", 1, 1)])
    profiles = {"m": ReplicaProfile("m", 0.0, float(seconds), {"A": (1, 1.0)})}
    jobs = [JobSubmission("j", 0.0, "", "m", max_gpus=1, deadline=48 * HOUR)]
    policy = Sia(prices=Prices({"A": [2.0, 1.0]}), forecast="known")
    (job,) = Simulator(Scenario(cluster, jobs, profiles), policy).play().job_results()
    assert job.finished <= 48 * HOUR


def test_a_small_job_with_a_way_is_not_late_for_a_large_one():
    cluster = Cluster([GpuType("A", 1, 1)])
    profiles = {
        "large": ReplicaProfile("large", 0.0, 3600.0, {"A": (1, 1.0)}),
        "small": ReplicaProfile("small", 0.0, 360.0, {"A": (1, 1.0)}),
    }
    jobs = [
        JobSubmission("large", 0.0, "", "large", deadline=9 * HOUR),
        JobSubmission("small", 0.0, "", "small", deadline=0.2 * HOUR),
    ]
    prices = Prices({"A": [1.0] + [40.0] * 8})
    simulator = Simulator(Scenario(cluster, jobs, profiles), Sia(prices=prices, forecast="known")).play()
    large, small = simulator.job_results()
    assert small.finished <= 0.2 * HOUR and large.finished <= 9 * HOUR
