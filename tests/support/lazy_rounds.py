"""What tests of rounds of few changes share."""


def is_lazy(solution) -> bool:
    """Whether a round read active requests only."""
    return "open_requests" in solution.details
