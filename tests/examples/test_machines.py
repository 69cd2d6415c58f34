"""Virtual machines on hosts, `docs/examples/machines.py`, against branch and bound on small instances."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.optimize import Bounds, LinearConstraint, milp

from copter import Rounds
from copter.rounds.named import domain_named

MACHINES: Any = domain_named(f"{Path(__file__).parents[2]}/docs/examples/machines.py:Machines")


def optimum(domain: Any, waits: dict[str, float]) -> float:
    """The least objective of whole columns, by scipy, from machines and hosts alone."""
    module, hosts = sys.modules[type(domain).__module__], list(domain.hosts)
    needs = np.array([module.FLAVORS[flavor] for flavor in domain.flavor.values()], float)
    n, width = len(needs), len(hosts) + 1
    costs = np.empty((n, width))
    costs[:, :-1] = needs[:, :1] * [own[2] for own in domain.hosts.values()]
    costs[:, -1] = [waits[vm] for vm in domain.flavor]
    for k, vm in enumerate(domain.flavor):  # a machine that stays saves the copy
        host = "waiting" if domain.last is None else domain.last.choice.get(vm, "waiting")
        if host != "waiting":
            costs[k, hosts.index(host)] -= module.COPY * needs[k, 1]
    within = [
        LinearConstraint(
            np.kron(needs[:, what], np.eye(len(hosts), width)),
            ub=[own[what] * domain.up[host] for host, own in domain.hosts.items()],
        )
        for what in (0, 1)
    ]
    one = LinearConstraint(np.kron(np.eye(n), np.ones(width)), 1, 1)
    found = milp(costs.ravel(), integrality=1, bounds=Bounds(0, 1), constraints=[*within, one])
    assert found.success, found.message
    return float(found.fun)


def losses(solver: str, hosts: int, seed: int, count: int) -> list[float]:
    """Play rounds; return what each loses against the optimum, relative as its certified gap is."""
    domain, rng = MACHINES(hosts), np.random.default_rng(seed)
    rounds = Rounds(domain, solver)
    waits: dict[str, float] = {}
    lost = []
    for _ in range(count):
        events = list(domain.events(rng))
        waits |= {event[1]: event[3] for event in events if event[0] == "start"}
        for event in events:
            domain.apply(event)
        best = optimum(domain, waits)
        record = rounds.play()
        objective, bound, slack = record.answer.objective, record.bound, 1e-6 * max(1.0, abs(best))
        assert record.path == "solved" and bound - slack <= best <= objective + slack
        lost.append(max(0.0, record.gap * (objective - best) / max(objective - bound, slack)))
    return lost


@pytest.mark.parametrize("seed", range(3))
def test_no_round_loses_more_than_its_certified_gap(seed: int) -> None:
    lost = losses("copter", 3, seed, 12)
    print(f"seed {seed}: mean loss {np.mean(lost):.1%}, largest {max(lost):.1%}")
    assert np.mean(lost) < 0.5


def test_branch_and_bound_loses_nothing() -> None:
    assert max(losses("copter-exact", 3, 0, 12)) <= 1e-6
