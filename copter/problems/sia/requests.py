"""The jobs' requests in the program, kept up to date with as few edits as the events need."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from typing import TypeAlias

import numpy as np

from copter.arrays import Floats, Ints
from copter.problems.cluster.cluster import GpuLimit
from copter.problems.sia.columns import (
    CostRow,
    JobChoices,
    Objective,
    TemplateCache,
    restart_factor,
)
from copter.problems.sia.jobs import FREE, NONE, PINNED, JobTable
from copter.program.program import ContinualProgram

Pick: TypeAlias = tuple[CostRow, JobChoices, int]
"""Costs and choices of a job, and its mode."""
_PIECE = 1 << 21
"""Number of columns to add in one call, so that temporary copies are small relative to a large program."""


class JobRequests:
    """State of each job's request in the program, by slot of the job table."""

    def __init__(self, program: ContinualProgram, table: JobTable) -> None:
        self.program, self.table = program, table
        self.templates = TemplateCache(program)
        self._choices: dict[int, JobChoices] = {}
        self._costs: dict[int, Floats] = {}

    def choices(self, slot: int) -> JobChoices:
        """Return the column set of a job."""
        return self._choices[slot]

    def configurations(self, slots: Ints, columns: Ints) -> Ints:
        """Return the configuration of one column of each job; fast where it is the job's current one.

        `slots`, `columns`: slot and column of each job; a negative column denotes no column. The result is
        negative for no configuration.
        """
        table = self.table
        mode, held = table.sent_mode[slots], table.sent_current[slots]
        nothing = np.where(mode == FREE, 0, NONE)
        same = np.where(mode == PINNED, 0, np.where(held >= 0, table.column[slots], nothing))
        picked = np.where((columns == same) & (columns >= 0), held, NONE)
        for at in np.flatnonzero((columns != same) & (columns >= 0)).tolist():
            picked[at] = self._choices[int(slots[at])].columns[columns[at]]
        return picked

    def drop(self, slot: int) -> None:
        """Drop the state of a job whose request will be removed."""
        self.templates.release(self._choices.pop(slot).key)
        del self._costs[slot]

    def sweep(self) -> None:
        """Drop shared columns without users, if there are many."""
        self.templates.sweep()

    def add(
        self,
        jobs: Mapping[int, Hashable],
        slots: Iterable[int],
        picks: Mapping[int, Pick],
        limits: Sequence[GpuLimit],
    ) -> None:
        """Add the requests of jobs that arrived, in bulk for each set of columns."""
        groups: dict[tuple[bool, bytes], list[int]] = {}
        for slot in slots:
            row, choices, _ = picks[slot]
            self._choices[slot], self._costs[slot] = choices, row.block(choices)
            groups.setdefault(choices.key, []).append(slot)
        self.program.reserve(sum(self._costs[group[0]].size * len(group) for group in groups.values()))
        for group in groups.values():
            templates = [self.templates.take(self._choices[slot], limits) for slot in group]
            piece = max(1, _PIECE // templates[0].n_columns)
            for some in (group[k : k + piece] for k in range(0, len(group), piece)):
                self.program.add_requests(
                    [jobs[slot] for slot in some],
                    np.concatenate([self._costs[slot] for slot in some]),
                    np.full(len(some), templates[0].n_columns),
                    templates[0],
                    totals=np.ones(len(some)),
                    relation="==",
                    integral=True,
                )
            slot_of = self.program.slot_of
            self.table.request[group] = [slot_of[jobs[slot]] for slot in group]

    def refresh(
        self, jobs: Mapping[int, Hashable], picks: Mapping[int, Pick], limits: Sequence[GpuLimit]
    ) -> None:
        """Update the columns and costs of jobs; unchanged jobs need no edit."""
        table, slots = self.table, np.fromiter(picks, np.int64, len(picks))
        held, column, price = table.current[slots].tolist(), [], []
        recosted: list[int] = []
        replaced: dict[int, tuple[JobChoices, int]] = {}
        for (slot, (row, choices, mode)), current in zip(picks.items(), held, strict=True):
            costs, old, last = row.block(choices), self._choices[slot], self._costs[slot]
            at = choices.find(current) if current >= 0 and mode != PINNED else NONE
            column.append(at)
            price.append(costs[at])
            if choices.key != old.key:
                replaced[slot] = old, 0 if mode == PINNED else max(at, 0)
            elif costs is not last and not np.array_equal(costs, last):
                recosted.append(slot)
            self._choices[slot], self._costs[slot] = choices, costs
        table.sent_mode[slots] = [mode for _, _, mode in picks.values()]
        table.column[slots], table.column_cost[slots] = column, price
        if replaced:
            self._replace(jobs, replaced, picks, limits)
        if recosted:
            names = [jobs[slot] for slot in recosted]
            self.program.update_requests(names, costs=[self._costs[slot] for slot in recosted])

    def _replace(
        self,
        jobs: Mapping[int, Hashable],
        replaced: Mapping[int, tuple[JobChoices, int]],
        picks: Mapping[int, Pick],
        limits: Sequence[GpuLimit],
    ) -> None:
        """Change the columns of some jobs' requests; `replaced` has the old columns and the start column."""
        templates = [self.templates.take(self._choices[slot], limits) for slot in replaced]
        starts = np.array([start for _, start in replaced.values()], np.int64)
        self.program.update_requests(
            [jobs[slot] for slot in replaced],
            costs=[self._costs[slot] for slot in replaced],
            usage=templates,
            starts=(np.ones_like(starts), starts, np.ones(starts.size)),
        )
        for old, _ in replaced.values():
            self.templates.release(old.key)

    def rescale(self, jobs: Mapping[int, Hashable], slots: Ints, objective: Objective, now: float) -> None:
        """Set restart factors as scales, and the two costs to which they do not apply as overrides.

        A job without GPUs has no restart factor, because every configuration costs it the same restart.

        `jobs`: name of the job in each slot. `slots`: slots of the jobs to update. `now`: seconds.
        """
        if not slots.size:
            return
        table = self.table
        holds = table.column[slots] >= 0
        age, seconds = now - table.submitted[slots], table.restart_seconds[slots]
        factor = np.where(holds, restart_factor(age, table.restarts[slots], seconds), 1.0)
        given = np.column_stack((table.sent_mode[slots] == FREE, holds))
        columns = np.column_stack((np.zeros(slots.size, np.int64), table.column[slots]))
        costs = np.column_stack((table.penalty[slots], table.column_cost[slots]))
        self.program.update_requests(
            [jobs[slot] for slot in slots.tolist()],
            scales=objective.scales(factor),
            overrides=(given.sum(1), columns[given], costs[given]),
        )
