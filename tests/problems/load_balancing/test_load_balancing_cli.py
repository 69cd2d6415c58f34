"""Load balancing from loads in a file to run folder and benchmark document."""

import pickle

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from copter.bench.settings import SolverSettings
from copter.errors import InputError
from copter.problems.load_balancing import LoadTable, read_loads, write_loads, zipf_loads
from copter.problems.load_balancing.course import BURN_IN, Balancing
from copter.problems.load_balancing.scenario import ShardScenario
from support.amounts import examples
from support.measuring import measure


@pytest.fixture(autouse=True)
def small_warm_up(monkeypatch):
    monkeypatch.setattr(
        "copter.problems.load_balancing.course._WARM_UP", {"shards": 16, "servers": 4, "rounds": 2}
    )


def test_zipf_loads_are_those_of_the_authors():
    for mode in ("stateless", "stateful"):
        rounds = np.array(list(zipf_loads(100, 200, mode, seed=1)))
        assert (rounds[:, 0] == 1e6).all() and (np.diff(rounds, axis=1) <= 0).all()
        z = -np.log(rounds[:, 99] / 1e6) / np.log(100)
        assert z.min() >= 0.25 - 1e-4 and z.max() <= 0.75 + 1e-4
        step = z[1:] / z[:-1]
        inside = (z[1:] > 0.26) & (z[1:] < 0.74)
        steady = np.isclose(step, 1.1, atol=1e-3) | np.isclose(step, 0.9, atol=1e-3)
        assert steady[inside].all() == (mode == "stateful")


@given(st.integers(1, 4), st.integers(1, 5), st.data())
@settings(max_examples=examples(30), deadline=None)
def test_loads_come_back_from_their_file(tmp_path_factory, rounds, shards, data):
    load = st.floats(0, 1e12, allow_nan=False)
    values = data.draw(st.lists(load, min_size=rounds * shards, max_size=rounds * shards))
    names = tuple(f'shard "{k}", hot' for k in range(shards))
    table = LoadTable(names, np.array(values).reshape(rounds, shards))
    path = tmp_path_factory.mktemp("loads") / "loads.csv"
    write_loads(path, table)
    back = read_loads(path)
    assert back.shards == names and (back.loads == table.loads).all()


def test_a_shard_keeps_its_load_and_has_none_before_its_first(tmp_path):
    path = tmp_path / "loads.csv"
    path.write_text("round,shard,load\n7,a,5\n3,b,1\n\n3,a,2\n9,c,4\n")
    table = read_loads(path)
    assert table.shards == ("a", "b", "c")
    assert table.loads.tolist() == [[2, 1, 0], [5, 1, 0], [5, 1, 4]]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "line 1, round: must be a column"),
        ("round,shard,load\n", "must have at least one load"),
        ("round,shard,load\n0,a,1,2\n", "line 2, load: must be last"),
        ("round,shard,load\n0.5,a,1\n", "line 2, round: '0.5': must be an integer"),
        ("round,shard,load\n0,a,-1\n", "line 2, load: -1: must be finite"),
        ("round,shard,load\n0,a,1\n0,a,2\n", "line 3, shard: 'a': must have only one load in round 0"),
    ],
)
def test_a_bad_file_is_refused_with_its_line(tmp_path, text, words):
    path = tmp_path / "loads.csv"
    path.write_text(text)
    with pytest.raises(InputError, match=words):
        read_loads(path)


@pytest.mark.parametrize("name", ["copter", "highs-hot", "heuristic", "pop-2", "highs-milp"])
def test_each_solver_drives_a_balancer_of_its_own(name):
    course = pickle.loads(pickle.dumps(Balancing(ShardScenario(24, 4, 3))))
    measured = measure(course, SolverSettings(name, tolerance=1e-4, mip_gap=0.01))
    assert [record["round"] for record in measured.records] == [0, 1, 2]
    for record in measured.records:
        assert record["solver"] == name
        assert record["seconds"] == pytest.approx(
            record["edit_seconds"] + record["solve_seconds"] + record["rounding_seconds"]
        )
        assert record["movements"] == record["answer_objective"] and record["memory"] <= 1
        assert record["balanced"] == (record["imbalance"] <= 0.1 + 1e-9)
        if name not in ("heuristic", "pop-2"):
            assert record["status"] == "optimal" and record["balanced"]
            assert record["answer_gap"] >= -1e-9
    assert (Balancing(ShardScenario(24, 4, 3)).left_out, Balancing(ShardScenario(24, 4, 99)).left_out) == (
        1,
        BURN_IN,
    )
