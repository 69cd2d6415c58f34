"""The pass over requests that share costs and usage finds what looking at every column of each finds.

All numbers are small multiples of powers of two, so that sums are exact and ties are many.
"""

from __future__ import annotations

from unittest import mock

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from copter import ContinualProgram
from copter.proof import pricing
from copter.proof.lower_envelopes import groups_of
from copter.proof.pricing import price
from copter.proof.pricing_kernels import KEEP_ALL
from copter.store.view import view_of
from support.amounts import examples

ROWS = ("a", "b", "c")


@pytest.fixture(autouse=True, scope="module")
def _small_programs_too():
    """Requests that share are priced together in programs of any size."""
    with mock.patch.object(pricing, "GROUPS_FROM", 0):
        yield


def sharing(seed: int, kinds: int, n: int, requests: int, relation: str, overrides: int) -> ContinualProgram:
    """Requests of some kinds, each with a scale and overrides of its own, that share costs and usage."""
    rng = np.random.default_rng(seed)
    program = ContinualProgram()
    program.add_resources(ROWS, upper=[9.0] * len(ROWS))
    handles = []
    for _ in range(kinds):
        usage = {row: rng.integers(0, 4, n) for row in ROWS}
        costs = rng.integers(-8, 9, n) if rng.random() < 0.5 else rng.integers(1, 9, n)
        handles.append((program.share_costs(costs / 4), program.share_columns(usage, n)))
    for q in range(requests):
        costs, usage = handles[q % kinds]
        columns = rng.choice(n, rng.integers(0, overrides + 1), replace=False).tolist()
        override = {j: float(rng.integers(-8, 9)) / 2 for j in columns}
        total, scale = float(rng.integers(0, 3)), 2.0 ** rng.integers(-3, 4) * rng.integers(1, 4)
        program.add_request(q, costs, usage, total=total, relation=relation, scale=scale, override=override)
    return program


def by_hand(program: ContinualProgram, y: dict[str, float], slack: float, cost_factor: float):
    """(bound, marginal, forced, candidates) from every column of every request."""
    bound, marginal, forced, candidates = 0.0, [], [], []
    for q in program.request_ids:
        c = cost_factor * program.requests[q].costs
        p = c.copy()
        for row, (columns, values) in program.requests[q].usage.items():
            p[columns] += y[row] * values
        relation, total = program.requests[q].relation, program.requests[q].total
        level = p.min() if relation == "==" else min(0.0, p.min())
        bound += total * level
        marginal.append(level)
        forced.append(abs(c).min() if relation == "==" and (c.min() > 0 or c.max() < 0) else 0.0)
        candidates += [(program.slot_of[q], j) for j in np.flatnonzero(p <= level + slack).tolist()]
    return bound, marginal, forced, candidates


@settings(max_examples=examples(60), deadline=None)
@given(
    seed=st.integers(0, 10**6),
    kinds=st.integers(1, 3),
    n=st.integers(KEEP_ALL + 1, 150),
    requests=st.integers(2, 60),
    relation=st.sampled_from(["<=", "=="]),
    overrides=st.sampled_from([0, 1, 2, 9]),
    slack=st.sampled_from([0.0, 0.25, 1.0, 5.0]),
    cost_factor=st.sampled_from([1.0, 0.5, 0.0]),
    prices=st.lists(st.integers(-4, 8), min_size=len(ROWS), max_size=len(ROWS)),
)
def test_prices_and_candidates_are_those_of_every_column(
    seed, kinds, n, requests, relation, overrides, slack, cost_factor, prices
):
    program = sharing(seed, kinds, n, requests, relation, overrides)
    y = np.array(prices) / 8
    found = price(program.store, y, slack=slack, cost_factor=cost_factor)
    bound, marginal, forced, candidates = by_hand(
        program, dict(zip(ROWS, y.tolist(), strict=True)), slack, cost_factor
    )
    assert found.request_bound == bound
    assert found.marginal.tolist() == marginal
    np.testing.assert_array_equal(found.forced, forced)
    assert list(zip(found.slot.tolist(), found.column.tolist(), strict=True)) == candidates
    alone = price(program.store, y, cost_factor=cost_factor)
    assert (alone.request_bound, alone.slot.size) == (bound, 0)
    assert alone.marginal.tolist() == marginal


@pytest.mark.parametrize("threads", [1, 2, 3])
def test_the_pass_does_not_depend_on_threads(threads):
    program = sharing(3, 40, 1500, 120, "==", 2)
    y = np.array([0.3, 0.7, 1.1])
    found, wanted = (price(program.store, y, slack=0.4, threads=each) for each in (threads, 1))
    assert found.request_bound == wanted.request_bound and found.slot.size
    for name in ("marginal", "forced", "slot", "column"):
        assert getattr(found, name).tobytes() == getattr(wanted, name).tobytes()


def test_own_costs_give_the_same_prices():
    """The same numbers as costs of each request's own, at scales that round."""
    shared = sharing(5, 3, 400, 90, "==", 2)
    own = ContinualProgram()
    own.add_resources(ROWS, upper=[9.0] * len(ROWS))
    for q in shared.request_ids:
        options = {"scale": shared.requests[q].scale * 0.3, "override": shared.requests[q].override}
        own.add_request(
            q, shared.requests[q].base_costs, shared.requests[q].usage, total=1.0, relation="==", **options
        )
        shared.update_request(q, scale=options["scale"], total=1.0)
    y = np.array([0.31, 0.17, 0.77])
    a, b = (price(program.store, y, slack=0.2) for program in (shared, own))
    assert a.request_bound == pytest.approx(b.request_bound, rel=1e-12)
    np.testing.assert_allclose(a.marginal, b.marginal, rtol=1e-12)
    np.testing.assert_allclose(a.forced, b.forced, rtol=1e-12)
    assert a.slot.tolist() == b.slot.tolist() and a.column.tolist() == b.column.tolist()


def test_requests_with_bounds_or_alone_are_no_group():
    program = sharing(7, 1, 20, 3, "==", 0)
    vector, template = program.shared_costs[0], program.shared_columns[0]
    for q in range(3):
        program.update_request(q, total=2.0)
    program.add_request("bounded", vector, template, total=2.0, upper=1.0)
    program.add_request("box", vector, template, upper=1.0)
    program.add_request("own", vector, {"a": np.arange(20)}, total=1.0)
    groups = groups_of(view_of(program.store), KEEP_ALL)
    assert groups is not None and sorted(groups.member.tolist()) == [0, 1, 2]
    assert groups_of(view_of(program.store), 20) is None
