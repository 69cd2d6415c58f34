"""Figures of the papers that rest on courses: what is made of the records, with rounds that are made up."""

import pytest

from copter import make_solver
from copter.bench.reproduction import Effort, reproductions
from copter.bench.result_files import SolverResult
from copter.problems.load_balancing import reproductions as shards
from copter.problems.load_balancing.course import BURN_IN
from copter.problems.traffic import TrafficEngineering
from copter.problems.traffic import reproductions as traffic
from copter.problems.traffic.course import make_instance
from copter.problems.traffic.matrices import make_matrix
from copter.problems.traffic.topology import load_topology


def figures(name, **effort):
    measured = reproductions()[name].measure(Effort(seeds=2, **effort))
    return {(one.row, one.column): one for one in measured}


def replaced(monkeypatch, module, rounds):
    """Let a module's courses come to `rounds(solver)`, a list of records."""
    monkeypatch.setattr(
        module,
        "measure",
        lambda course, settings, **more: SolverResult(settings.name, records=rounds(settings.name)),
    )


def test_shards_leave_out_the_first_rounds_and_compare_seed_by_seed(monkeypatch):
    speed = {"copter": 1.0, "highs-simplex": 3.0, "heuristic": 0.5, "pop-8": 2.0}

    def rounds(solver):
        later = {"seconds": speed[solver], "movements": 4, "imbalance": 0.05}
        return [{"seconds": 1e3, "movements": 1e3, "imbalance": 9.0}] * BURN_IN + [later, later]

    replaced(monkeypatch, shards, rounds)
    found = figures("thesis-figure-5.2")
    ratio = found["stateless", "COpter faster than LP-Relaxed"]
    assert (ratio.ours, ratio.std, ratio.unit) == (3.0, 0.0, "x")
    assert found["stateful, POP-8", "time a round"].ours == 2.0
    assert found["stateful, Heuristic", "imbalance"].ours == pytest.approx(5.0)
    assert found["stateful, Heuristic", "movements a round"].ours == 4.0


def test_links_carry_the_share_of_the_volume_that_they_should():
    topology = load_topology("gabriel/50/0", capacity=1000.0)
    instance = make_instance(topology, make_matrix("bimodal", topology, seed=1), demands=300, seed=1)
    for carried in (0.5, 0.9):
        fitted = traffic.busy(instance, carried)
        assert len(set(fitted.topology.capacity)) == 1
        model = TrafficEngineering(fitted.topology, fitted.paths, "max-flow")
        model.set_volumes(fitted.volumes[0])
        flow = model.play(make_solver("highs-simplex")).flows.extras["total_flow"]
        assert flow / fitted.volumes[0].sum() == pytest.approx(carried, abs=0.02)


def test_flows_are_over_the_best_bound_of_all_and_a_late_program_has_no_time_a_round(monkeypatch):
    flow = {"highs-hot": 100.0, "copter": 99.95, "lp-top": 88.0}

    def rounds(solver):
        late = solver == "highs-hot"
        one = {
            "seconds": 401.0 if late else 2.0,
            "answer_objective": -flow.get(solver, 99.0),
            "bound": -100.0,
        }
        return [one | {"round": k} for k in range(1 if late else 4)]

    replaced(monkeypatch, traffic, rounds)
    found = figures("thesis-figure-5.6", quick=True)
    row = "generated, 50 nodes: "
    shares = {"COpter": 99.95, "LP-Top": 88.0, "POP-16": 99.0}
    assert {name: found[row + name, "flow over the optimum"].ours for name in shares} == pytest.approx(shares)
    assert found[row + "LP-All", "time without an answer"].ours == 401.0
    assert (row + "LP-All", "time a round") not in found
    assert found[row + "COpter", "time a round"].ours == 2.0
