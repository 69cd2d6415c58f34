"""Integral churn: the share of requests, there in both rounds, that use something else."""

import math

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from copter import ContinualProgram
from copter.bench.recording import IntegralChurn
from copter.shims.choose_one import Choice
from support.amounts import examples

COLUMNS = np.array([[0.0, 1.0, 2.0, 0.0], [0.0, 0.0, 1.0, 3.0]])


def chosen(program, columns):
    by_slot = np.full(program.store.requests.size, -1)
    for id, column in columns.items():
        by_slot[program.slot_of[id]] = column
    return Choice.of_program(program, by_slot)


def usage(column):
    return (0.0, 0.0) if column < 0 else tuple(COLUMNS[:, column].tolist())


@given(seed=st.integers(0, 2**32 - 1))
@settings(max_examples=examples(50), deadline=None)
def test_share_of_those_in_both_rounds_against_a_dictionary(seed):
    rng = np.random.default_rng(seed)
    program, churn, last = ContinualProgram(), IntegralChurn(), {}
    for row in range(2):
        program.add_resource(row, upper=9.0)
    template = program.share_columns({row: COLUMNS[row] for row in range(2)}, 4)
    for _ in range(4):
        for id in range(6):
            if id in program.slot_of and rng.random() < 0.4:
                program.remove_request(id)
            elif id not in program.slot_of and rng.random() < 0.6:
                program.add_request(id, np.ones(4), template, total=1)
        columns = {id: int(rng.integers(-1, 4)) for id in program.request_ids}
        now = {id: usage(column) for id, column in columns.items()}
        both = last.keys() & now.keys()
        measured = churn.measure(program, chosen(program, columns))
        if both:
            assert measured == sum(last[id] != now[id] for id in both) / len(both)
        else:
            assert math.isnan(measured)
        last = now
