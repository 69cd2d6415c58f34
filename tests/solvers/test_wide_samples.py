"""Samples of requests that have many columns, or no choice: what their prices are worth."""

from __future__ import annotations

import numpy as np
import pytest

from copter import ContinualProgram, ProximalPoint
from copter.clock import Clock
from copter.proof.certificate import certify
from copter.solvers.proximal.starting_prices import Sampled, sampled_prices
from copter.solvers.proximal.state import Budget
from copter.solvers.proximal.tuning import ProximalTuning, SampleTuning
from copter.store.allocation import NOTHING

REQUESTS, TYPES, SIZES = 4_200, 3, (1.0, 2.0, 4.0, 8.0, 16.0)


def cluster(pinned: int = 0, *, add: bool = True) -> ContinualProgram:
    """Jobs that choose a type and a size, or nothing at cost 0; some may hold what they have in any case.

    ``add`` says whether the pinned ones are there, or only what they use is gone.
    """
    rng = np.random.default_rng(3)
    program = ContinualProgram()
    usage, gpus = {}, np.array(SIZES)
    for k in range(TYPES):
        program.add_resource(k, upper=REQUESTS - (0 if add or k else 16.0 * pinned))
        usage[k] = (np.arange(1 + k * gpus.size, 1 + (k + 1) * gpus.size), gpus)
    n = 1 + TYPES * gpus.size
    template = program.share_columns(usage, n)
    speed = np.repeat([1.0, 2.0, 3.0], gpus.size) * np.tile(gpus, TYPES) ** 0.6
    costs = np.zeros((REQUESTS, n))
    costs[:, 1:] = -speed * rng.uniform(0.5, 1.5, (REQUESTS, n - 1))
    totals = np.ones(REQUESTS)
    program.add_requests(
        range(REQUESTS), costs.ravel(), [n] * REQUESTS, template, totals=totals, relation="=="
    )
    for k in range(pinned if add else 0):
        program.add_request(("pinned", k), [-0.1], {0: 16.0}, total=1.0, relation="==")
    return program


def sample(program: ContinualProgram, columns: int) -> Sampled:
    tuning = ProximalTuning(sample=SampleTuning(columns=columns, columns_a_row=0))
    budget = Budget(1e-4, Clock(None), 1_000, 1, 0.25)
    return sampled_prices(program, NOTHING, "newton", budget, tuning)


def bound(program: ContinualProgram, y: np.ndarray) -> float:
    return certify(program.store, NOTHING, y).bound


def test_requests_wider_than_the_sample_are_drawn_with_all_their_columns():
    program = cluster()
    best = ProximalPoint(tolerance=1e-6).solve(program).objective
    few = sample(program, columns=16).y  # less than the eight requests that a sample has at least
    assert few.all()
    assert bound(program, np.zeros(TYPES)) < 1.5 * best  # costs are negative
    assert 1.1 * best < bound(program, few) <= best * (1 - 1e-9)


@pytest.mark.parametrize("pinned", [1, 200])
def test_what_requests_without_a_choice_use_is_taken_off_the_rows(pinned):
    """They stand for themselves alone, so the sample is the one of the others with what they leave."""
    held, gone = sample(cluster(pinned), 16 * 64), sample(cluster(pinned, add=False), 16 * 64)
    assert held.y.all()
    assert held.y == pytest.approx(gone.y, rel=1e-9)
    assert held.flow == pytest.approx(gone.flow + [16.0 * pinned, 0.0, 0.0], rel=1e-9)
