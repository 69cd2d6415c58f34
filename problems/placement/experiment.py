"""One policy, one order of the tasks: what is played, from the files that it is read from."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from copter.problems.placement.inflation import arrivals
from copter.problems.placement.online import Course, play
from copter.problems.placement.policy import make_policy
from copter.problems.placement.servers import Servers, read_servers
from copter.problems.placement.tasks import Tasks, read_tasks


@dataclass(frozen=True, eq=False)
class Experiment:
    """Servers, and the list that tasks are drawn from.

    Attributes
    ----------
    half : bool
        Whether policies know one half of the list, drawn by the seed, and tasks of the other come.
    """

    servers: Servers
    tasks: Tasks
    half: bool = False

    @classmethod
    def read(cls, nodes: Path, tasks: Path, *, half: bool = False) -> Experiment:
        """Read both files.

        Raises
        ------
        InputError
            What is wrong in one of them.
        """
        return cls(read_servers(nodes), read_tasks(tasks), half)

    def play(self, policy: str, seed: int) -> Course:
        """Let tasks come in the order of a seed, which is the same for every policy.

        Raises
        ------
        PlacementError
            There is no such policy; no server has GPUs, or no task that comes asks for any.
        """
        known, coming = self.tasks.halves(seed) if self.half else (self.tasks, self.tasks)
        return play(make_policy(policy, self.servers, known, seed), arrivals(coming, self.servers, seed))
