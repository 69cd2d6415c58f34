"""Experiments: one policy on one random order of the tasks."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from copter.problems.placement.online.inflation import arrivals
from copter.problems.placement.online.play import PlayedTasks, play
from copter.problems.placement.online.policy import make_policy
from copter.problems.placement.servers import Servers, read_servers
from copter.problems.placement.tasks import Tasks, read_tasks


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
        """Play a policy on the arrivals of a seed, which do not depend on the policy."""
        known, coming = self.tasks.halves(seed) if self.half else (self.tasks, self.tasks)
        return play(make_policy(policy, self.servers, known, seed), arrivals(coming, self.servers, seed))
