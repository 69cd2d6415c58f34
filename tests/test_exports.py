"""What the packages export: all of it imports, is documented, and is found by name."""

from __future__ import annotations

import importlib
import inspect

import pytest

import copter
import copter.solvers

NEED_EXTRAS = {"COPTER", "from_cvxpy"}
"""Exports that a star leaves out, since it would fail without their packages."""
DATA = {"COPTER", "SOLVERS"}
"""Exports that are neither a class nor a function, and so have no docstring of their own."""


@pytest.mark.parametrize("name", dir(copter))
def test_an_export_imports_and_is_documented(name):
    found = getattr(copter, name)
    if name in DATA:
        assert found
        return
    assert found.__name__ == name
    said = vars(found).get("__doc__") if inspect.isclass(found) else inspect.getdoc(found)
    assert said and len(said.split()) > 3, name


@pytest.mark.parametrize("package", ["copter", "copter.solvers"])
def test_exports_are_sorted_and_listed(package):
    module = importlib.import_module(package)
    assert sorted(set(module.__all__)) == module.__all__
    assert set(dir(module)) - set(module.__all__) <= NEED_EXTRAS
    with pytest.raises(AttributeError, match=f"'{package}' has no attribute 'nothing'"):
        module.nothing  # noqa: B018


def test_every_error_is_exported():
    errors = importlib.import_module("copter.errors")
    classes = {
        name
        for name, found in vars(errors).items()
        if isinstance(found, type) and found.__module__ == errors.__name__
    }
    assert classes <= set(copter.__all__)
    assert all(issubclass(getattr(copter, name), copter.CopterError) for name in classes)


def test_every_program_that_is_read_can_be_solved_from_the_top(tmp_path):
    path = tmp_path / "small.mps"
    path.write_text(
        "NAME small\nROWS\n N cost\n L row\nCOLUMNS\n x cost -1 row 1\nRHS\n r row 4\nENDATA\n",
        encoding="utf-8",
    )
    lp = copter.read_mps(path)
    assert isinstance(lp, copter.GeneralLP)
    answer = copter.solve_lp(lp)
    assert answer.x.tolist() == pytest.approx([4.0])
