"""Servers and what each has; the reader of the node lists that Weng et al. publish."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np

from copter.arrays import Ints
from copter.errors import InputError
from copter.problems.reading import read_csv

MILLI = 1000
"""Thousandths of a GPU or of a CPU core: the unit of shares."""
MOST_GPUS = 63
"""On one server; which GPUs a task has is kept in the bits of one number, and its sign."""
MOST = 10**12
"""Thousandths of a core, or MiB, of a server or a task at most."""


@dataclass(frozen=True, eq=False)
class Servers:
    """Servers in order of their names, by which ties are broken.

    Attributes
    ----------
    cpu : (n,) ndarray
        Thousandths of a core.
    memory : (n,) ndarray
        MiB.
    gpus : (n,) ndarray
        Whole GPUs.
    model : (n,) ndarray
        Index into `models`.
    models : tuple of str
        Models of GPUs; the empty one is that of servers without.
    """

    names: tuple[str, ...]
    cpu: Ints
    memory: Ints
    gpus: Ints
    model: Ints
    models: tuple[str, ...]

    def __len__(self) -> int:
        return len(self.names)

    @cached_property
    def milli(self) -> int:
        """Thousandths of GPUs of all servers."""
        return MILLI * int(self.gpus.sum())

    def free_gpus(self) -> Ints:
        """Thousandths of each GPU of each server when nothing runs; 0 where there is none.

        Returns
        -------
        (n, m) ndarray
            m is the most GPUs of a server, and at least one.
        """
        most = max(int(self.gpus.max(initial=0)), 1)
        return np.where(np.arange(most) < self.gpus[:, None], MILLI, 0).astype(np.int64)


def read_servers(path: str | Path) -> Servers:
    """Read a node list: ``sn, cpu_milli, memory_mib, gpu, model``."""
    rows: dict[str, tuple[int, int, int, str]] = {}
    for row in read_csv(path, ("sn", "cpu_milli", "memory_mib", "gpu")):
        name, gpus, model = row.text("sn"), row.whole("gpu"), row.text("model")
        if name in rows:
            raise row.error("sn", f"{name!r} is there twice")
        fields = ("cpu_milli", "memory_mib", "gpu")
        cpu, memory = (row.whole(field) for field in fields[:2])
        for field, value in zip(fields, (cpu, memory, gpus), strict=True):
            if not 0 <= value <= MOST:
                raise row.error(field, f"{value} must be from 0 to {MOST:,}")
        if gpus > MOST_GPUS:
            raise row.error("gpu", f"{gpus} is more than {MOST_GPUS}")
        if gpus and not model:
            raise row.error("model", "is empty, and the server has GPUs")
        rows[name] = cpu, memory, gpus, model
    if not rows:
        raise InputError(path, "file", "has no servers")
    names = tuple(sorted(rows))
    models = tuple(sorted({rows[name][3] for name in names}))
    sizes = np.array([rows[name][:3] for name in names], np.int64).T.copy()
    of = np.array([models.index(rows[name][3]) for name in names], np.int64)
    return Servers(names, sizes[0], sizes[1], sizes[2], of, models)
