"""scipy's own tests have marks of their own, which must be known before they are imported."""

import pytest

_MARKS = ("xslow", "fail_slow(seconds)", "xfail_on_32bit(reason)", "thread_unsafe", "parallel_threads")


def pytest_configure(config: pytest.Config) -> None:
    for mark in _MARKS:
        config.addinivalue_line("markers", f"{mark}: of scipy's own tests")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """What scipy itself fails may pass here, and what it finds slow is."""
    for item in items:
        if item.path.name == "test_scipy_suite.py":
            for known in list(item.iter_markers("xfail")):
                item.add_marker(pytest.mark.xfail(strict=False, **known.kwargs), append=False)
            if item.get_closest_marker("xslow"):
                item.add_marker(pytest.mark.slow)
