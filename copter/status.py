"""Status of a solve."""

from __future__ import annotations

import enum


class Status(enum.StrEnum):
    """Reason why a solver stopped.

    - For a program, "optimal" is proved by prices, and "infeasible" by a ray. For a model, "optimal",
      "infeasible" and "unbounded" are confirmed by residuals or by a ray; ``ModelSolution.certified`` is True
      if the proof is exact.
    - "deadline", "iteration_limit" and "cancelled" mean that the solver stopped before it had a proof.
    - "unproved" means that the solver finished without a proof. The solution has its residuals and bound.
    - "numerical_error" means that the solver failed without a usable solution.
    """

    OPTIMAL = "optimal"
    INFEASIBLE = "infeasible"
    UNBOUNDED = "unbounded"
    DEADLINE = "deadline"
    ITERATION_LIMIT = "iteration_limit"
    UNPROVED = "unproved"
    NUMERICAL_ERROR = "numerical_error"
    CANCELLED = "cancelled"
