"""Why a round read the whole program, although few requests may have changed."""

from __future__ import annotations

import enum


class FullPass(enum.StrEnum):
    """Why a solve read all columns: the value is a label, ``sentence`` is for people.

    It is ``Solution.details["full_pass"]`` of such a solve. A round that read its active requests only has
    ``details["open_requests"]`` instead, their number.
    """

    sentence: str

    FIRST_ROUND = "first_round", "no earlier round of this program is known to the solver"
    COLD_START = "cold_start", "the last round began cold: requests become inactive after a warm one"
    NOT_OPTIMAL = "not_optimal", "the last round did not end with an optimum"
    SWITCHED_OFF = "switched_off", "warm starts are switched off, or coordinate descent was asked for"
    SMALL_PROGRAM = "small_program", "the program is too small for inactive requests to save time"
    CONVEX_TERMS = "convex_terms", "requests have convex terms"
    REMOTE_COLUMNS = "remote_columns", "the columns are in other processes"
    MANY_EDITS = "many_edits", "many requests were edited, in this round or the last one"
    MANY_ACTIVE = "many_active", "too many requests are active, or were after the last round"
    NO_TIME = "no_time", "the deadline of the last round left no time to make requests inactive"
    WAITING = "waiting", "inactive requests were of no use in recent rounds; a few rounds do without them"
    START_GIVEN = "start_given", "the solve begins from an allocation and prices that were given"
    ROWS_REUSED = "rows_reused", "the places of removed resources are used by new ones"
    NO_BEST = "no_best", "a request had no best allocation at the last prices"
    NO_COST_RANGE = (
        "no_cost_range",
        "the gap is relative to what all requests could change, which needs all of them",
    )
    CAPACITIES_MOVED = "capacities_moved", "capacities moved so far that many requests have to move"
    PRICES_MOVED = "prices_moved", "fixed requests stay only at the last prices, which have to move"
    TOO_LOSSY = "too_lossy", "fixed requests would lose more than the tolerance"
    ROWS_NOT_MET = "rows_not_met", "the active requests alone cannot meet the resource limits"
    TOO_MUCH_WORK = "too_much_work", "the active requests did not settle in the time of a full pass"
    INTERRUPTED = "interrupted", "the deadline or a cancellation came while active requests were solved"

    def __new__(cls, value: str, sentence: str) -> FullPass:
        """Return the member with a label and its sentence."""
        member = str.__new__(cls, value)
        member._value_, member.sentence = value, sentence
        return member

    @classmethod
    def of(cls, label: object) -> FullPass:
        """Return the member with a label; raise ValueError if there is none."""
        for member in cls:
            if member.value == label:
                return member
        raise ValueError(f"no reason for a full pass is called {label!r}")
