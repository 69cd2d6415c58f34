"""Rounds that read active requests only."""

from __future__ import annotations


def is_lazy(solution) -> bool:
    """Return True for a round that read active requests only."""
    return "open_requests" in solution.details
