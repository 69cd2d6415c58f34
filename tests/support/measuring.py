"""Rounds of a course with one solver, in this process."""

import math

from copter.bench.rounds import BenchJob, play


def measure(course, settings, on_record=lambda record: None, limit=math.inf):
    """Play a course; `on_record` is called with each record."""

    def tell(said):
        if isinstance(said, dict):
            on_record(said)

    return play(BenchJob(course, settings, limit=limit), tell)
