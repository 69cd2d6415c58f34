"""How far program and answer moved, against dense arrays over all configurations."""

import math

import numpy as np
import pytest

from copter.problems.sia import Replay, generate
from copter.problems.sia.replay import _SAME
from copter.solvers.registry import make_solver


def dense(replay):
    """Values of all variables of the round's program by job and configuration, absent ones NaN."""
    policy, solution = replay.policy, replay.scheduler.last.solution
    table = {}
    for job, choices in policy.choices().items():
        row = np.full(len(policy.cluster.configurations) + 1, math.nan)
        row[choices.columns + 1] = solution.x[job]
        table[job] = row
    return table


def compared(before, now):
    """Changed, added, removed, integral and the two lengths, by brute force."""
    jobs = [*(before | now)]
    width = len(next(iter(now.values())))
    absent = np.full(width, math.nan)
    old, new = (np.array([table.get(job, absent) for job in jobs]) for table in (before, now))
    there, here = ~np.isnan(old), ~np.isnan(new)
    both = there & here
    difference = np.nan_to_num(new) - np.nan_to_num(old)
    return {
        "changed": (abs(difference[both]) > _SAME).mean(),
        "added": 1 - both.sum() / here.sum(),
        "removed": 1 - both.sum() / there.sum(),
        "integral": ((new[here] < _SAME) | (new[here] > 1 - _SAME)).mean(),
        "path_x": (difference**2).sum(),
        "path_n": abs(int(here.sum()) - int(there.sum())),
    }


def test_shares_and_lengths_are_those_of_dense_arrays():
    replay = Replay(generate(gpus=64, jobs_per_day=1200, hours=0.5, seed=2), make_solver("copter"))
    before = None
    for number, record in enumerate(replay.run()):
        now = dense(replay)
        if before:
            for name, expected in compared(before, now).items():
                assert getattr(record, name) == pytest.approx(expected, abs=1e-12), (number, name)
        before = now
        if number == 25:
            break
    assert number == 25
