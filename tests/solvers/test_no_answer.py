"""An answer that does not exist is None and NaN, is never rounded, and a round without one is missed."""

import math
from dataclasses import replace

import numpy as np
import pytest

from copter.bench.recording import Recorded, Recorder
from copter.bench.settings import SolverSettings
from copter.errors import NoAllocationError
from copter.problems.cluster import Simulator
from copter.problems.cluster.nodes import NodeChange
from copter.problems.load_balancing import LoadBalancer
from copter.problems.sia import Sia
from copter.problems.sia.generator import generate
from copter.program.program import ContinualProgram
from copter.shims.choose_one import ChooseOneShim
from copter.shims.flow import FlowShim
from copter.solution import Status
from copter.solvers.base import Solver
from copter.solvers.baselines.highs import HighsRebuild
from copter.solvers.registry import make_solver

ALL = ["copter", "highs-hot", "highs-simplex", "highs-ipm", "highs-pdlp", "highs-milp"]
ALL += ["glop", "pdlp"]


def crowded(requests=200, columns=20, rows=20, *, exactly=True):
    """Every request chooses one column; capacities that bind."""
    rng = np.random.default_rng(0)
    program = ContinualProgram()
    for row in range(rows):
        program.add_resource(row, 0.85 * requests)
    for q in range(requests):
        usage = {row: rng.integers(0, 3, columns).astype(float) for row in range(rows)}
        program.add_request(
            q, rng.uniform(1, 2, columns), usage, total=1.0, relation="==" if exactly else "<="
        )
    return program


def is_no_answer(solution):
    assert not solution.found and not solution.x and not solution.nonzeros.slot.size
    figures = solution.objective, solution.primal_residual, solution.absolute.primal, solution.churn
    assert all(map(math.isnan, figures)), figures
    assert solution.gap == math.inf and not solution.is_optimal(1.0)


@pytest.mark.parametrize("name", ALL)
def test_without_time_there_is_an_allocation_with_its_residuals_or_none(name):
    program = crowded()
    solution = make_solver(name).solve(program, time_limit=0.0)
    assert solution.status is Status.DEADLINE
    if not solution.found:
        is_no_answer(solution)
    else:
        used = sum(solution.x[q].sum() for q in program.request_ids)
        assert used > 0 and math.isfinite(solution.objective) and solution.primal_residual >= 0


def test_zeros_are_an_answer_where_they_are_feasible():
    solution = make_solver("copter").solve(crowded(exactly=False), time_limit=0.0)
    assert solution.found and solution.primal_residual == 0.0


@pytest.mark.parametrize("shim", [ChooseOneShim(), FlowShim()])
def test_shims_refuse_it(shim):
    program = crowded()
    solution = make_solver("glop").solve(program, time_limit=0.0)
    with pytest.raises(NoAllocationError, match="deadline: ") as raised:
        shim.round(program, solution)
    assert raised.value.status == "deadline"


class Late(Solver):
    """Answers in time in some rounds only."""

    def __init__(self, answered):
        super().__init__("late")
        self.answered, self.rounds, self.inner = answered, 0, make_solver("highs-simplex")

    def solve(self, program, *, time_limit=None):
        self.rounds += 1
        if self.rounds - 1 in self.answered:
            return self.inner.solve(program)
        return make_solver("glop").solve(program, time_limit=0.0)


def test_a_recorded_round_without_an_answer_is_missed(tmp_path):
    path = tmp_path / "rounds"
    with Recorder(path) as program:
        program.add_resource("r", 2.0)
        program.add_request("a", [-1.0], {"r": 1.0}, total=1.0)
        program.end_round()
    course = Recorded(path, path, "copter.shims.choose_one:ChooseOneShim")
    answered, missed = (
        next(course.play(SolverSettings("glop", time_limit=limit)).records) for limit in (None, 0.0)
    )
    assert not answered["missed"] and answered["answer_objective"] == -1.0
    assert missed["missed"] and missed["status"] == "deadline"
    assert math.isnan(missed["objective"]) and math.isnan(missed["answer_objective"])


def test_jobs_keep_their_gpus_in_a_missed_round():
    scenario = generate(gpus=64, jobs_per_day=960, hours=1.0, seed=1)
    type = scenario.cluster.configurations.types[0]
    nodes = NodeChange(180.0, type, 0)
    sia = Sia(solver=Late({0, 1, 2, 6}))
    rounds = list(Simulator(scenario, sia, max_hours=0.15, events=[nodes]).run())
    missed = [one.figures["missed"] for one in rounds[:7]]
    assert missed == [False, False, False, True, True, True, False]
    for before, one in zip(rounds[2:5], rounds[3:6], strict=True):
        assert one.starts + one.restarts == 0 and math.isnan(one.figures["answer_gap"])
        assert one.running <= before.running  # nobody starts, and none of the type that went away runs on
        assert one.gpus[type] == 0
    assert rounds[5].running > 0


def test_the_last_jobs_give_way_where_nodes_went_away():
    scenario = generate(gpus=64, jobs_per_day=9600, hours=1.0, seed=2)
    nodes = [NodeChange(360.0, type, 1) for type in scenario.cluster.configurations.types]
    simulator = Simulator(scenario, Sia(solver=Late(range(5))), max_hours=0.11, events=nodes)
    *_, before, last = simulator.run()  # raises PolicyError if more were given than there are
    assert (
        last.time == 360.0 and last.figures["missed"] and 0 < last.running < before.running - before.completed
    )


def test_a_balancer_without_an_answer_keeps_its_placement():
    balancer = LoadBalancer.__new__(LoadBalancer)
    solution = make_solver("glop").solve(crowded(), time_limit=0.0)
    with pytest.raises(NoAllocationError):
        balancer.round(solution)


class Sloppy(HighsRebuild):
    """Says optimal of an answer that is not."""

    def _run(self, clock, reserve, tighter):
        outcome = super()._run(clock, reserve, tighter)
        return replace(outcome, x=0.99 * outcome.x)


def test_an_optimum_that_its_certificate_denies_is_none():
    solution = Sloppy("sloppy").solve(crowded())
    assert solution.status is Status.UNPROVED and solution.found
    assert "Optimal" in solution.reason and "off by primal 1.0e-02" in solution.reason


@pytest.mark.long
def test_pdlp_is_asked_again_until_every_row_is_met_in_its_own_scale():
    program = crowded()
    program.add_resource("small", 1.0)
    for q in range(0, 200, 5):
        program.add_request((q, "small"), [-1.0], {"small": 1.0}, total=1.0)
    solution = make_solver("pdlp", tolerance=1e-5).solve(program)
    assert solution.status is Status.OPTIMAL and solution.is_optimal(1e-5), solution.reason
    solution = make_solver("highs-pdlp", tolerance=1e-5).solve(
        program
    )  # whose least tolerance may be too large
    assert (
        solution.is_optimal(1e-5) == (solution.status is Status.OPTIMAL) == ("off by" not in solution.reason)
    )
