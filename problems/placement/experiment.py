"""One policy, one order of the tasks: what is played, from the files that it is read from."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from copter.errors import InputError
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
            What is wrong in one of them; or there are no GPUs, by which demand is measured.
        """
        servers, listed = read_servers(nodes), read_tasks(tasks)
        if not servers.milli:
            raise InputError(nodes, "gpu", "no server has GPUs, by which demand is measured")
        if not listed.asked.worth.any():
            raise InputError(tasks, "num_gpu", "no task asks for GPUs, by which demand is measured")
        if half and any(not part.asked.worth[part.kind].any() for part in listed.halves(0)):
            raise InputError(tasks, "file", "has too few tasks with GPUs for two halves")
        return cls(servers, listed, half)

    def play(self, policy: str, seed: int) -> Course:
        """Let tasks come in the order of a seed, which is the same for every policy.

        Raises
        ------
        PlacementError
            There is no such policy.
        """
        known, coming = self.tasks.halves(seed) if self.half else (self.tasks, self.tasks)
        return play(make_policy(policy, self.servers, known, seed), arrivals(coming, self.servers, seed))
