"""Time and gap of rounds, from a hundred to a hundred thousand servers.

All systems get the same rounds of a full cluster (`steady.py`); after each round the cluster continues with
copter's placement. The baselines solve each round from scratch, as they are designed to.  The gap of a system
is relative to the smallest upper bound on the value that any system proves.  A baseline whose extrapolated
time at the next size exceeds the limit is not run there.
"""

from __future__ import annotations

import contextlib
import resource
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial

import numpy as np

from copter.problems.placement.rounds import rounds as placing
from copter.problems.placement.rounds.baselines import (
    BaselinePlacement,
    Waiting,
    branch_and_bound,
    two_stages,
)
from copter.problems.placement.rounds.steady import Steady
from copter.problems.placement.servers import MILLI, Servers
from copter.problems.placement.tasks import Tasks

_SIZES = (100, 1_000, 10_048, 100_480)
"""Numbers of servers; the last is that of CvxCluster's paper."""
_GAP = 0.01
"""Relative gap at which a round of copter, and of HiGHS, ends."""
BASELINES = ("two-stages", "highs")
_FIRST = 3
"""Number of rounds that are not recorded, because they fill all servers; one less in `measure_regions`."""
_ALONE = 50
"""Number of single tasks that arrive after each round."""


@dataclass
class _Rounds:
    """Rounds of one system on one number of servers.

    `seconds`: time of each round. `short`: relative gap of each round's value to the bound.
    """

    seconds: list[float] = field(default_factory=list)
    short: list[float] = field(default_factory=list)


@dataclass
class _Size:
    """Measurements for one number of servers.

    `servers`: number of servers. `tasks`: tasks that ran at the end. `changed`: tasks that left, and that
    arrived, before each round. `edit`: seconds of the edits before each round. `alone`: seconds of placing
    each single task. `systems`: rounds by system, copter first.
    """

    servers: int
    tasks: int = 0
    changed: int = 0
    edit: list[float] = field(default_factory=list)
    alone: list[float] = field(default_factory=list)
    systems: dict[str, _Rounds] = field(default_factory=dict)


def measure(
    servers: Servers,
    tasks: Tasks,
    sizes: Sequence[int] = _SIZES,
    *,
    rounds: int = 5,
    baselines: Sequence[str] = BASELINES,
    gap: float = _GAP,
    limit: float = 20.0,
    seed: int = 0,
    say: Callable[[str], None] = print,
) -> list[_Size]:
    """Measure rounds for several numbers of servers, in ascending order.

    `servers`, `tasks`: lists from which servers and tasks are drawn. `rounds`: number of recorded rounds.
    `limit`: longest round of a baseline, in seconds.
    """
    asked = list(baselines)
    parts = [kind for kind in tasks.kinds if kind.gpus > 1 and kind.milli < MILLI]
    if parts and "highs" in asked:
        say("highs: left out, because its model has no shares of several GPUs")
        asked.remove("highs")
    found: list[_Size] = []
    for number in sorted(sizes):
        if found:
            growth = number / found[-1].servers
            last = found[-1].systems
            asked = [
                name for name in asked if name in last and growth * np.median(last[name].seconds) <= limit
            ]
        say(f"{number:,} servers: {', '.join(['copter', *asked])}")
        found.append(_measure(servers, tasks, number, rounds, asked, gap, limit, seed))
    return found


@dataclass
class _Parted:
    """Measurements of rounds on servers that are divided among Ray actors (regions).

    `tasks`: tasks that ran at the end. `changed`: tasks that left, and that arrived, before each round.
    `filled`: seconds until all servers had their first tasks. `first`: seconds of the unrecorded
    rounds. `edit`, `seconds`, `short`: of each recorded round; `short` is the relative gap to the bound for
    all servers. `memory`: bytes of this process and the actors.
    """

    tasks: int
    changed: int
    filled: float
    first: list[float] = field(default_factory=list)
    edit: list[float] = field(default_factory=list)
    seconds: list[float] = field(default_factory=list)
    short: list[float] = field(default_factory=list)
    memory: float = 0.0


