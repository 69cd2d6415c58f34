"""A deadline is that of the whole round, where shards find no place, or there is no answer yet."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from copter import make_solver
from copter.problems.load_balancing import LoadBalancer
from copter.problems.load_balancing.scenario import ShardScenario
from support.ticking import tick


def loaded(**fields: Any) -> LoadBalancer:
    scenario = ShardScenario(shards=96, servers=12, rounds=2, seed=3, **fields)
    balancer = scenario.balancer()
    balancer.set_loads(next(scenario.loads()))
    return balancer


@pytest.mark.parametrize("first", [True, False])
def test_a_late_round_serves_all_shards_within_the_memory(
    first: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    balancer, solver = loaded(memory=10), make_solver("copter")
    if not first:
        balancer.round(solver)
        balancer.set_memory(0, 7.0)
        balancer.add_shards(["new", "newer"], [5.0, 0.0])
        balancer.remove_server(5)
    before = balancer.placement()
    clock = tick(monkeypatch, 0.0)
    real = balancer.place

    def slow(*given: Any) -> Any:
        clock.now += 10.0
        return real(*given)

    balancer.place = slow  # type: ignore[method-assign]
    done = balancer.round(solver, deadline=1.0)
    assert done.solution is None and np.isnan(done.bound)
    there = done.placement
    assert np.bincount(there.shard, there.share, len(balancer.shards)) == pytest.approx(1.0)
    used = np.bincount(there.server, balancer.fleet().sizes[there.shard], len(balancer.servers))
    assert (used <= balancer.fleet().memory).all()
    old = set(zip(before.shard.tolist(), before.server.tolist(), strict=True))
    now = set(zip(there.shard.tolist(), there.server.tolist(), strict=True))
    if first:
        assert now == old and not done.moves
    else:
        assert {move.who for move in done.moves} >= {"new", "newer"} and len(now - old) < 12
    assert balancer.number == (1 if first else 2)
