"""SRPT: shortest remaining run time first, as much as fits, anew each round.

Run time left is that at the speed of now on the job's fastest type.  Jobs go to the type with
room on which they complete first, restarts counted.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from copter.problems.cluster.cluster import Configuration
from copter.problems.cluster.policy import ClusterState
from copter.problems.cluster.workload import Kind
from copter.problems.rivals.rigid import ROUND_SECONDS, look


class ShortestFirst:
    """The policy."""

    name = "srpt"
    kind: Kind = "rigid"

    def __init__(self, *, round_seconds: float = ROUND_SECONDS) -> None:
        self.round_seconds: float | None = round_seconds

    def schedule(self, now: ClusterState) -> Mapping[str, Configuration]:
        """The shortest jobs that fit, see :class:`~copter.problems.cluster.policy.Policy`."""
        here = look(now)
        order = np.argsort(here.seconds_left.min(axis=1, initial=np.inf), kind="stable").tolist()
        return here.allocation(here.pack((job, here.preferences(job)) for job in order))
