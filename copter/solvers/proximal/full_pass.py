"""Reasons for which a round reads all columns, although few requests may have changed."""

from __future__ import annotations

import enum


class FullPass(enum.StrEnum):
    """Reason for which a solve read all columns: the value is a label, ``sentence`` is the explanation.

    ``Solution.details["full_pass"]`` contains the label, also if nothing had changed and nothing was read. An
    incremental round has ``details["open_requests"]`` instead, the number of requests that are still active
    after the round.
    """

    sentence: str

    FIRST_ROUND = "first_round", "no earlier round of this program is known to the solver"
    COLD_START = "cold_start", "the last round started cold; requests become inactive after a warm one"
    NOT_OPTIMAL = "not_optimal", "the last round did not end with an optimum"
    SWITCHED_OFF = "switched_off", "warm starts are disabled, or the inner solver is coordinate descent"
    SMALL_PROGRAM = "small_program", "the program is too small for inactive requests to save time"
    CONVEX_TERMS = "convex_terms", "requests have convex terms"
    REMOTE_COLUMNS = "remote_columns", "the columns are in other processes"
    MANY_EDITS = "many_edits", "many requests were edited, in this round or the last one"
    MANY_ACTIVE = "many_active", "too many requests are active, or were after the last round"
    BY_SIMPLEX = (
        "by_simplex",
        "the last round was solved by simplex, which was faster",
    )
    NO_TIME = "no_time", "the deadline of the last round left no time to make requests inactive"
    WAITING = "waiting", "inactive requests did not save time recently; they are disabled for a few rounds"
    START_GIVEN = "start_given", "the solve begins from an allocation and prices that were given"
    ROWS_REUSED = "rows_reused", "new resources use the slots of removed ones"
    NO_BEST = "no_best", "a request has no optimal allocation at the last prices"
    NO_COST_RANGE = (
        "no_cost_range",
        "the gap is relative to the cost range of all requests, which must be read for it",
    )
    CAPACITIES_MOVED = "capacities_moved", "capacities changed, and many requests have to follow"
    PRICES_MOVED = (
        "prices_moved",
        "prices have to change, and fixed requests are valid at the last prices only",
    )
    TOO_LOSSY = "too_lossy", "fixed requests would lose more than the tolerance"
    ROWS_NOT_MET = "rows_not_met", "the active requests alone cannot satisfy the resource limits"
    TOO_MUCH_WORK = "too_much_work", "the active requests did not converge in the time of a full pass"
    INTERRUPTED = "interrupted", "the deadline or a cancellation came while active requests were solved"

    def __new__(cls, value: str, sentence: str) -> FullPass:
        """Make the member with a label and its sentence."""
        member = str.__new__(cls, value)
        member._value_, member.sentence = value, sentence
        return member

    @classmethod
    def of(cls, label: object) -> FullPass:
        """Return the member with a label; raise ValueError for an unknown label."""
        for member in cls:
            if member.value == label:
                return member
        raise ValueError(f"full_pass = {label!r}: must be one of {', '.join(cls)}")
