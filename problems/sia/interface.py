"""What a scheduler hands to the Sia policy, and what it gets back."""

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
    """An event that makes no sense: names the job or GPU type."""


class InfeasibleRoundError(CopterError, RuntimeError):
    """Jobs that must have GPUs do not fit into the cluster."""


@dataclass(frozen=True)
class SiaJob:
    """A job as it is handed to the policy, with the profile that is its own.

    It is no :class:`~copter.problems.cluster.workload.JobSubmission`: a scheduler outside of the simulator
    has ids of any kind and a clock that may begin after its jobs came, and a job that makes no sense is
    refused by the policy, as a :class:`SiaError`.

    Attributes
    ----------
    submitted : float
        Seconds, on the clock of :meth:`SiaPolicy.round`.
    gpus : int, optional
        GPU count of a rigid job.
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
    """What a round decided.

    Attributes
    ----------
    allocation : dict of job id to Configuration or None
        The allocation of every job.
    changes : dict of job id to Configuration or None
        The changes of the jobs whose allocation changed.
    released : list of job ids
        Jobs that were restarting on nodes that went away.
    solution, rounded
        Answers of the solver and of the shim; the latter None in a missed round, and the former until a round
        was played.
    edit_seconds, solve_seconds, shim_seconds : float
        Seconds of the policy by the solver's own clock (:meth:`copter.solvers.base.Solver.seconds`).  For
        copter's solvers the edit is `store_seconds`, and the solve has the certificate in it; for a baseline
        they are the push of its own model and the solver's own run.
    store_seconds : float
        Events turned into edits of the program.
    certify_seconds : float
        What is on no clock: a baseline's answer read and certified.
    churn : float
        Integral churn: share of the jobs that were there in the round before whose configuration changed;
        NaN if none were.
    moves : tuple of Move
        The changes, with what the jobs had before, and GPUs as the amounts.
    binding : mapping of GPU type to float
        Types of which all GPUs are asked for, with their prices.
    taken : (k,) and (k,) ndarrays
        The changes by the policy's slots and numbers of configurations, -1 for none.
    """

    allocation: dict[Hashable, Configuration | None]
    changes: dict[Hashable, Configuration | None]
    released: list[Hashable]
    solution: Solution | None
    rounded: Rounded | None
    edit_seconds: float = 0.0
    solve_seconds: float = 0.0
    shim_seconds: float = 0.0
    store_seconds: float = 0.0
    certify_seconds: float = 0.0
    churn: float = math.nan
    moves: tuple[Move, ...] = ()
    binding: Mapping[Hashable, float] = field(default_factory=dict)
    taken: tuple[Ints, Ints] = field(default=_NOTHING, repr=False)

    def __getstate__(self) -> dict[str, Any]:
        return vars(self) | {"solution": None}  # it has the state of the program at the time

    @property
    def objective(self) -> float:
        """Cost of the allocation; NaN for a missed round."""
        return math.nan if self.rounded is None else self.rounded.objective

    @property
    def gap(self) -> float:
        """Certified gap of the allocation; infinite for a missed round."""
        return math.inf if self.rounded is None else self.rounded.gap


class JobShim(Protocol):
    """Makes an integral allocation of a fractional one."""

    def round(self, program: ContinualProgram, solution: Solution) -> Rounded:
        """Return the round a solution."""
