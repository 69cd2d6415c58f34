"""How a job really runs: the profile of its application within what may be adapted of it."""

from __future__ import annotations

from copter.problems.cluster.profiles import Profile
from copter.problems.cluster.workload import JobSubmission, Kind

_FLEXIBILITY: dict[Kind, int] = {"rigid": 0, "strong-scaling": 1, "adaptive": 2}


def job_kind(submission: JobSubmission, policy: Kind) -> Kind:
    """What is adapted of a job under a policy: the lesser of what either allows.

    Parameters
    ----------
    submission : JobSubmission
    policy : {"adaptive", "strong-scaling", "rigid"}

    Returns
    -------
    str
    """
    return min(submission.kind, policy, key=_FLEXIBILITY.__getitem__)


def job_profile(submission: JobSubmission, application: Profile, kind: Kind) -> Profile:
    """Profile by which a job runs: its application's, at a fixed batch size if that is not adapted.

    Parameters
    ----------
    submission : JobSubmission
    application : Profile
    kind : {"adaptive", "strong-scaling", "rigid"}
        Of :func:`job_kind`.

    Returns
    -------
    Profile
        The same object for equal arguments, as far as the application keeps them.
    """
    return application if kind == "adaptive" else application.at_fixed_batch(submission.batch_size)
