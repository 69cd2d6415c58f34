"""Tests that take long by measured processor time: `make test` leaves them to `make test-long`.

`slow_tests.txt` lists them. `make slow-tests` measures every test that no mark leaves to another group, and
writes the list again.
"""

from __future__ import annotations

import resource
from collections import defaultdict
from collections.abc import Generator
from pathlib import Path

import pytest

SECONDS = 0.3
"""Processor time of a test, its fixtures and the processes that it started, from which on it is listed."""
SECONDS_OF_FASTEST = 1.0
"""Processor time below which the fastest instance of a function with several parameters is not listed."""
LIST = Path(__file__).with_name("slow_tests.txt")


def listed() -> list[str]:
    """Return the listed tests: a function with all its parameters, or one instance of it."""
    return LIST.read_text().splitlines()


def mark(items: list[pytest.Item]) -> None:
    """Mark the listed tests `long`."""
    names = set(listed())
    for item in items:
        if item.nodeid in names or function_of(item.nodeid) in names:
            item.add_marker(pytest.mark.long)


def function_of(test: str) -> str:
    """Return the name of a test without its parameters."""
    return test.partition("[")[0]


def slow(seconds: dict[str, float]) -> list[str]:
    """Return the lines of the list from the processor time of each test.

    The fastest test of each file is not listed. The fastest instance of a function with several is not listed
    either if it takes less than ``SECONDS_OF_FASTEST``. A line names a function if all instances are slow.
    """
    found = {test for test, each in seconds.items() if each >= SECONDS}
    files, functions = defaultdict(list), defaultdict(list)
    for test in sorted(seconds):
        files[test.partition("::")[0]].append(test)
        functions[function_of(test)].append(test)
    found -= {min(tests, key=seconds.__getitem__) for tests in files.values()}
    fastest = {min(tests, key=seconds.__getitem__) for tests in functions.values() if len(tests) > 1}
    found -= {test for test in fastest if seconds[test] < SECONDS_OF_FASTEST}
    return sorted(
        {name if found.issuperset(functions[name := function_of(test)]) else test for test in found}
    )


def _processor_seconds() -> float:
    usages = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(each.ru_utime + each.ru_stime for each in usages)


class Measurement:
    """Plugin that measures all tests and writes the list."""

    def __init__(self) -> None:
        self._begin = 0.0
        self._seconds: dict[str, float] = {}

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_logstart(self) -> None:
        self._begin = _processor_seconds()

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(
        self,
    ) -> Generator[None, pytest.TestReport, pytest.TestReport]:
        report = yield
        report.user_properties.append(("processor seconds", _processor_seconds() - self._begin))
        return report

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Keep the time up to the last report of a test: that of its end."""
        self._seconds[report.nodeid] = dict(report.user_properties)["processor seconds"]

    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        if not hasattr(session.config, "workerinput"):
            measured = {test.partition("::")[0] for test in self._seconds}
            others = [test for test in listed() if test.partition("::")[0] not in measured]
            LIST.write_text("".join(f"{test}\n" for test in sorted([*others, *slow(self._seconds)])))
