"""Slowdown of distributed jobs that share a node (Pollux section 5.3.2).

Jobs of more than one node synchronise over the network; two of them on a node compete for its card.  The
paper injects slowdowns of 0 to 50% for each distributed job that shares a node with another.
"""

from __future__ import annotations

from collections.abc import Mapping

from copter.problems.cluster.jobs import JobState


class SharedNodes:
    """Every distributed job that shares a node with another one runs slower by the same share.

    Parameters
    ----------
    slowdown : float
        0.5 halves the speed.
    """

    def __init__(self, slowdown: float) -> None:
        if not 0 <= slowdown < 1:
            raise ValueError(f"slowdown = {slowdown}: must be at least 0 and below 1")
        self._factor = 1.0 - slowdown

    def factors(self, jobs: Mapping[str, JobState]) -> dict[str, float]:
        """Factor on the speed of each running job that is not 1.

        Parameters
        ----------
        jobs : mapping of str to JobState

        Returns
        -------
        dict of str to float
        """
        if self._factor == 1.0:
            return {}
        on: dict[tuple[str, int], list[str]] = {}
        for name, job in jobs.items():
            if job.allocation is not None and job.place is not None and len(job.place) > 1:
                for node, _ in job.place:
                    on.setdefault((job.allocation.type, node), []).append(name)
        return {name: self._factor for names in on.values() if len(names) > 1 for name in names}
