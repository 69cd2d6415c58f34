"""Cold starts of large programs: a sample says which rows matter; the nearest move on those, or all."""

from dataclasses import replace

import numpy as np
import pytest
from scipy.sparse import csc_array

from copter import ContinualProgram, ProximalPoint, make_solver
from copter.clock import Clock
from copter.solvers.proximal import partial
from copter.solvers.proximal.starting_prices import sampled_prices
from copter.solvers.proximal.state import Budget
from copter.solvers.proximal.tuning import PartialTuning, ProximalTuning, SampleTuning
from copter.store.allocation import NOTHING

REQUESTS, ROWS, SCARCE = 3_000, 80, 12
EARLY = ProximalTuning(
    partial=PartialTuning(requests_from=0), sample=SampleTuning(columns=1_500, columns_a_row=0)
)
"""What large programs are solved by, for a small one."""


def network(seed: int, unit: float = 1.0, decided: float = 0.0) -> ContinualProgram:
    """Demands over paths of a few links each, a few of which are scarce; in any unit of flow.

    A share of all capacity is taken by demands with one path that must be met.
    """
    rng, program = np.random.default_rng(seed), ContinualProgram()
    sizes = rng.integers(1, 5, REQUESTS)
    scarce = np.arange(ROWS) < SCARCE
    uses = rng.random((ROWS, int(sizes.sum()))) < np.where(scarce, 0.2, 0.05)[:, None]
    uses[rng.integers(0, ROWS, uses.shape[1]), np.arange(uses.shape[1])] = True
    totals = unit * rng.lognormal(0.0, 0.5, REQUESTS)
    reach = uses @ np.repeat(totals / sizes, sizes)
    for row in range(ROWS):
        upper = reach[row] * (0.35 if scarce[row] else 3.0)
        program.add_resource(row, upper / (1.0 - decided))
        if decided:
            used = decided * upper / (1.0 - decided)
            program.add_request(("met", row), [0.0], {row: 1.0}, total=used, relation="==")
    costs = -rng.uniform(0.5, 1.0, int(sizes.sum()))
    program.add_requests(range(REQUESTS), costs, sizes, csc_array(uses * 1.0), totals=totals, relation="<=")
    return program


@pytest.fixture
def sets(monkeypatch):
    """Columns and rows that the partial steps of a solve look at, step by step: (slots, rows)."""
    sets, gather = [], partial.gather

    def watched(store, slot, column, held, **settings):
        sets.append((slot, held.rows.copy()))
        return gather(store, slot, column, held, **settings)

    monkeypatch.setattr(partial, "gather", watched)
    return sets


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize(
    ("worthless", "moving"),
    [(0.03, PartialTuning().share), (0.0, 1.0)],
    ids=["prices are known", "prices are worth little"],
)
def test_the_nearest_or_all_move_and_far_rows_are_left_out(seed, worthless, moving, sets):
    program = network(seed)
    tuning = replace(EARLY, partial=replace(EARLY.partial, worthless=worthless))
    solution = ProximalPoint(tolerance=1e-5, tuning=tuning).solve(program)
    best = make_solver("highs-simplex").solve(program)
    assert solution.is_optimal(1e-5)
    assert solution.objective == pytest.approx(best.objective, rel=3e-5)
    slot, rows = sets[0]
    movers = np.unique(slot)
    assert abs(movers.size - moving * REQUESTS) <= 1
    assert slot.size == program.store.requests.n_columns[movers].sum()  # with all their columns
    assert SCARCE - 3 <= rows.sum() <= 2 * SCARCE  # of 80


@pytest.mark.parametrize("unit", [2.0**-13, 1.0, 2.0**17])  # which round nothing
def test_a_cold_start_does_not_depend_on_the_unit(unit):
    plain, scaled = (
        ProximalPoint(tolerance=1e-4, tuning=EARLY).solve(network(3, each)) for each in (1.0, unit)
    )
    assert abs(scaled.iterations - plain.iterations) <= 2  # rounding may ask for one projection more
    assert scaled.objective / unit == pytest.approx(plain.objective, rel=1e-9)


@pytest.mark.parametrize("decided", [0.0, 0.5])
def test_a_sample_knows_what_flows_through_scarce_rows(decided):
    program = network(4, decided=decided)
    budget = Budget(1e-4, Clock(), 2_000, 1, EARLY.most_piece)
    sampled = sampled_prices(program, NOTHING, "newton", budget, EARLY)
    priced = sampled.y > 0.05
    assert 3 <= priced.sum() <= SCARCE
    upper = program.store.rows.upper[:ROWS]
    np.testing.assert_allclose(sampled.flow[priced], upper[priced], rtol=0.01)
    assert (sampled.flow <= 1.01 * upper).all()
