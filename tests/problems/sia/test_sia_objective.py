"""Normalised goodput, restart factor and signs, by hand."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from copter.problems.sia.columns import _MIN_RESTART_FACTOR, Objective, _normalised, restart_factor


def test_normalised_goodput_by_hand():
    # Two jobs of the thesis' running example, configurations 1A, 2A, 1B, 2B, 4B; both need one GPU.
    assert _normalised(np.array([2.0, 3.0, 1.0, 2.0, 4.0]), 1).tolist() == [2.0, 3.0, 1.0, 2.0, 4.0]
    assert _normalised(np.array([30.0, 60.0, 15.0, 24.0, 30.0]), 1).tolist() == [2.0, 4.0, 1.0, 1.6, 2.0]
    # A job that needs two GPUs: its smallest goodput is worth two.
    assert _normalised(np.array([10.0, 5.0]), 2).tolist() == [4.0, 2.0]
    assert _normalised(np.empty(0), 1).size == 0


def test_restart_factor_by_hand():
    # (T - N S) / (T + S) for T = 900, N = 2, S = 100; T = 100, N = 0, S = 100.
    factor = restart_factor(np.array([900.0, 100.0]), np.array([2, 0]), np.array([100.0, 100.0]))
    assert factor == pytest.approx([0.7, 0.5])


def test_restart_factor_has_a_floor():
    factor = restart_factor(np.array([100.0, 0.0]), np.array([3, 0]), np.array([100.0, 50.0]))
    assert factor.tolist() == [_MIN_RESTART_FACTOR, _MIN_RESTART_FACTOR]


def test_a_job_that_restarts_in_no_time_has_no_discount():
    assert restart_factor(np.array([0.0, 60.0]), np.array([0, 9]), np.zeros(2)).tolist() == [1.0, 1.0]


@given(st.floats(0, 1e6), st.integers(0, 50), st.floats(0, 1e4))
def test_restart_factor_is_a_share(age, restarts, seconds):
    factor = restart_factor(np.array([age]), np.array([restarts]), np.array([seconds]))[0]
    assert _MIN_RESTART_FACTOR <= factor <= 1.0


def test_costs_by_hand():
    goodput = np.array([1.0, 4.0, 16.0])
    assert Objective(-0.5).costs(goodput).tolist() == [1.0, 0.5, 0.25]
    assert Objective(0.5).costs(goodput).tolist() == [-1.0, -2.0, -4.0]
    assert Objective(-0.5).scales(np.array([0.25]))[0] == 2.0
    assert Objective(0.5).scales(np.array([0.25]))[0] == 0.5


@given(st.sampled_from([-2.0, -0.5, 0.5, 1.0]), st.floats(0.01, 1.0), st.floats(1.0, 1e4))
def test_a_scale_is_the_restart_factor_inside_the_power(p, factor, goodput):
    objective = Objective(p)
    scaled = objective.scales(np.array([factor])) * objective.costs(np.array([goodput]))
    assert scaled == pytest.approx(objective.costs(np.array([factor * goodput])))


@given(st.sampled_from([-2.0, -0.5, 0.5, 1.0]), st.floats(1.0, 1e3), st.floats(1.0001, 10.0))
def test_more_goodput_costs_less(p, goodput, more):
    costs = Objective(p).costs(np.array([goodput, goodput * more]))
    assert costs[1] < costs[0]


@pytest.mark.parametrize(("p", "lam"), [(0.0, 1.1), (np.nan, 1.1), (-0.5, -1.0), (-0.5, np.inf)])
def test_parameters_that_make_no_sense(p, lam):
    with pytest.raises(ValueError, match="must be finite"):
        Objective(p, lam)
