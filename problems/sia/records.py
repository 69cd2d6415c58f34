"""What a replay records of each round: the cluster, the policy's times, and its program."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any


@dataclass(frozen=True)
class RoundRecord:
    """What happened in a round.

    Attributes
    ----------
    round : int
        Counts rounds with at least one job, from 0.
    time : float
        Seconds at its start.
    arrived, completed, restarts : int
        Jobs that entered, jobs that completed, and starts and restarts.
    queue, running : int
        Jobs without and with GPUs.
    utilisation : float
        Share of all GPUs that were given to jobs.
    t_edit, t_solve, t_shim, t_total : float
        Seconds of the policy, see :class:`copter.problems.sia.interface.SiaRound`; the last is their sum.
    t_store, t_certify : float
        Seconds in which events became edits, and of certifying a baseline's answer.
    gap, primal_residual, integral_gap : float
        Certified gap of the fractional answer, and of the allocation that came out.
    churn, integral_churn : float
        Share of the fractional answer's nonzeros that moved, and of the jobs that were there in the round
        before whose configuration changed.
    proven, columns_left, t_integer : float
        What the proof of the integral allocation came to (:func:`copter.proof.integer.integer_figures`).
    missed : bool
        Whether the solver had no answer in time: every job kept what it had.
    changed, added, removed, integral, path_x, path_n : float
        How far program and answer moved since the last round: see :mod:`.evolution`.
    """

    round: int
    time: float
    arrived: int
    completed: int
    restarts: int
    queue: int
    running: int
    utilisation: float
    utilisation_by_type: dict[str, float]
    t_edit: float
    t_solve: float
    t_shim: float
    t_total: float
    t_store: float
    t_certify: float
    status: str
    gap: float
    primal_residual: float
    integral_gap: float
    objective: float
    bound: float
    integral_objective: float
    n_variables: int
    n_rows: int
    nnz: int
    iterations: int
    churn: float
    integral_churn: float
    warm_started: bool
    proven: float
    columns_left: float
    t_integer: float
    missed: bool
    changed: float
    added: float
    removed: float
    integral: float
    path_x: float
    path_n: float

    def as_row(self) -> dict[str, Any]:
        """Flat record for a table: one column ``utilisation_<type>`` for each GPU type."""
        row = {field.name: getattr(self, field.name) for field in fields(self)}
        by_type = row.pop("utilisation_by_type")
        return row | {f"utilisation_{type}": share for type, share in by_type.items()}
