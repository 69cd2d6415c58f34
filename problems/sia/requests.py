"""The jobs' requests in the program: added, edited and priced as little as what happened asks for."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from copter.problems.cluster.cluster import Configurations
from copter.problems.sia.columns import Choices, CostRow, TemplateCache
from copter.problems.sia.jobs import NONE, JobTable
from copter.problems.sia.modes import FREE, PINNED
from copter.problems.sia.objective import Objective, restart_factor
from copter.program.program import ContinualProgram

Pick: TypeAlias = tuple[CostRow, Choices, int]
"""Costs and choices of a job, and its mode."""
_PIECE = 1 << 21
"""Columns that are added at once: the copies that a call makes of them are small beside a large program."""


class Requests:
    """What the program was told about each job, by slot of the job table.

    Parameters
    ----------
    program : ContinualProgram
    table : JobTable
    """

    def __init__(self, program: ContinualProgram, table: JobTable) -> None:
        self.program, self.table = program, table
        self.templates = TemplateCache(program)
        self._choices: dict[int, Choices] = {}
        self._costs: dict[int, NDArray[np.float64]] = {}

    def choices(self, slot: int) -> Choices:
        """What a job chooses from."""
        return self._choices[slot]

    def drop(self, slot: int) -> None:
        """Forget a job whose request is to be removed."""
        self.templates.release(self._choices.pop(slot))
        del self._costs[slot]

    def add(
        self,
        jobs: Mapping[int, Hashable],
        slots: Iterable[int],
        picks: Mapping[int, Pick],
        configurations: Configurations,
    ) -> None:
        """Requests of jobs that arrived, in bulk for each set of columns.

        Parameters
        ----------
        jobs : mapping of int to hashable
            Name of the job in each slot.
        slots : iterable of int
            Of those that arrived.
        picks : mapping of int to Pick
        configurations : Configurations
        """
        groups: dict[tuple[bool, bytes], list[int]] = {}
        for slot in slots:
            row, choices, _ = picks[slot]
            self._choices[slot], self._costs[slot] = choices, row.block(choices)
            groups.setdefault(choices.key, []).append(slot)
        self.program.reserve(sum(self._costs[group[0]].size * len(group) for group in groups.values()))
        for group in groups.values():
            templates = [self.templates.take(self._choices[slot], configurations) for slot in group]
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

    def refresh(
        self, jobs: Mapping[int, Hashable], picks: Mapping[int, Pick], configurations: Configurations
    ) -> None:
        """Bring choices and costs of jobs up to date; unchanged ones cost nothing.

        Parameters
        ----------
        jobs : mapping of int to hashable
            Name of the job in each slot.
        picks : mapping of int to Pick
            Of the slots to look at.
        configurations : Configurations
        """
        recosted: dict[Hashable, NDArray[np.float64]] = {}
        for slot, pick in picks.items():
            if (costs := self._refresh(slot, jobs[slot], pick, configurations)) is not None:
                recosted[jobs[slot]] = costs
        if recosted:
            self.program.update_requests(list(recosted), costs=list(recosted.values()))

    def _refresh(
        self, slot: int, job: Hashable, pick: Pick, configurations: Configurations
    ) -> NDArray[np.float64] | None:
        """Give the program a job's columns, if others; returns its costs if only they have changed."""
        (row, choices, mode), table = pick, self.table
        recosted = None
        costs, old = row.block(choices), self._choices[slot]
        current = int(table.current[slot])
        table.sent_mode[slot] = mode
        table.column[slot] = column = choices.find(current) if current >= 0 and mode != PINNED else NONE
        if column >= 0:
            table.column_cost[slot] = costs[column]
        if choices.key != old.key:
            template = self.templates.take(choices, configurations)
            start = {0 if mode == PINNED else max(column, 0): 1.0}
            self.program.update_request(job, costs=costs, usage=template, start=start)
            self.templates.release(old)
        elif costs is not self._costs[slot] and not np.array_equal(costs, self._costs[slot]):
            recosted = costs
        self._choices[slot], self._costs[slot] = choices, costs
        return recosted

    def rescale(
        self, jobs: Mapping[int, Hashable], slots: NDArray[np.int64], objective: Objective, now: float
    ) -> None:
        """Restart factors as scales, and the two costs that they do not touch as overrides.

        A job that holds nothing is not discounted: wherever it resumes it pays the same restart.

        Parameters
        ----------
        jobs : mapping of int to hashable
            Name of the job in each slot.
        slots : (n,) int array
            Of the jobs to price anew.
        objective : Objective
        now : float
            Seconds.
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
