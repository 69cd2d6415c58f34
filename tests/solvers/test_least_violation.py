"""Working sets that cannot meet the rows: the least violation ends, and missing columns come in."""

import numpy as np
import pytest

from copter.problems.load_balancing.scenario import ShardScenario
from copter.program.program import ContinualProgram
from copter.solvers.inner.descent import CoordinateDescent
from copter.solvers.inner.gather import gather
from copter.solvers.inner.newton import SemismoothNewton
from copter.solvers.inner.sampling import Sampler
from copter.solvers.proximal import starting_prices
from copter.solvers.proximal.solver import ProximalPoint
from copter.solvers.proximal.tuning import ProximalTuning, SampleTuning, ScreeningTuning
from support.lp_cases import by_scipy


def unreachable(seed=0, blocks=20, rows=6):
    """Program whose rows ask for more than all its columns can give, as a working set, and its matrix."""
    rng = np.random.default_rng(seed)
    program = ContinualProgram()
    for row in range(rows):
        program.add_resource(row, float(2 * blocks), lower=float(blocks + row))
    usage = {row: (list(range(rows)), rng.uniform(0, 1, rows).tolist()) for row in range(rows)}
    for block in range(blocks):
        program.add_request(block, costs=np.ones(rows), usage=usage, total=1.0, relation="==")
    slot, column = np.repeat(np.arange(blocks), rows), np.tile(np.arange(rows), blocks)
    return gather(program.store, slot, column)


def dense(working):
    columns = np.repeat(np.arange(working.column.size), np.diff(working.pointer))
    matrix = np.zeros((working.row_scale.size, working.column.size))
    matrix[working.row, columns] = working.value
    return matrix


@pytest.mark.parametrize("kind", [SemismoothNewton, CoordinateDescent])
@pytest.mark.parametrize("seed", [0, 1])
def test_the_least_violation_is_a_ray_and_ends_at_its_limit(kind, seed):
    working = unreachable(seed)
    solver = kind(working, lambda: False)
    found = solver.least_violation(np.zeros(working.column.size), 1000)
    assert 0 < found.iterations < 1000
    # what the rows ask for at these prices is more than any allocation gives
    matrix, y = dense(working), found.y
    most = sum(
        (-(matrix.T @ y)[a:b]).max() for a, b in zip(working.first[:-1], working.first[1:], strict=True)
    )
    asked = -np.where(y > 0, working.upper_row, working.lower_row) @ y
    assert asked > most + 1e-6 * np.linalg.norm(y)
    assert kind(working, lambda: False).least_violation(np.zeros(working.column.size), 2).iterations <= 2
    assert kind(working, lambda: True).least_violation(np.zeros(working.column.size), 1000).iterations <= 1


def balanced(shards, servers):
    scenario = ShardScenario(shards, servers, 1, seed=11)
    balancer = scenario.balancer()
    balancer.set_loads(next(scenario.loads()))
    balancer.prepare()
    return balancer.program


def count_samples(monkeypatch):
    """How many requests each sample wants, as they are drawn."""
    drawn = []

    def sampler(size, wanted):
        drawn.append(wanted)
        return Sampler(size, wanted)

    monkeypatch.setattr(starting_prices, "Sampler", sampler)
    return drawn


def sampled(columns):
    """Samples of so many columns, in programs of more than a thousand."""
    return ProximalTuning(
        screening=ScreeningTuning(screen_from=1_000), sample=SampleTuning(columns=columns, columns_a_row=0)
    )


def test_prices_of_too_small_a_sample_do_not_keep_columns_out(monkeypatch):
    """Loads with a heavy tail on many rows: columns chosen at a sample's prices cannot meet the rows."""
    drawn = count_samples(monkeypatch)
    program = balanced(512, 64)
    expected = by_scipy(program).fun
    # a sample of fewer requests than rows is not taken; one of hardly more is, and that ends well too
    for columns, samples in ((39 * 64, []), (65 * 64, [65])):
        solver = ProximalPoint(tolerance=1e-4, iteration_limit=2_000, tuning=sampled(columns))
        solution = solver.solve(program)
        assert drawn == samples
        assert solution.status == "optimal"
        assert solution.objective == pytest.approx(expected, rel=2e-3)


def test_a_deadline_holds_while_rows_cannot_be_met(monkeypatch):
    drawn = count_samples(monkeypatch)
    program = balanced(512, 64)
    for settings, status in (({"time_limit": 0.0}, "deadline"), ({"iteration_limit": 3}, "iteration_limit")):
        solution = ProximalPoint(tolerance=1e-9, tuning=sampled(65 * 64), **settings).solve(program)
        assert solution.status == status
        assert np.isfinite(solution.primal_residual) == solution.found
    assert drawn == [65, 65]
