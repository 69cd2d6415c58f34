"""Fragments: free GPU capacity of a server that a task cannot use, as a mean over typical types of tasks.

If a type m requests no GPU or does not fit on a server, all free GPU capacity of the server counts as
fragments; memory is not checked.  Otherwise the fragments are the free capacity of those GPUs that have less
free than m requests of one GPU.  A type is a combination of requested CPU, GPUs, milli-GPUs per GPU and
allowed GPU models.  The typical types are the most frequent combinations, as few as cover at least 95% of the
tasks.

Source: Weng et al. (ATC 2023), section 4.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from copter.arrays import Flags, Floats, Ints
from copter.compile.kernels import kernel
from copter.problems.placement.servers import Servers
from copter.problems.placement.tasks import Tasks

_TYPICAL = 0.95
"""Smallest share of the tasks that the typical types cover."""


class Types(NamedTuple):
    """Typical types of tasks.

    `cpu`, `gpus`, `milli` (t,). `allowed` (t, models). `share` (t,): share among the tasks of typical types,
    with sum 1.
    """

    cpu: Ints
    gpus: Ints
    milli: Ints
    allowed: Flags
    share: Floats

    @classmethod
    def of(cls, known: Tasks, servers: Servers, up_to: float = _TYPICAL) -> Types:
        """Return the most frequent types, as few as cover at least the share `up_to` of the tasks."""
        count: dict[tuple[int, int, int, tuple[str, ...]], int] = {}
        allowed = known.allowed(servers)
        first: dict[tuple[int, int, int, tuple[str, ...]], int] = {}
        for index, number in enumerate(np.bincount(known.kind, minlength=len(known.kinds))):
            kind = known.kinds[index]
            key = kind.cpu, kind.gpus, kind.milli, kind.models
            count[key] = count.get(key, 0) + int(number)
            first.setdefault(key, index)
        chosen, total = list[tuple[int, int, int, tuple[str, ...]]](), 0
        for key in sorted(count, key=lambda key: (-count[key], key)):
            if total >= up_to * len(known) or not count[key]:
                break
            chosen.append(key)
            total += count[key]
        at = [first[key] for key in chosen]
        cpu, gpus, milli = (np.array([key[place] for key in chosen], np.int64) for place in range(3))
        share = np.array([count[key] for key in chosen]) / max(total, 1)
        return cls(cpu, gpus, milli, allowed[at], share)


@kernel(inner=True)
def fragments(cpu: int, left: Ints, model: int, types: Types) -> float:
    """Return the mean fragments of a server with free `cpu` and the free capacity `left` of each GPU."""
    total, mean = int(left.sum()), 0.0
    if total == 0:
        return 0.0
    for type in range(types.cpu.size):
        milli, wanted = types.milli[type], types.gpus[type]
        fragments = total
        if wanted and types.cpu[type] <= cpu and types.allowed[type, model]:
            enough, short = 0, 0
            for gpu in range(left.size):
                if left[gpu] >= milli:
                    enough += 1
                else:
                    short += left[gpu]
            if enough >= wanted:
                fragments = short
        mean += types.share[type] * fragments
    return mean
