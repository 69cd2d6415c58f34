"""The page bench/results/shards.md: copter and Rebalancer on the same shards; nothing is measured here."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

from copter.bench.formats import seconds, share

FOLDER = "bench/results/shards"


class Workload(NamedTuple):
    """Title of a workload, and the options of `copter bench load-balancing` that determine it."""

    title: str
    options: str


WORKLOADS = {
    "lognormal-1024": Workload(
        "1,024 shards on 128 servers, lognormal, all loads change",
        "--shards 1024 --servers 128 --loads lognormal --rounds 10",
    ),
    "lognormal-16384": Workload(
        "16,384 shards on 256 servers, lognormal, all loads change",
        "--shards 16384 --servers 256 --loads lognormal --rounds 10",
    ),
    "zipf-16384": Workload(
        "16,384 shards on 256 servers, Zipf, all loads change",
        "--shards 16384 --servers 256 --mode stateful --rounds 10",
    ),
    "one-16384": Workload(
        "16,384 shards on 256 servers, lognormal, one load changes",
        "--shards 16384 --servers 256 --loads lognormal --changed 1 --rounds 20",
    ),
}
"""Workloads by the name of their document in FOLDER."""
HEAD = """# Shards: copter and Rebalancer

Written by `make benchmarks` from the documents in `bench/results/shards`: do not edit. The page compares
copter with [Rebalancer](https://github.com/facebook/rebalancer) 1.0.4, a local search of Meta, on the same
shards, loads, memory limits and start. Both use one thread. The driver of Rebalancer is no longer a part of
copter: check out commit 288c90b1 to repeat the commands.

- *Data moved* is the total size of the new replicas. copter may split a shard into replicas; Rebalancer moves
  whole shards.
- *In the band* is the number of rounds that end with the load of every server in the band: within the mean
  times `1 -+ tolerance / (1 + tolerance)`, with a tolerance of 5%. The data and seconds of rounds outside the
  band are not comparable with those of other rounds.
- *Imbalance* is the largest load of a server over the smallest, minus 1, in the worst round.
- *Bound* is a certified lower bound on the data that any placement within the band moves from copter's last
  placement.
- `rebalancer` moves single shards. `rebalancer-swap` has a second stage with swaps. The band is their first
  goal and the data moved the second, because local search needs a start that satisfies all constraints.
- Seconds of copter are those of edit, solve and shim. Seconds of Rebalancer are those of the new problem and
  its solve, without the transfer between processes. Its search ends after 80% of the deadline.
"""
HEADS = (
    "method",
    "data moved, first round",
    "later rounds",
    "in the band",
    "imbalance",
    "first round",
    "later rounds, median (range)",
)


def command(name: str) -> str:
    """Return the command that measures a workload."""
    fixed = "--solvers copter,rebalancer,rebalancer-swap --threads 1 --time-limit 60"
    place = f"--environment rebalancer=PYTHON --json {FOLDER}/{name}.json"
    return f"copter bench load-balancing {WORKLOADS[name].options} {fixed} {place}"


def page(root: Path) -> str:
    """Return the text of the page, with the documents that there are."""
    parts = [HEAD]
    for name, workload in WORKLOADS.items():
        path = root / FOLDER / f"{name}.json"
        found = json.loads(path.read_text()) if path.is_file() else None
        body = "Not measured yet.\n" if found is None else _measured(found)
        parts.append(f"## {workload.title}\n\n```sh\n{command(name)}\n```\n\n{body}")
    return "\n".join(parts)


def _measured(document: Mapping[str, Any]) -> str:
    rows = [HEADS, ("---", *["---:"] * (len(HEADS) - 1))]
    for solver in document["settings"]["solvers"]:
        rounds = [record for record in document["records"] if record["solver"] == solver]
        if rounds:
            rows.append(_row(solver, rounds))
            bounds = [record["answer_bound"] for record in rounds]
            if all(bound is not None for bound in bounds):
                rows.append(("bound", f"{bounds[0]:.1f}", f"{sum(bounds[1:]):.1f}", *[""] * 4))
    table = "\n".join(f"| {' | '.join(row)} |" for row in rows)
    machine, on = document["machine"], document["measured"]["on"]
    return f"{table}\n\nOn {machine['cores']} cores of {machine['processor']}, on {on}.\n"


def _row(solver: str, rounds: list[dict[str, Any]]) -> tuple[str, ...]:
    moved = [record["answer_objective"] for record in rounds]
    worst = [record["imbalance"] for record in rounds]
    inside = sum(record["in_band"] for record in rounds)
    first, *later = (record["seconds"] for record in rounds)
    spread = f"{seconds(median(later))} ({seconds(min(later))} to {seconds(max(later))})" if later else ""
    return (
        f"`{solver}`",
        f"{moved[0]:.1f}",
        f"{sum(moved[1:]):.1f}",
        f"{inside} of {len(rounds)}",
        "a server without load" if None in worst else share(max(worst)),
        seconds(first),
        spread,
    )
