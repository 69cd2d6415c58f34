"""The model of a round: what it is fitted to it gives back, and what it counts is what happens."""

import json
from dataclasses import replace

import numpy as np
import pytest
from typer.testing import CliRunner

from copter import ProximalPoint
from copter.bench.round_model import Network, Observation, Places, RoundModel
from copter.bench.round_watch import Metered, Watched, network_of, round_trip
from copter.cli.main import app
from copter.program.spread import SpreadProgram
from copter.store.places import InProcess

DRIVER, COLUMNS, NBYTES = (2e-3, 3e-6, 4e-8, 5e-11), (3e-5, 2e-9), (1e3, 500.0, 0.25)


def rounds(threads, parts):
    """Rounds that follow the formula of the module's head."""
    rng = np.random.default_rng(0)
    for columns, requests in ((3e4, 200), (4e5, 500), (1e6, 4000), (9e6, 3000)):
        for _ in range(4):
            steps, passes, calls = (int(rng.integers(low, 3 * low)) for low in (10, 2, 7))
            candidates, tasks = 12 * requests, calls * parts
            units = 1, requests, steps * candidates, columns
            yield Observation(
                int(columns), requests, 7, candidates, steps, passes, tasks, calls,
                int(np.dot(NBYTES, (1, requests, columns))),
                driver=float(np.dot(DRIVER, units)),
                far=float(np.dot(COLUMNS, (tasks, passes * columns / threads))),
            )  # fmt: skip


@pytest.mark.parametrize(("threads", "parts"), [(1, 32), (4, 1)])
def test_the_fit_gives_back_what_the_rounds_follow(threads, parts):
    seen = list(rounds(threads, parts))
    model = RoundModel.fit(seen, threads, parts)
    np.testing.assert_allclose(model.driver, DRIVER, rtol=1e-6)
    np.testing.assert_allclose(model.columns, COLUMNS, rtol=1e-6)
    np.testing.assert_allclose(model.nbytes, NBYTES, rtol=1e-4)
    assert model.candidates == pytest.approx(12)
    for each in seen:
        rates = replace(model, steps=each.steps, passes=each.passes, calls=each.calls, tasks=each.calls)
        here = rates.predict(each.columns, each.requests, Places(1, threads), parts)
        assert here["round"] == pytest.approx(each.seconds, rel=1e-6)
        assert here["network"] == 0.0
        checked = rates.checked([each], Places(1, threads), parts)
        assert checked["ratio"] == pytest.approx(1.0, rel=1e-6)


def test_the_unit_of_time_does_not_matter():
    seen = list(rounds(1, 32))
    slow = [replace(each, driver=60 * each.driver, far=60 * each.far) for each in seen]
    one, other = RoundModel.fit(seen, 1, 32), RoundModel.fit(slow, 1, 32)
    np.testing.assert_allclose(np.multiply(one.driver, 60), other.driver, rtol=1e-6)
    np.testing.assert_allclose(np.multiply(one.columns, 60), other.columns, rtol=1e-6)


def test_places_share_the_columns_and_pay_for_the_network():
    model = RoundModel.fit(list(rounds(1, 32)), 1, 32)
    network = Network(1e-3, 1e-4, 1e9)
    alone = model.predict(1e9, 1e5, Places(1, 1), 32)
    many = model.predict(1e9, 1e5, Places(10, 4, network), 32)
    tasks = COLUMNS[0] * model.tasks * 32
    assert many["driver"] == alone["driver"]
    assert many["columns"] == pytest.approx((tasks + (alone["columns"] - tasks) / 4) / 10)
    trips = model.calls * (1e-3 + 10 * 1e-4)
    assert many["network"] == pytest.approx(trips + many["bytes"] / 1e9)


def test_the_network_is_what_its_round_trips_follow():
    trips = [(places, 2e-3 + 3e-4 * places, 1e9 + places) for places in (1, 2, 4)]
    assert network_of(trips) == pytest.approx(Network(2e-3, 3e-4, 1e9 + 1))
    # a slope that noise makes negative is none
    assert network_of([(1, 2e-3, 1.0), (4, 1e-3, 1.0)]).each == 0.0


def test_what_is_watched_is_what_happens():
    places = Metered(InProcess(4, "float64"))
    program = SpreadProgram(places)
    program.add_resource("a", upper=30.0)
    rng = np.random.default_rng(0)
    for k in range(60):
        program.add_request(k, -rng.random(50), {"a": (list(range(50)), rng.random(50))}, total=1)
    looked = []
    inner = ProximalPoint(callback=lambda iterations, proof: looked.append(iterations))
    solver = Watched(inner)
    places.begin()
    solution = solver.solve(program)
    seen = solver.observed(program, 10.0, places)
    assert solution.status == "optimal"
    assert (seen.passes, seen.steps) == (len(looked), solution.iterations)
    assert (seen.columns, seen.requests, seen.rows) == (3000, 60, program.n_rows)
    assert seen.nbytes > 8 * 2 * 3000  # costs and coefficients went out
    assert seen.calls > seen.passes
    assert seen.seconds == pytest.approx(10.0)
    assert seen.far > 0.0 and seen.driver + seen.far == pytest.approx(seen.seconds)
    places.begin()
    solver.solve(program)
    assert solver.observed(program, 10.0, places).nbytes < seen.nbytes


def test_a_round_trip_has_a_duration_and_a_bandwidth(monkeypatch):
    """By a clock that stands still but for what is sent: 3 ms a trip, and 1 ns a byte."""
    from copter.bench import round_watch

    store, now = SpreadProgram(InProcess(2, "float64")).store, [0.0]

    def each(task, *common, own=None):
        now[0] += 3e-3 + 2e-9 * sum(content.nbytes for (content,) in own or ())

    monkeypatch.setattr(store, "each", each)
    monkeypatch.setattr(round_watch, "perf_counter", lambda: now[0])
    assert round_trip(store) == pytest.approx((3e-3, 1e9))


def test_the_command_writes_what_it_measured():
    line = ["bench", "model", "--fit", "64x12,128x20", "--check", "96x16", "--rounds", "3"]
    line += ["--topology", "gabriel/50/0", "--demands", "100,300/200"]
    result = CliRunner().invoke(app, [*line, "--actors", "0", "--json", "-"])
    assert result.exit_code == 0, result.output
    document = json.loads(result.stdout)
    (checked,) = document["checks"]["here"]
    assert checked["requests"] == 16
    assert checked["ratio"] == pytest.approx(checked["predicted"]["round"] / checked["measured"])
    (traffic,) = document["checks"]["traffic"]
    assert (traffic["requests"], traffic["rounds"]) == (200, 1)
    assert document["predictions"] == []
    assert document["network"] is None


@pytest.mark.parametrize(
    "option", [["--fit", "1024"], ["--fit", "64x12"], ["--check", "0x5"], ["--demands", "many"]]
)
def test_a_size_that_is_none_is_named(option):
    result = CliRunner().invoke(app, ["bench", "model", *option])
    assert result.exit_code == 2
    assert option[0] in result.output
