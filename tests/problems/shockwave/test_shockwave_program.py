"""The relaxation by copter's core: against water-filling, window after window of one program."""

from itertools import islice

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from copter.problems.shockwave import build_window
from copter.problems.shockwave.course import _busy_rounds
from copter.problems.shockwave.program import RelaxationProgram
from copter.problems.shockwave.waterfill import solve_waterfilling
from support.amounts import examples
from support.shockwave_cases import windows

CLOSE = 1e-5


def check(window, relaxed):
    """Feasible, certified, and as good as water-filling says."""
    exact = solve_waterfilling(window)
    scale = abs(exact.objective)
    assert (relaxed.rounds >= 0).all() and (relaxed.rounds <= window.most_rounds * (1 + 1e-12)).all()
    assert float(window.gpus @ relaxed.rounds) <= window.capacity * window.rounds * (1 + 1e-12)
    assert relaxed.objective == pytest.approx(window.relaxed_objective(relaxed.rounds), rel=1e-12)
    assert relaxed.bound - relaxed.objective <= CLOSE * scale + 1e-12
    assert relaxed.objective <= exact.bound + 1e-9 * scale + 1e-15
    assert relaxed.bound >= exact.objective - 1e-9 * scale - 1e-15


@given(sequence=st.lists(windows(most=8, rounds=5), min_size=1, max_size=4))
@settings(deadline=None, max_examples=examples(40))
def test_any_windows_one_after_another(sequence):
    """Jobs of the same name come, go and change all they have, the cluster too."""
    solve = RelaxationProgram(CLOSE)
    for window in sequence:
        check(window, solve(window))


@pytest.mark.parametrize(("jobs", "gpus"), [(40, 8), (150, 32), (30, 64)])
def test_rounds_of_a_busy_cluster(jobs, gpus):
    solve = RelaxationProgram(CLOSE)
    for now in islice(_busy_rounds(jobs, gpus, seed=3), 5):
        window = build_window(now)
        check(window, solve(window))
        assert len(solve.program) == 1 + np.count_nonzero(np.diff(window.segment_start))
