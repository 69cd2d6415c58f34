"""Tasks and what each asks for; the reader of the pod lists that Weng et al. publish.

Tasks that ask for the same are of one *kind*: policies look at kinds, of which there are hundreds where there
are thousands of tasks.
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
    """What a task asks for.

    Attributes
    ----------
    cpu : int
        Thousandths of a core.
    memory : int
        MiB.
    gpus : int
        How many GPUs; each gives `milli`.
    milli : int
        Thousandths of each GPU; 0 without GPUs.
    models : tuple of str
        Models that it may have, in order; none stands for any.
    """

    cpu: int
    memory: int
    gpus: int
    milli: int
    models: tuple[str, ...]

    @property
    def group(self) -> str:
        """What users call such a task: by its GPUs, or `gpu-share`, or `cpu`."""
        if not self.gpus:
            return "cpu"
        return "gpu-share" if self.gpus == 1 and self.milli < MILLI else f"{self.gpus}-gpu"


@dataclass(frozen=True, eq=False)
class Tasks:
    """A list of tasks.

    Attributes
    ----------
    kinds : tuple of TaskKind
        All different.
    kind : (k,) ndarray
        Index of each task's kind.
    """

    kinds: tuple[TaskKind, ...]
    kind: Ints

    def __len__(self) -> int:
        return self.kind.size

    @cached_property
    def frequency(self) -> Floats:
        """Share of the tasks that are of each kind."""
        return np.bincount(self.kind, minlength=len(self.kinds)) / max(self.kind.size, 1)

    @cached_property
    def asked(self) -> _Asked:
        """The kinds as arrays."""
        columns = [
            [getattr(kind, name) for kind in self.kinds] for name in ("cpu", "memory", "gpus", "milli")
        ]
        return _Asked(*(np.array(column, np.int64) for column in columns))

    def halves(self, seed: int) -> tuple[Tasks, Tasks]:
        """Return two halves of the list, drawn at random; both have all kinds."""
        order = np.random.default_rng(seed).permutation(self.kind)
        half = order.size // 2
        return Tasks(self.kinds, order[:half]), Tasks(self.kinds, order[half:])

    def allowed(self, servers: Servers) -> Flags:
        """Whether each kind may run on each model of GPUs of some servers.

        Returns
        -------
        (kinds, models) ndarray
        """
        return np.array(
            [[not kind.models or model in kind.models for model in servers.models] for kind in self.kinds],
            np.bool_,
        ).reshape(len(self.kinds), len(servers.models))


class _Asked(NamedTuple):
    """What kinds ask for, as (kinds,) arrays; :class:`TaskKind` has the units."""

    cpu: Ints
    memory: Ints
    gpus: Ints
    milli: Ints

    @property
    def worth(self) -> Ints:
        """Thousandths of GPUs in all."""
        return self.gpus * self.milli


def read_tasks(path: str | Path) -> Tasks:
    """Read a pod list: ``name, cpu_milli, memory_mib, num_gpu, gpu_milli`` and, if it is there, ``gpu_spec``.

    `gpu_spec` has the models allowed, ``V100M16|V100M32``; other columns are passed over.
    """
    names: set[str] = set()
    kinds: dict[TaskKind, int] = {}
    kind_of: list[int] = []
    for row in read_csv(path, ("name", "cpu_milli", "memory_mib", "num_gpu", "gpu_milli")):
        name = row.text("name")
        if name in names:
            raise row.error("name", f"{name!r} is there twice")
        names.add(name)
        kind_of.append(kinds.setdefault(_kind(row), len(kinds)))
    if not kind_of:
        raise InputError(path, "file", "has no tasks")
    return Tasks(tuple(kinds), np.array(kind_of, np.int64))


def _kind(row: CsvRow) -> TaskKind:
    """Return what a row asks for."""
    fields = ("cpu_milli", "memory_mib", "num_gpu", "gpu_milli")
    cpu, memory, gpus, milli = (row.whole(field) for field in fields)
    for field, value in zip(fields, (cpu, memory, gpus, milli), strict=True):
        if not 0 <= value <= MOST:
            raise row.error(field, f"{value} must be from 0 to {MOST:,}")
    if gpus and not 0 < milli <= MILLI:
        raise row.error("gpu_milli", f"{milli} must be from 1 to {MILLI}, a share of each GPU")
    models = sorted({model.strip() for model in row.text("gpu_spec").split("|")} - {""})
    return TaskKind(cpu, memory, gpus, milli if gpus else 0, tuple(models) if gpus else ())
