"""Experiments: one policy on one random order of the tasks."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from copter.problems.placement.occupancy import Fleet, Free
from copter.problems.placement.online.inflation import arrivals
from copter.problems.placement.online.plan import ReservationPlanner
from copter.problems.placement.online.play import PlayedTasks, play
from copter.problems.placement.online.policy import make_policy
from copter.problems.placement.online.reserving import CPU_WORTH
from copter.problems.placement.rounds.rounds import PlacementRounds
from copter.problems.placement.servers import Servers, read_servers
from copter.problems.placement.tasks import Tasks, read_tasks

_ROUND = 0.01
"""Number of tasks that arrive in a round, relative to the length of the list."""
_GAP = 0.01


@dataclass(frozen=True, eq=False)
class Experiment:
    """Servers, and the list from which arriving tasks are drawn.

    `half`: give policies one half of the list, chosen by the seed, and draw arriving tasks from the other
    half.
    """

    servers: Servers
    tasks: Tasks
    half: bool = False

    @classmethod
    def read(cls, nodes: Path, tasks: Path, *, half: bool = False) -> Experiment:
        """Read both files."""
        return cls(read_servers(nodes), read_tasks(tasks), half)

    def play(self, policy: str, seed: int) -> PlayedTasks:
        """Play a policy on the arrivals of a seed, which are the same for every policy."""
        known, coming = self.tasks.halves(seed) if self.half else (self.tasks, self.tasks)
        return play(make_policy(policy, self.servers, known, seed), arrivals(coming, self.servers, seed))

    def play_in_rounds(self, seed: int, moves: bool) -> float:
        """Play tasks that arrive in rounds, 1% of the list in each, until their demand is 100% of the GPUs.

        A task that finds no place is lost, as in the online protocol.

        `moves`: let as many tasks move in a round as arrive: first to make room for tasks that fit nowhere,
        then to defragment. Return the percentage of GPUs that are allocated at the end.
        """
        worth, coming = self.tasks.asked.worth, arrivals(self.tasks, self.servers, seed)
        coming = coming[: int(np.searchsorted(np.cumsum(worth[coming]), self.servers.milli)) + 1]
        rounds = PlacementRounds(
            self.servers, self.tasks.kinds, values=np.maximum(worth, CPU_WORTH), gap=_GAP
        )
        many, allocated = max(1, round(_ROUND * len(self.tasks))), 0
        for begin in range(0, coming.size, many):
            ids = range(begin, min(begin + many, coming.size))
            rounds.submit(ids, coming[begin : ids.stop])
            done = rounds.round(moves=many if moves else 0)
            if moves:
                rounds.gather(many - len(done.moved))
            rounds.finish([id for id in ids if id not in done.placed])
            allocated += sum(int(worth[coming[id]]) for id in ids if id in done.placed)
        return 100.0 * allocated / self.servers.milli

    def planned(self, seed: int) -> float:
        """Return the percentage of GPUs in a plan for the expected tasks, with fractional patterns."""
        worth = self.tasks.asked.worth
        demand = self.tasks.frequency * (self.servers.milli / float(self.tasks.frequency @ worth))
        free, fleet = Free.of(self.servers), Fleet.of(self.servers, self.tasks)
        values = np.where(worth > 0, worth, CPU_WORTH).astype(np.float64)
        planner = ReservationPlanner(free, fleet, demand, values, np.random.default_rng(seed))
        shares = planner.improve()
        each = np.array([worth[pattern.kinds].sum() for pattern in planner.patterns])
        return 100.0 * float(shares @ each) / self.servers.milli
