"""Steps are as long as the model's, on a clock that only sleeping and the test move."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from copter.problems.cluster.profiles.throughput import ThroughputParameters
from support.paced_digits import Pacing

MODEL = ThroughputParameters(0.1, 0.01, 0.3, 0.0, 0.8, 0.0, 1.0)


class Clock:
    def __init__(self, late=0.0):
        self.now, self.late = 0.0, late

    def sleep(self, seconds):
        self.now += seconds + self.late

    def pacing(self, nodes, gpus, speed=1.0):
        return Pacing(MODEL, speed, nodes, gpus, lambda: self.now, self.sleep)


def test_passes_and_steps_take_what_the_model_says():
    clock = Clock()
    pacing = clock.pacing(2, 4, speed=10.0)
    pacing.begin(20, 2)
    ends = []
    for number in range(2):
        pacing.end_pass(number)
        ends.append(clock.now)
    pacing.end_step()
    assert ends == pytest.approx([0.03, 0.06])
    assert clock.now == pytest.approx(float(MODEL.step_seconds(2, 4, 20, 2)) / 10) == pytest.approx(0.17)


@given(st.lists(st.tuples(st.floats(0.0, 2.0), st.sampled_from([4, 16])), min_size=1, max_size=50))
def test_steps_are_never_faster_than_the_model_in_all(work):
    """Nor is one by itself shorter than half of it; what is late by less is made up for."""
    clock, total = Clock(late=0.001), 0.0
    pacing = clock.pacing(1, 1)
    for seconds, local_batch in work:
        began, least = clock.now, float(MODEL.step_seconds(1, 1, local_batch, 0))
        pacing.begin(local_batch, 0)
        clock.now += seconds
        pacing.end_step()
        total += least
        assert clock.now >= total - 1e-9 and clock.now - began >= 0.5 * least - 1e-9
    if all(seconds < 0.05 for seconds, _ in work):
        assert clock.now <= total + 0.002
