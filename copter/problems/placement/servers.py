"""Servers with their capacities, and the reader of the node lists of Weng et al."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np

from copter.arrays import Ints
from copter.errors import InputError
from copter.problems.reading import read_csv

MILLI = 1000
"""Thousandths in a GPU or a CPU core: the unit of shares."""
MOST_GPUS = 63
"""Largest number of GPUs on a server, because a set of GPUs is stored in the bits of an int64."""
MOST = 10**12
"""Largest CPU (thousandths of a core) or memory (MiB) of a server or a task."""


@dataclass(frozen=True, eq=False)
class Servers:
    """Servers in ascending order of their names; the order breaks ties.

    Attributes
    ----------
    names : tuple of str
        Names of the servers.
    cpu : (n,) ndarray
        CPU in thousandths of a core.
    memory : (n,) ndarray
        Memory in MiB.
    gpus : (n,) ndarray
        Number of GPUs.
    model : (n,) ndarray
        Index of the GPU model in `models`.
    models : tuple of str
        Names of GPU models; the empty name is for servers without GPUs.
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
        """GPU capacity of all servers in thousandths of a GPU."""
        return MILLI * int(self.gpus.sum())

    def free_gpus(self) -> Ints:
        """Return the capacity of each GPU of each server in thousandths; 0 where a server has no such GPU.

        Returns
        -------
        (n, m) ndarray
            m is the largest number of GPUs of a server, at least 1.
        """
        most = max(int(self.gpus.max(initial=0)), 1)
        return np.where(np.arange(most) < self.gpus[:, None], MILLI, 0).astype(np.int64)


def read_servers(path: str | Path) -> Servers:
    """Read a node list: CSV with the columns ``sn, cpu_milli, memory_mib, gpu, model``."""
    rows: dict[str, tuple[int, int, int, str]] = {}
    for row in read_csv(path, ("sn", "cpu_milli", "memory_mib", "gpu")):
        name, gpus, model = row.text("sn"), row.whole("gpu"), row.text("model")
        if name in rows:
            raise row.error("sn", f"{name!r}: must be unique")
        fields = ("cpu_milli", "memory_mib", "gpu")
        cpu, memory = (row.whole(field) for field in fields[:2])
        for field, value in zip(fields, (cpu, memory, gpus), strict=True):
            if not 0 <= value <= MOST:
                raise row.error(field, f"{value}: must be from 0 to {MOST:,}")
        if gpus > MOST_GPUS:
            raise row.error("gpu", f"{gpus}: must be at most {MOST_GPUS}")
        if gpus and not model:
            raise row.error("model", "must be given, because the server has GPUs")
        rows[name] = cpu, memory, gpus, model
    if not rows:
        raise InputError(path, "file", "must have at least one server")
    names = tuple(sorted(rows))
    models = tuple(sorted({rows[name][3] for name in names}))
    sizes = np.array([rows[name][:3] for name in names], np.int64).T.copy()
    of = np.array([models.index(rows[name][3]) for name in names], np.int64)
    return Servers(names, sizes[0], sizes[1], sizes[2], of, models)
