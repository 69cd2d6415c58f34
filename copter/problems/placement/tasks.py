"""Tasks with their requests, and the reader of the pod lists of Weng et al.

Tasks with equal requests are of one *kind*.  Policies work with kinds, of which there are hundreds for
thousands of tasks.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import NamedTuple

import numpy as np

from copter.arrays import Flags, Floats, Ints
from copter.errors import InputError
from copter.problems.placement.servers import MILLI, MOST, Servers
from copter.problems.reading import CsvRow, read_csv


class TaskKind(NamedTuple):
    """Resources that a task of this kind requests.

    Attributes
    ----------
    cpu : int
        CPU in thousandths of a core.
    memory : int
        Memory in MiB.
    gpus : int
        Number of GPUs; the task takes `milli` thousandths of each.
    milli : int
        Thousandths of each GPU; 0 without GPUs.
    models : tuple of str
        Allowed GPU models, in order of their names; empty if all are allowed.
    """

    cpu: int
    memory: int
    gpus: int
    milli: int
    models: tuple[str, ...]

    @property
    def group(self) -> str:
        """Name of the kind's group: by its number of GPUs, or `gpu-share`, or `cpu`."""
        if not self.gpus:
            return "cpu"
        return "gpu-share" if self.gpus == 1 and self.milli < MILLI else f"{self.gpus}-gpu"


@dataclass(frozen=True, eq=False)
class Tasks:
    """A list of tasks.

    Attributes
    ----------
    kinds : tuple of TaskKind
        Kinds of tasks, all different.
    kind : (k,) ndarray
        Index of each task's kind.
    """

    kinds: tuple[TaskKind, ...]
    kind: Ints

    def __len__(self) -> int:
        return self.kind.size

    @cached_property
    def frequency(self) -> Floats:
        """Share of each kind among the tasks."""
        return np.bincount(self.kind, minlength=len(self.kinds)) / max(self.kind.size, 1)

    @cached_property
    def asked(self) -> _Asked:
        """Requests of the kinds as arrays."""
        columns = [
            [getattr(kind, name) for kind in self.kinds] for name in ("cpu", "memory", "gpus", "milli")
        ]
        return _Asked(*(np.array(column, np.int64) for column in columns))

    def halves(self, seed: int) -> tuple[Tasks, Tasks]:
        """Return two random halves of the list; both keep the same `kinds`."""
        order = np.random.default_rng(seed).permutation(self.kind)
        half = order.size // 2
        return Tasks(self.kinds, order[:half]), Tasks(self.kinds, order[half:])

    def allowed(self, servers: Servers) -> Flags:
        """Return whether each kind may run on each GPU model of some servers.

        Returns
        -------
        (kinds, models) ndarray of bool
        """
        return np.array(
            [[not kind.models or model in kind.models for model in servers.models] for kind in self.kinds],
            np.bool_,
        ).reshape(len(self.kinds), len(servers.models))


class _Asked(NamedTuple):
    """Requests of kinds as (kinds,) arrays; :class:`TaskKind` has the units."""

    cpu: Ints
    memory: Ints
    gpus: Ints
    milli: Ints

    @property
    def worth(self) -> Ints:
        """Requested GPU capacity in thousandths of a GPU: share times number of GPUs."""
        return self.gpus * self.milli


def read_tasks(path: str | Path) -> Tasks:
    """Read a pod list: CSV with ``name, cpu_milli, memory_mib, num_gpu, gpu_milli`` and maybe ``gpu_spec``.

    `gpu_spec` has the allowed models, such as ``V100M16|V100M32``; other columns are ignored.
    """
    names: set[str] = set()
    kinds: dict[TaskKind, int] = {}
    kind_of: list[int] = []
    for row in read_csv(path, ("name", "cpu_milli", "memory_mib", "num_gpu", "gpu_milli")):
        name = row.text("name")
        if name in names:
            raise row.error("name", f"{name!r}: must be unique")
        names.add(name)
        kind_of.append(kinds.setdefault(_kind(row), len(kinds)))
    if not kind_of:
        raise InputError(path, "file", "must have at least one task")
    return Tasks(tuple(kinds), np.array(kind_of, np.int64))


def _kind(row: CsvRow) -> TaskKind:
    """Return the request in a row."""
    fields = ("cpu_milli", "memory_mib", "num_gpu", "gpu_milli")
    cpu, memory, gpus, milli = (row.whole(field) for field in fields)
    for field, value in zip(fields, (cpu, memory, gpus, milli), strict=True):
        if not 0 <= value <= MOST:
            raise row.error(field, f"{value}: must be from 0 to {MOST:,}")
    if gpus and not 0 < milli <= MILLI:
        raise row.error("gpu_milli", f"{milli}: must be from 1 to {MILLI}, the share of each GPU")
    models = sorted({model.strip() for model in row.text("gpu_spec").split("|")} - {""})
    return TaskKind(cpu, memory, gpus, milli if gpus else 0, tuple(models) if gpus else ())
