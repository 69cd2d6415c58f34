"""Rebalancer on shards: its problem, answers and records, with a stand-in for its package or the real one."""

import importlib.util
import os
import sys
from pathlib import Path

import numpy as np
import pytest

from copter.bench.settings import SolverSettings
from copter.errors import SolverError
from copter.problems.load_balancing import LoadBalancingError
from copter.problems.load_balancing.course import Balancing
from copter.problems.load_balancing.rebalancer import Rebalancer, request
from copter.problems.load_balancing.scenario import ShardScenario
from copter.problems.load_balancing.shim import ShardFleet, ShardPlacement
from support.measuring import measure

STAND_IN = '''
"""The part of Rebalancer's interface that the worker uses; it moves one shard, or all if told."""

import os

class ProblemSolver:
    def __init__(self, service, scope):
        self.calls, self.dimensions = [], {}

    def __getattr__(self, name):
        return lambda *given, **named: self.calls.append((name, given, named))

    def set_assignment(self, assignment):
        self.assignment = {server: list(shards) for server, shards in assignment.items()}

    def add_object_dimension(self, name, values):
        self.dimensions[name] = dict(values)

    def solve(self):
        ProblemSolver.last = self
        loads = self.dimensions["load"]
        on = {server: sum(loads[k] for k in shards) for server, shards in self.assignment.items()}
        answer = {k: server for server, shards in self.assignment.items() for k in shards}
        most, least = max(on, key=on.get), min(on, key=on.get)
        if os.environ.get("ALL_TO_ONE"):
            answer = dict.fromkeys(answer, least)
        elif self.assignment[most]:
            answer[self.assignment[most][0]] = least
        reports = [{"endReason": 9, "evalStats": {"numEvals": 7}}, {"endReason": 2}]
        profile = {"materializationSec": 0.0}
        return {"assignment": answer, "solverSummaries": reports, "problemProfile": profile}
'''
FLEET = ShardFleet(np.array([6.0, 2.0, 1.0, 1.0]), np.ones(4), np.array([3.0, 4.0]), 0.05)
LAST = ShardPlacement(
    np.array([0, 1, 1, 2, 3]), np.array([0, 0, 1, 0, 1]), np.array([1.0, 0.3, 0.7, 1.0, 1.0])
)


def environments(python=sys.executable):
    return {"rebalancer": Path(python)}


@pytest.fixture
def stand_in(tmp_path, monkeypatch):
    """The stand-in as the package rebalancer, of this interpreter and of those that it starts."""
    (tmp_path / "rebalancer.py").write_text(STAND_IN)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    monkeypatch.syspath_prepend(str(tmp_path))
    yield
    sys.modules.pop("rebalancer", None)


@pytest.fixture
def worker(stand_in, monkeypatch):
    """The worker in this process, with the shards of FLEET."""
    monkeypatch.setattr(os, "sched_setaffinity", lambda process, processors: None)
    from copter.problems.load_balancing import rebalancer

    path = Path(rebalancer.__file__).with_name("rebalancer_worker.py")
    spec = importlib.util.spec_from_file_location("rebalancer_worker", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    made = module.Worker("swaps")
    made.load(FLEET.sizes, FLEET.memory, np.array([0, 1, 0, 1]), FLEET.loads.copy())
    return made


def ask(worker, fleet, before=FLEET, seconds=None):
    """Answer of a round, and the problem that the stand-in got."""
    found = worker.balance(**request(before.loads, fleet, seconds))
    return found, worker.rebalancer.ProblemSolver.last


def limits(problem):
    goals = [
        given[0]["capacitySpec"]
        for name, given, _ in problem.calls
        if name == "add_goal" and "capacitySpec" in given[0]
    ]
    return {one["name"]: (one["limit"]["globalLimit"], one.get("bound")) for one in goals}


def test_the_problem_has_the_shards_the_memory_and_the_band(worker):
    found, problem = ask(worker, FLEET)
    assert problem.assignment == {"server 0": ["shard 0", "shard 2"], "server 1": ["shard 1", "shard 3"]}
    assert list(problem.dimensions["load"].values()) == [1.2, 0.4, 0.2, 0.2]
    assert set(problem.dimensions["size"].values()) == {1.0}
    calls = {name: given for name, given, _ in problem.calls}
    assert calls["add_container_dimension"] == ("size", {"server 0": 3.0, "server 1": 4.0})
    assert calls["add_constraint"] == (
        {"capacitySpec": {"name": "memory", "scope": "server", "dimension": "size"}},
    )
    lower, upper = FLEET.band
    assert limits(problem) == {"above": (upper, None), "below": (lower, 2)}
    order = [named["tuple_pos"] for name, _, named in problem.calls if name == "add_goal"]
    assert order == [0, 0, 1]
    assert found["server"].tolist() == [1, 1, 0, 1] and found["moves_evaluated"] == 7 and found["cut"]


@pytest.mark.parametrize("name", ["rebalancer", "rebalancer-swap"])
def test_a_record_says_what_was_moved_and_whether_the_loads_are_in_the_band(stand_in, name):
    settings = SolverSettings(name, 1e-2, 5.0, environments=environments())
    measured = measure(Balancing(ShardScenario(24, 4, 3)), settings)
    assert [record["round"] for record in measured.records] == [0, 1, 2]
    for record in measured.records:
        assert record["movements"] == record["answer_objective"] == 1
        assert not record["in_band"] and not record["missed"] and record["status"] == "complete"
        assert record["imbalance"] > 0.1 and record["iterations"] == 7 and record["cut"]
        assert record["seconds"] == record["edit_seconds"] + record["solve_seconds"]


def test_an_answer_above_the_memory_is_refused(stand_in, monkeypatch):
    monkeypatch.setenv("ALL_TO_ONE", "1")
    with pytest.raises(LoadBalancingError, match="memory used"):
        measure(Balancing(ShardScenario(24, 4, 3)), SolverSettings("rebalancer", environments=environments()))


def test_an_environment_without_the_package_is_told():
    with pytest.raises(SolverError, match="Rebalancer: ModuleNotFoundError: No module named 'rebalancer'"):
        Rebalancer(Path(sys.executable), FLEET, LAST, swaps=False)


@pytest.mark.long
@pytest.mark.parametrize("name", ["rebalancer", "rebalancer-swap"])
def test_rebalancer_balances_whole_shards(name):
    python = os.environ.get("COPTER_REBALANCER_PYTHON")
    if python is None:
        pytest.skip("COPTER_REBALANCER_PYTHON names no Python with rebalancer: see docs/how-to/suite.md")
    scenario = ShardScenario(64, 8, 4, distribution="lognormal", changed=1)
    records = measure(
        Balancing(scenario), SolverSettings(name, 1e-2, 20.0, environments=environments(python))
    ).records
    assert len(records) == 4 and records[0]["movements"] > 0
    assert all(record["memory"] <= 1.0 + 1e-9 and record["solve_seconds"] > 0.0 for record in records)
    assert all(record["imbalance"] < 0.5 for record in records)
    if name == "rebalancer-swap":
        assert all(record["in_band"] for record in records)
