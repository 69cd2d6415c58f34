"""Cases of the suite: shards on servers, each method from its own last placement."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from copter.bench.case import Case, Inputs, Profile, as_it_is
from copter.bench.solvers import EVERY_LP, HIGHS, ORTOOLS, REBALANCER
from copter.problems.load_balancing.course import Balancing
from copter.problems.load_balancing.scenario import ShardScenario

_SIZES: tuple[tuple[int, int, int, Sequence[Profile]], ...] = (
    (24, 4, 6, ("quick",)),
    (64, 8, 6, ("full",)),
    (256, 64, 24, ("full",)),
    (1_024, 128, 24, ("full",)),
    (2_048, 256, 12, ("full",)),
)
"""Shards, servers and rounds of each case, with its profiles."""


def lines(inputs: Inputs) -> Sequence[Case]:
    """Return the cases."""
    return [*(_line(inputs, *size) for size in _SIZES), _one_changes(inputs)]


def _one_changes(inputs: Inputs) -> Case:
    """Return the case in which one random shard changes its load in each round."""
    shards, servers, rounds = 16_384, 256, 88
    course = Balancing(ShardScenario(shards, servers, rounds, seed=inputs.seed, changed=1))
    return Case(
        f"shards-{shards}-1",
        "shards",
        f"{shards:,} shards on {servers} servers, the load of one changes",
        partial(as_it_is, course),
        ("copter", *HIGHS, *ORTOOLS, "heuristic", *REBALANCER),
        rounds=rounds,
        x={"shards": shards, "servers": servers, "columns": shards * servers, "changed": 1},
        tolerance=1e-2,
        left_out=8,
        mip_gap=0.05,
        profiles=("full",),
        own_rounds=True,
    )


def _line(inputs: Inputs, shards: int, servers: int, rounds: int, profiles: Sequence[Profile]) -> Case:
    course = Balancing(ShardScenario(shards, servers, rounds, seed=inputs.seed))
    parts = 2 if servers <= 8 else 4 if servers <= 64 else 16
    others = (f"pop-{parts}", "heuristic", *REBALANCER, "highs-milp")
    return Case(
        f"shards-{shards}",
        "shards",
        f"{shards:,} shards on {servers} servers",
        partial(as_it_is, course),
        ("copter", *others) if shards == 24 else (*EVERY_LP, *others),
        rounds=rounds,
        x={"shards": shards, "servers": servers, "columns": shards * servers},
        tolerance=1e-2,
        left_out=2,
        mip_gap=0.05,
        profiles=profiles,
        own_rounds=True,
    )
