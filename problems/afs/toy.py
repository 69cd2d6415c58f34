"""The toy example of appendix A: two jobs on two GPUs, and jobs that come later.

A and B take 2 h on one GPU; on two A takes 1 h and B 1.5 h.  Later jobs take 2 h on one and x h on two; the
first comes after 1 h, each other x h after the one before.
"""

from __future__ import annotations

from copter.problems.afs.study import play
from copter.problems.cluster.cluster import Cluster, GpuType
from copter.problems.cluster.profiles.base import Profile
from copter.problems.cluster.profiles.tables import CountProfile
from copter.problems.cluster.workload import JobSubmission, Scenario

RULES = ("srtf", "max-min", "afs-l", "afs-p")
_HOURS_ALONE = 2.0


def toy_hours(policy: str, later: int, hours_on_two: float = 1.5) -> float:
    """Average JCT of the example.

    Parameters
    ----------
    policy : str
        Jobs ask for both GPUs where it is for rigid jobs.
    later : int
        Jobs after A and B.
    hours_on_two : float
        x.

    Returns
    -------
    float
        Hours, over all jobs.
    """
    seconds_on_two = {"A": 1.0, "B": 1.5} | {f"later {k}": hours_on_two for k in range(later)}
    times = {"A": 0.0, "B": 0.0} | {f"later {k}": 1.0 + k * hours_on_two for k in range(later)}
    profiles: dict[str, Profile] = {}
    for name, hours in seconds_on_two.items():
        speed = {"gpu": [1.0, _HOURS_ALONE / hours]}
        profiles[name] = CountProfile(name, 0.0, _HOURS_ALONE * 3600.0, [1, 2], speed)
    jobs = [
        JobSubmission(name, 3600.0 * time, "", name, kind="strong-scaling", tuned_gpus=2)
        for name, time in times.items()
    ]
    return play(Scenario(Cluster([GpuType("gpu", 2, 1)]), jobs, profiles), policy).mean_hours
