"""How a job really runs: the profile of its application within what may be adapted of it."""

from __future__ import annotations

import numpy as np

from copter.problems.cluster.cluster import Configuration
from copter.problems.cluster.goodput import GoodputProfile
from copter.problems.cluster.limits import LimitedProfile
from copter.problems.cluster.measured import MeasuredProfile
from copter.problems.cluster.profiles import Profile
from copter.problems.cluster.throughput import BatchChoice
from copter.problems.cluster.workload import JobSubmission, Kind

_FLEXIBILITY: dict[Kind, int] = {"rigid": 0, "strong-scaling": 1, "adaptive": 2}


def job_kind(submission: JobSubmission, policy: Kind) -> Kind:
    """What is adapted of a job under a policy: the lesser of what either allows.

    Parameters
    ----------
    policy : {"adaptive", "strong-scaling", "rigid"}
    """
    return min(submission.kind, policy, key=_FLEXIBILITY.__getitem__)


def job_profile(submission: JobSubmission, application: Profile, kind: Kind) -> Profile:
    """Profile by which a job runs: its application's, within the user's limits and what is adapted of it.

    Parameters
    ----------
    kind : {"adaptive", "strong-scaling", "rigid"}
        Of :func:`job_kind`.  Where the batch size is not adapted it is the submission's, and the user's limit
        on what may be adapted does not matter; nor does it for profiles that know of no batch sizes.

    Returns
    -------
    Profile
        The same object for equal arguments, as far as the application keeps them.
    """
    profile = application
    if kind != "adaptive":
        profile = profile.at_fixed_batch(submission.batch_size)
    elif submission.max_batch_size is not None and isinstance(profile, GoodputProfile | MeasuredProfile):
        profile = profile.with_max_batch(submission.max_batch_size)
    least, most = submission.min_gpus, submission.max_gpus
    if least is None and most is None:
        return profile
    if isinstance(profile, GoodputProfile):
        return profile.with_gpus(least, most)
    return LimitedProfile(profile, least, most)


def batch_choice(profile: Profile, configuration: Configuration, progress: float) -> BatchChoice | None:
    """Batch size, passes and learning rate with which a job trains.

    Parameters
    ----------
    configuration : Configuration
        That it holds.
    progress : float
        So far.

    Returns
    -------
    BatchChoice or None
        None where the profile knows of no batch sizes, or the job does not run under the configuration.
    """
    inner = profile.profile if isinstance(profile, LimitedProfile) else profile
    if not isinstance(inner, GoodputProfile | MeasuredProfile):
        return None
    level = int(inner.level(np.array([progress]))[0])
    return inner.best_batch(configuration, level) if profile.curve(configuration)[level] > 0 else None
