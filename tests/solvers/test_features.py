"""Solvers are asked what they can do, wrapped ones too; what they cannot do is refused before any work."""

import numpy as np
import pytest

from copter import ContinualProgram, LogTerm, Status, make_solver
from copter.errors import CopterError, UnsupportedError
from copter.problems.load_balancing.scenario import ShardScenario
from copter.solvers.api import SOLVERS, Feature
from copter.solvers.base import Solver, takes_start
from copter.solvers.wrapper import Wrapper

WARM = ("copter", "copter-cd", "copter-newton", "copter-exact", "highs-hot", "pdlp")


def small(**options):
    program = ContinualProgram()
    program.add_resource("gpu", upper=8.0)
    program.add_request("job", [-1.0, -1.8, -2.5], {"gpu": [1, 2, 10]}, total=1, **options)
    return program


@pytest.mark.parametrize("name", SOLVERS)
def test_features_say_what_a_solver_does_with_terms_and_whole_numbers(name):
    solver = make_solver(name)
    whole = solver.solve(small(integral=True))
    assert whole.status is Status.OPTIMAL
    integral = bool((whole.x["job"] == np.rint(whole.x["job"])).all())
    assert integral == (Feature.INTEGRALITY in solver.features)
    curved = small()
    curved.update_request("job", term=LogTerm(1.0, image=[1.0, 2.0, 3.0]))
    if Feature.CONVEX_TERMS in solver.features:
        assert solver.solve(curved).status is Status.OPTIMAL
        return
    with pytest.raises(UnsupportedError, match=f"'{name}'.*'job' has a convex term.*'copter'"):
        solver.solve(curved)


@pytest.mark.parametrize("name", SOLVERS)
def test_features_say_what_a_solver_keeps(name):
    solver, program = make_solver(name), small()
    assert solver.solve(program).cold_start is not None
    again = solver.solve(program)
    assert again.warm_started == (name in WARM) == (again.cold_start is None)
    assert (name in WARM) <= (Feature.WARM_START in solver.features)
    assert takes_start(solver) == hasattr(solver, "start_from")
    if Feature.SAVED_STATE in solver.features:
        solver.load_state(program, solver.save_state(program))
        return
    with pytest.raises(CopterError, match="cannot be written"):
        solver.save_state(program)


class Counting(Wrapper):
    """Somebody's wrapper around a solver."""

    def __init__(self, inner):
        super().__init__(inner)
        self.offered = 0

    def start_from(self, program, x, y):
        self.offered += 1
        super().start_from(program, x, y)


@pytest.mark.parametrize(("name", "offered"), [("copter", 3), ("highs-hot", 0)])
def test_a_wrapped_solver_is_offered_a_start_as_the_one_inside_is(name, offered):
    scenario = ShardScenario(shards=40, servers=5, rounds=3)
    bare, wrapped = make_solver(name), Counting(make_solver(name))
    assert wrapped.features == bare.features and wrapped.kind == bare.kind
    balancers = scenario.balancer(), scenario.balancer()
    for loads in scenario.loads():
        placements = []
        for balancer, solver in zip(balancers, (bare, wrapped), strict=True):
            balancer.set_loads(loads)
            placements.append(balancer.play(solver).placement)
        assert (placements[0].share == placements[1].share).all()
    assert abs(wrapped.offered - offered) <= 1  # in a first round there may be nothing to offer
    if not offered:
        with pytest.raises(UnsupportedError, match="does not accept a starting point"):
            wrapped.start_from(balancers[1].program, None, None)


def test_a_wrapper_passes_everything_on():
    program, solver = small(), Counting(make_solver("copter", tolerance=1e-5))
    assert not solver.solve(program).warm_started and solver.solve(program).warm_started
    state = solver.save_state(program)
    solver.reset()
    assert solver.start(program) is None
    solver.load_state(program, state)
    assert solver.start(program) is not None and solver.stopping() == {"tolerance": 1e-5}
    assert solver.seconds(solver.solve(program), 1.0) == (0.0, 1.0)
    solver.cancel()  # nothing is under way
    assert repr(solver) == "Counting(ProximalPoint('copter', tolerance=1e-05, engine='fastest'))"
    public = {name for name, value in vars(Solver).items() if not name.startswith("_")}
    assert public <= set(vars(Wrapper)), "a wrapper that hides a method of the one inside"
