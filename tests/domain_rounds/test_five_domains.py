"""The domains that ship with copter keep what every domain promises, and every deadline."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import pytest

from copter import Rounds
from copter.installed import DOMAINS, installed
from copter.rounds.check import KINDS, check_domain, violations
from support.amounts import longer
from support.ticking import tick

names = pytest.mark.parametrize("name", installed(DOMAINS))


@pytest.mark.parametrize("rounds", [14, longer(28)])
@names
def test_promises(name: str, rounds: int) -> None:
    counts = check_domain(installed(DOMAINS)[name].load(), rounds=rounds, seed=5)
    assert all(counts[kind] for kind in KINDS)
    assert counts["refused"] > rounds / 3 and counts["feasible"] >= 3 * rounds
    # these two have no program of their own
    assert counts["bound"] > rounds / 6 or name in ("placement", "shockwave")


def rounds_by_a_moved_clock(
    name: str, count: int, seed: int, monkeypatch: pytest.MonkeyPatch, step: float
) -> Counter[str]:
    """Play rounds with deadlines from 1 ms to 1 s, on a clock that moves whenever it is looked at."""
    rng = np.random.default_rng(seed)
    rounds, happened = Rounds(installed(DOMAINS)[name].load()()), Counter[str]()
    domain: Any = rounds.domain
    for event in domain.events(rng):
        domain.apply(event)
    rounds.play()
    clock = tick(monkeypatch, step)
    for _ in range(count):
        rounds.time_limit = float(10 ** rng.uniform(-3, 0))
        clock.step = step * float(10 ** rng.uniform(-1.5, 1))
        before = clock.now
        record = rounds.play(*domain.events(rng))
        # a pass of a kernel looks at the clock once or twice; what follows it, and the fallback, a few times
        overrun = clock.now - before - rounds.time_limit
        assert overrun <= 40 * clock.step, record.row()
        assert record.late == (record.path == "fallback" and "no allocation" not in record.reason)
        assert not list(violations(domain, record.answer))
        happened[record.path] += 1
    return happened


@pytest.mark.parametrize("count", [150, longer(1000)])
@names
def test_deadlines(name: str, count: int, monkeypatch: pytest.MonkeyPatch) -> None:
    happened = rounds_by_a_moved_clock(name, count, 1, monkeypatch, 1e-4)
    assert happened["solved"] > count / 10 and happened["fallback"] > count / 100, happened
