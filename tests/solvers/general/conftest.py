"""scipy's own tests have marks of their own, which must be known before they are imported."""

import pytest

_MARKS = ("slow", "xslow", "fail_slow(seconds)", "xfail_on_32bit(reason)")
_MARKS += ("thread_unsafe", "parallel_threads")
SLOW = ("test_marginals",)
"""Tests of scipy that take ten seconds; test_scipy_form.py checks marginals too."""


def pytest_configure(config: pytest.Config) -> None:
    for mark in _MARKS:
        config.addinivalue_line("markers", f"{mark}: of scipy's own tests")


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """What scipy itself fails says nothing here, whether it passes or not; what it finds slow is long."""
    theirs = [item for item in items if item.path.name == "test_scipy_suite.py"]
    known = [item for item in theirs if item.get_closest_marker("xfail") or item.get_closest_marker("skip")]
    for item in theirs:
        if item.get_closest_marker("xslow") or item.originalname in SLOW:
            item.add_marker(pytest.mark.long)
    config.hook.pytest_deselected(items=known)
    items[:] = [item for item in items if item not in set(known)]
