"""The list of slow tests (support/slow_tests.py)."""

from pathlib import Path

from support.slow_tests import function_of, listed, slow

ROOT = Path(__file__).parents[1]
SCIPY = "tests/solvers/general/test_scipy_suite.py"
"""File whose tests are scipy's own."""


def test_every_listed_test_exists():
    for line in listed():
        file, *_, name = function_of(line).split("::")
        text = (ROOT / file).read_text()
        assert file == SCIPY or f"def {name}(" in text, f"{line}: remove the line, or run make slow-tests"


def test_slow_instances_are_listed_but_the_fastest_of_a_function_and_of_a_file():
    seconds = {"a.py::all[1]": 3.0, "a.py::all[2]": 2.0, "a.py::some[1]": 0.9, "a.py::some[2]": 0.8}
    assert slow(seconds) == ["a.py::all", "a.py::some[1]"]
    assert slow({"b.py::one": 2.0, "b.py::two": 1.0, "c.py::three": 4.0}) == ["b.py::one"]
    assert slow({"c.py::all[1]": 3.0, "c.py::all[2]": 2.0}) == ["c.py::all[1]"]
    assert slow({"d.py::one": 0.1, "d.py::two[1]": 0.1, "d.py::two[2]": 0.5}) == ["d.py::two[2]"]
