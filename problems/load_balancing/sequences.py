"""Families of LPs of shards on servers, for `copter bench export`."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from functools import partial
from typing import Any

import numpy as np

from copter.arrays import Floats
from copter.bench.sequences.family import Family, SequenceRounds, played, rounds_of_programs
from copter.problems.load_balancing.balancer import LoadBalancer, ShardDomain

_ROOM = 3.0
"""Memory of a server over the size of its share of the shards."""


def families() -> list[Family]:
    """Return the families."""
    return [
        Family(
            "shards-loads-small",
            "64 shards on 8 servers: all loads change, and so do the replicas that cost nothing.",
            ("costs", "sides"),
            partial(_loads, 64, 8, 64),
        ),
        Family(
            "shards-loads-large",
            "256 shards on 32 servers: 32 loads change, and so do the replicas that cost nothing.",
            ("costs", "sides"),
            partial(_loads, 256, 32, 32),
        ),
        Family(
            "shards-fleet-small",
            "About 48 shards on about 8 servers: shards and servers are added and removed, and loads change.",
            ("columns", "costs", "sides", "rows"),
            partial(_fleet, 48, 8),
        ),
    ]


def _loads(shards: int, servers: int, changed: int, seed: int) -> SequenceRounds:
    """Yield rounds with new loads of some shards."""
    rng = np.random.default_rng(seed)
    domain = ShardDomain(_balancer(shards, servers, rng))
    return rounds_of_programs(played(domain, _load_events(domain.balancer, changed, rng)))


def _balancer(shards: int, servers: int, rng: np.random.Generator) -> LoadBalancer:
    """Return a balancer with shards of size 1, each on one server."""
    balancer = LoadBalancer()
    for server in range(servers):
        balancer.add_server(server, _ROOM * shards / servers)
    balancer.add_shards(range(shards), _drawn(rng, shards), servers=(j % servers for j in range(shards)))
    return balancer


def _drawn(rng: np.random.Generator, shards: int) -> Floats:
    """Draw loads of shards."""
    return np.round(rng.lognormal(3.0, 0.8, shards), 2)


def _load_events(
    balancer: LoadBalancer, changed: int, rng: np.random.Generator
) -> Iterator[list[tuple[Any, ...]]]:
    """Yield new loads of `changed` shards for each round; there are none before the first round."""
    yield []
    while True:
        here = balancer.shards
        some = rng.choice(len(here), changed, replace=False).tolist()
        loads = _drawn(rng, changed).tolist()
        yield [("set_load", here[k], load) for k, load in zip(some, loads, strict=True)]


def _fleet(shards: int, servers: int, seed: int) -> SequenceRounds:
    """Yield rounds in which shards and servers come and go."""
    rng = np.random.default_rng(seed)
    domain = ShardDomain(_balancer(shards, servers, rng))
    return rounds_of_programs(played(domain, _fleet_events(domain.balancer, shards, servers, rng)))


def _fleet_events(
    balancer: LoadBalancer, shards: int, servers: int, rng: np.random.Generator
) -> Iterator[list[tuple[Any, ...]]]:
    """Yield the events of each round: new loads of a quarter of the shards, and arrivals and departures."""
    new = itertools.count(shards + servers)
    for events in _load_events(balancer, shards // 4, rng):
        here, fleet = balancer.shards, balancer.servers
        if events and (rng.random() < 0.5 or len(here) < shards - 8):
            events.append(("add_shard", next(new), float(_drawn(rng, 1)[0]), 1.0))
        elif events:
            events.append(("remove_shard", here[int(rng.integers(len(here)))]))
        if events and rng.random() < 0.2:
            if len(fleet) <= servers:
                events.append(("add_server", next(new), _ROOM * shards / servers))
            else:
                events.append(("remove_server", fleet[int(rng.integers(len(fleet)))]))
        yield events
