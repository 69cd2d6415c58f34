"""Input and result of the Sia policy."""

from __future__ import annotations

import math
from collections.abc import Hashable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from copter.arrays import Ints
from copter.errors import CopterError
from copter.problems.cluster.cluster import Configuration
from copter.problems.cluster.profiles.base import Profile
from copter.problems.cluster.workload import Kind
from copter.program.program import ContinualProgram
from copter.rounds.record import Move

if TYPE_CHECKING:
    from copter.shims.choose_one import Rounded
    from copter.solution import Solution


_NOTHING = np.empty(0, np.int64), np.empty(0, np.int64)


class SiaError(CopterError, ValueError):
    """An event is invalid; the message names the job or the GPU type."""


class InfeasibleRoundError(CopterError, RuntimeError):
    """Jobs that must have GPUs do not fit on the cluster."""


@dataclass(frozen=True)
class SiaJob:
    """A job of the policy, with its own profile.

    A SiaJob is not a :class:`~copter.problems.cluster.workload.JobSubmission`, because a scheduler outside
    the simulator may have ids of any kind, and a clock that begins after the submission of its jobs.  The
    policy rejects an invalid job with a :class:`SiaError`.

    Attributes
    ----------
    id : hashable
        Unique id of the job.
    profile : Profile
        Goodput of the job by configuration and level.
    submitted : float
        Time of submission in seconds, on the clock of :meth:`SiaPolicy.round`.
    kind : {"adaptive", "strong-scaling", "rigid"}
        What the policy may adapt.
    gpus : int, optional
        GPU count of a rigid job.
    preemptible, reserved : bool
        Whether the job may lose or change its GPUs; whether it must get GPUs in every round.
    min_gpus, max_gpus : int, optional
        Limits of the user on the GPUs of a job that is not rigid (thesis section 3.3.1).
    """

    id: Hashable
    profile: Profile
    submitted: float = 0.0
    kind: Kind = "adaptive"
    gpus: int | None = None
    preemptible: bool = True
    reserved: bool = False
    min_gpus: int | None = None
    max_gpus: int | None = None


@dataclass(frozen=True)
class SiaRound:
    """Result of a round.

    Attributes
    ----------
    allocation : dict of job id to Configuration or None
        The configuration of every job.
    changes : dict of job id to Configuration or None
        The new configuration of each job whose configuration changed.
    released : list of job ids
        Jobs in a restart that need not keep their configuration any more, because nodes went away.
    solution, rounded
        Answers of the solver and of the shim.  Both are None in a missed round.
    churn : float
        Integral churn: share of the jobs of the last round whose configuration changed; NaN if none of these
        jobs is left.
    moves : tuple of Move
        The changes, with the jobs' former configurations, and GPUs as the amounts.
    binding : mapping of GPU type to float
        Dual prices of the types whose GPUs are all in use.
    taken : (k,) and (k,) ndarrays
        The changes as slots of jobs and indices of configurations, -1 for no configuration.
    """

    allocation: dict[Hashable, Configuration | None]
    changes: dict[Hashable, Configuration | None]
    released: list[Hashable]
    solution: Solution | None
    rounded: Rounded | None
    churn: float = math.nan
    moves: tuple[Move, ...] = ()
    binding: Mapping[Hashable, float] = field(default_factory=dict)
    taken: tuple[Ints, Ints] = field(default=_NOTHING, repr=False)

    def __getstate__(self) -> dict[str, Any]:
        return vars(self) | {"solution": None}  # a solution refers to the state of the program

    @property
    def objective(self) -> float:
        """Cost of the allocation; NaN for a missed round."""
        return math.nan if self.rounded is None else self.rounded.objective

    @property
    def gap(self) -> float:
        """Certified gap of the allocation; infinite for a missed round."""
        return math.inf if self.rounded is None else self.rounded.gap


class JobShim(Protocol):
    """Shim that makes an integral allocation from a fractional one."""

    def round(self, program: ContinualProgram, solution: Solution) -> Rounded:
        """Return an integral allocation near a solution."""