def measure_regions(
    servers: Servers,
    tasks: Tasks,
    number: int,
    regions: int,
    *,
    rounds: int = 3,
    gap: float = _GAP,
    seed: int = 0,
    say: Callable[[str], None] = print,
) -> _Parted:
    """Measure rounds on servers that are divided among Ray actors (regions).

    `servers`, `tasks`: lists from which servers and tasks are drawn. `number`: number of servers. `rounds`:
    number of recorded rounds.
    """
    from copter.problems.placement.regions import Regions  # Ray is an extra

    begun = time.perf_counter()
    steady = Steady(servers, tasks, number, gap=gap, seed=seed, make=partial(Regions, regions=regions))
    with contextlib.closing(steady.rounds) as its:
        found = _Parted(0, 0, time.perf_counter() - begun)
        say(f"{number:,} servers on {regions} actors are full")
        for count in range(-_FIRST + 1, rounds):
            begun = time.perf_counter()
            found.changed = steady.change()
            edit = time.perf_counter() - begun
            done = its.round()
            steady.placed(done.placed)
            say(f"a round in {done.seconds:.1f} s, within {done.gap:.2%}")
            if count < 0:
                found.first.append(done.seconds)
            else:
                found.edit.append(edit)
                found.seconds.append(done.seconds)
                found.short.append(done.gap)
        found.tasks = its.runs()
        found.memory = float(sum(its.memory()) + resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024)
    return found


def _measure(
    servers: Servers,
    tasks: Tasks,
    number: int,
    rounds: int,
    baselines: Sequence[str],
    gap: float,
    limit: float,
    seed: int,
) -> _Size:
    steady, size = (
        Steady(servers, tasks, number, gap=gap, seed=seed, make=placing.PlacementRounds),
        _Size(number),
    )
    size.systems = {name: _Rounds() for name in ("copter", *baselines)}
    for count in range(-_FIRST, rounds):
        begun = time.perf_counter()
        size.changed = steady.change()
        edit = time.perf_counter() - begun
        waiting = steady.rounds.waiting() if count >= -1 and baselines else None
        done = steady.rounds.round()
        steady.placed(done.placed)
        placed = {name: _timed(name, waiting, gap, limit) for name in baselines} if waiting else {}
        if count < 0:
            continue
        size.edit.append(edit)
        bound = min([done.bound, *(its.bound for _, its in placed.values())])
        size.systems["copter"].seconds.append(done.seconds)
        size.systems["copter"].short.append(_short(done.value, bound))
        for name, (seconds, its) in placed.items():
            assert waiting is not None
            size.systems[name].seconds.append(seconds)
            size.systems[name].short.append(_short(waiting.worth(its.found), bound))
        size.alone += _alone(steady, count)
    size.tasks = len(steady.rounds.running) - int(steady.rounds.running.waiting.sum())
    return size


def _short(value: float, bound: float) -> float:
    return max(0.0, 1.0 - value / bound) if bound > 0.0 else 0.0


def _timed(name: str, waiting: Waiting, gap: float, limit: float) -> tuple[float, BaselinePlacement]:
    begun = time.perf_counter()
    placed = two_stages(waiting) if name == "two-stages" else branch_and_bound(waiting, limit, gap)
    return time.perf_counter() - begun, placed


def _alone(steady: Steady[placing.PlacementRounds], count: int) -> list[float]:
    """Return the seconds of placing single tasks, each of which leaves before the next one arrives."""
    took, rng = [], np.random.default_rng(count)
    for number, kind in enumerate(steady.tasks.kind[rng.integers(len(steady.tasks), size=_ALONE)]):
        begun = time.perf_counter()
        steady.rounds.place(("alone", number), int(kind))
        took.append(time.perf_counter() - begun)
        steady.rounds.finish([("alone", number)])
    return took
