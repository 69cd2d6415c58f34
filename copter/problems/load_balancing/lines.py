"""Cases of the suite: shards on servers, where each method continues from its own last placement."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial

from copter.bench.case import Case, Inputs, as_it_is, listed
from copter.bench.solvers import EVERY_LP, HIGHS, ORTOOLS
from copter.problems.load_balancing.course import Balancing
from copter.problems.load_balancing.scenario import ShardScenario


def lines(inputs: Inputs) -> Sequence[Case]:
    """Return the cases."""
    return listed("load-balancing", _case, inputs)


def _case(
    inputs: Inputs,
    name: str,
    *,
    shards: int,
    servers: int,
    rounds: int,
    changed: int | None = None,
    copies: int = 1,
) -> Case:
    """Return the case in which all loads change in each round, or those of `changed` random shards.

    With `copies`, each shard is a group of as many equal shards with lognormal loads.
    """
    scenario = ShardScenario(shards, servers, rounds, seed=inputs.seed, changed=changed, copies=copies)
    title = f"{shards * copies:,} shards on {servers:,} servers"
    x = {"shards": shards * copies, "servers": servers, "columns": shards * servers}
    if copies > 1:
        scenario = replace(scenario, distribution="lognormal")
        title = f"{title}, in {shards:,} groups of equal shards"
        x["columns"] = round(x["columns"] * (1.0 - (1.0 - 1.0 / servers) ** copies)) + servers  # expected
        solvers: Sequence[str] = EVERY_LP
    elif changed is None:
        parts = 2 if servers <= 8 else 4 if servers <= 64 else 16
        solvers = (*EVERY_LP, f"pop-{parts}", "heuristic", "highs-milp")
    else:
        title, x["changed"] = f"{title}, the load of one changes", changed
        solvers = ("copter", *HIGHS, *ORTOOLS, "heuristic")
    return Case(
        name,
        "shards",
        title,
        partial(as_it_is, Balancing(scenario)),
        solvers,
        rounds=rounds,
        x=x,
        tolerance=1e-2,
        left_out=2,
        mip_gap=0.05,
        own_rounds=True,
    )
