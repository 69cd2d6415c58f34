"""Loads of shards over rounds: Zipf, as in the authors' experiment, lognormal, or given loads from a CSV.

Zipf: ``load_j = round(1e6 / (j + 1)^z)``, so the ranks of the shards never change.  In each round, z is
random and uniform in [0.25, 0.75] (stateless), or changes by 10% up or down within that interval (stateful).

Lognormal: the logarithm of a load is a stationary autoregressive process of order 1 with standard deviation
0.8 and correlation 0.95 from round to round.  No shard has more than 0.4 of the mean load of a server, so
that whole shards can balance the servers.

Source of Zipf: section 5.2.1 of the thesis, and the code of POP (Narayanan et al., SOSP 2021), whose
experiment it repeats.  The thesis gives no limits for the stateful z; the limits of the stateless z are used.
"""

from __future__ import annotations

import csv
import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from copter.arrays import Floats
from copter.errors import InputError
from copter.problems.load_balancing import MODES, Mode
from copter.problems.reading import read_csv

_LOWEST, _HIGHEST = 0.25, 0.75
_STEP = 0.1
_SCALE = 1e6
_DEVIATION, _CORRELATION, _MOST = 0.8, 0.95, 0.4
_SIZE_DEVIATION = 0.5
_CUTS = 20
"""Number of times that the largest loads are reduced: each reduction reduces the mean too."""
_COLUMNS = ("round", "shard", "load")


def zipf_loads(shards: int, rounds: int, mode: Mode, seed: int) -> Iterator[Floats]:
    """Yield the integral loads (shards,) of each round, with the hottest shard first."""
    if mode not in MODES:
        raise ValueError(f"mode = {mode!r}: must be one of {', '.join(MODES)}")
    rng = np.random.default_rng(seed)
    ranks = np.arange(1, shards + 1, dtype=float)
    z = rng.uniform(_LOWEST, _HIGHEST)
    for number in range(rounds):
        if number and mode == "stateless":
            z = rng.uniform(_LOWEST, _HIGHEST)
        elif number:
            z = min(_HIGHEST, max(_LOWEST, z * (1.0 + _STEP * rng.choice((-1.0, 1.0)))))
        yield np.round(_SCALE / ranks**z)


def lognormal_loads(shards: int, servers: int, rounds: int, seed: int) -> Iterator[Floats]:
    """Yield the integral loads (shards,) of each round."""
    rng = np.random.default_rng(seed)
    logarithm = rng.normal(0.0, _DEVIATION, shards)
    for _ in range(rounds):
        loads = np.exp(logarithm)
        for _ in range(_CUTS):
            loads = np.minimum(loads, _MOST * loads.sum() / servers)
        yield np.round(1e4 * loads)
        noise = rng.normal(0.0, _DEVIATION, shards)
        logarithm = _CORRELATION * logarithm + math.sqrt(1.0 - _CORRELATION**2) * noise


def lognormal_sizes(shards: int, seed: int) -> Floats:
    """Return sizes (shards,) with median 1, independent of the loads of the same seed."""
    return np.round(np.random.default_rng((seed, 1)).lognormal(0.0, _SIZE_DEVIATION, shards), 3)


def few_changed(rounds: Iterable[Floats], changed: int, seed: int) -> Iterator[Floats]:
    """Yield loads which, in each round after the first, change for some random shards only.

    `rounds`: loads (shards,) of each round; the first round uses all of its loads. `changed`: number of
    shards with new loads in a later round; all shards if there are fewer.
    """
    rng, loads = np.random.default_rng(seed), None
    for fresh in rounds:
        if loads is None:
            loads = fresh
        else:
            some = rng.choice(fresh.size, min(changed, fresh.size), replace=False, shuffle=False)
            loads = loads.copy()
            loads[some] = fresh[some]
        yield loads


@dataclass(frozen=True)
class LoadTable:
    """Loads of named shards, by round. `loads` (rounds, shards)."""

    shards: tuple[str, ...]
    loads: Floats


def read_loads(path: Path) -> LoadTable:
    """Read a CSV of ``round, shard, load``.

    Rounds are integers, in any order.  A shard keeps its load in rounds without an entry for it, and
    has no load before its first entry.
    """
    entries: dict[tuple[int, str], float] = {}
    for row in read_csv(path, _COLUMNS):
        key = row.whole("round"), row.text("shard")
        if key in entries:
            raise row.error("shard", f"{key[1]!r}: must have only one load in round {key[0]}")
        entries[key] = row.amount("load")
    if not entries:
        raise InputError(path, "file", "must have at least one load")
    rounds = sorted({number for number, _ in entries})
    shards = tuple(dict.fromkeys(shard for _, shard in entries))
    place = {shard: k for k, shard in enumerate(shards)}
    loads = np.full((len(rounds), len(shards)), np.nan)
    index = {number: k for k, number in enumerate(rounds)}
    for (number, shard), load in entries.items():
        loads[index[number], place[shard]] = load
    for k in range(1, len(rounds)):
        loads[k] = np.where(np.isnan(loads[k]), loads[k - 1], loads[k])
    return LoadTable(shards, np.nan_to_num(loads))


def write_loads(path: Path, table: LoadTable) -> None:
    """Write a CSV for :func:`read_loads`, with rounds numbered from 0."""
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(_COLUMNS)
        for number, loads in enumerate(table.loads.tolist()):
            writer.writerows((number, shard, load) for shard, load in zip(table.shards, loads, strict=True))
