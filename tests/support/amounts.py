"""How much of a random test `make test` runs, and how much `make test-long` runs."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest
from hypothesis import settings

FEWEST = 5
"""Number of examples of hypothesis that `make test` draws at least."""


def whole() -> bool:
    """Return whether this is `make test-long`."""
    return settings.get_current_profile_name() == "random"


def examples(number: int, fewest: int = FEWEST) -> int:
    """Return the number of examples of a test of hypothesis: a fifth of them in `make test`.

    `make test-long` runs each test of hypothesis again, with all examples and a new seed.
    """
    return number if whole() else min(number, max(fewest, number // 5))


def seeds(always: int, every: int) -> list[Any]:
    """Return the seeds below ``every``; those from ``always`` on are left to `make test-long`."""
    return some(always, range(every))


def some(always: int, values: Iterable[Any]) -> list[Any]:
    """Return values of a parameter; those after the first ``always`` are left to `make test-long`."""
    return [value if k < always else longer(value) for k, value in enumerate(values)]


def longer(*values: Any, **named: Any) -> Any:
    """Return values of parameters that are left to `make test-long`."""
    return pytest.param(*values, marks=pytest.mark.long, **named)
