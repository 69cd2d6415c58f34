"""New columns for many requests at once are what one verb for each of them makes."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from copter import ContinualProgram
from copter.errors import EditError
from copter.store.compiled import compile_program
from support.amounts import examples

ROWS = 3


def some_usage(rng, templates, n):
    """A template of n columns, or coefficients of the request's own."""
    fitting = [template for template in templates if template.n_columns == n]
    if fitting and rng.random() < 0.6:
        return fitting[int(rng.integers(len(fitting)))]
    return {row: rng.integers(0, 3, n).astype(float) for row in range(ROWS)}


def build(rng, count):
    program = ContinualProgram()
    for row in range(ROWS):
        program.add_resource(row, upper=10.0)
    templates = [
        program.share_columns({row: rng.integers(0, 3, n).astype(float) for row in range(ROWS)}, n)
        for n in (1, 2, 2, 4)
    ]
    for q in range(count):
        n = int(rng.integers(1, 5))
        override = {0: 7.0} if rng.random() < 0.5 else None
        upper = 2.0 if rng.random() < 0.5 else np.inf
        scale = float(rng.choice([0.5, 1.0]))
        usage = some_usage(rng, templates, n)
        program.add_request(
            q, rng.random(n), usage, total=1, upper=upper, scale=scale, override=override, start={n - 1: 1.0}
        )
    return program, templates


def same(one, other):
    left, right = compile_program(one), compile_program(other)
    assert left.request_ids == right.request_ids
    for name in ("c", "lower", "upper", "row_lower", "row_upper", "integrality", "column_start"):
        assert np.array_equal(getattr(left, name), getattr(right, name)), name
    assert (left.A != right.A).nnz == 0
    assert one.n_variables == other.n_variables and one.nnz == other.nnz
    starts = [program.take_starts() for program in (one, other)]
    named = [
        {id: tuple(map(list, taken[slot])) for id, slot in program.slot_of.items() if slot in taken}
        for program, taken in zip((one, other), starts, strict=True)
    ]
    assert named[0] == named[1]


@given(seed=st.integers(0, 2**32 - 1), count=st.sampled_from([1, 5, 300]), starts=st.booleans())
@settings(max_examples=examples(25), deadline=None)
def test_many_are_replaced_as_one_after_the_other(seed, count, starts):
    (one, templates), (other, same_templates) = (build(np.random.default_rng(seed), count) for _ in range(2))
    rng = np.random.default_rng(seed)
    ids = rng.permutation(count)[: int(rng.integers(1, count + 1))].tolist()
    widths = rng.integers(1, 5, len(ids)).tolist()
    costs = [rng.random(n) for n in widths]
    places = [int(rng.integers(n)) for n in widths]
    usages = [some_usage(rng, templates, n) for n in widths]
    twin = dict(zip(templates, same_templates, strict=True))
    for k, id in enumerate(ids):
        usage = usages[k] if isinstance(usages[k], dict) else twin[usages[k]]
        start = {places[k]: 1.0} if starts else None
        other.update_request(id, costs=costs[k], usage=usage, start=start)
    counts, ones = np.ones(len(ids), np.int64), np.ones(len(ids))
    given = (counts, np.array(places), ones) if starts else None
    one.update_requests(ids, costs=costs, usage=usages, starts=given)
    same(one, other)
    gone = ids[: len(ids) // 2]
    one.remove_requests(gone)
    other.remove_requests(gone)
    same(one, other)


def test_a_wrong_one_among_many_changes_nothing():
    (one, templates), (other, _) = (build(np.random.default_rng(1), 4) for _ in range(2))
    four = templates[3]
    with pytest.raises(EditError, match="must have 4 entries, one for each of its shared columns"):
        one.update_requests([0, 1], costs=[np.ones(4), np.ones(3)], usage=[four, four])
    same(one, other)
