"""What the packages export: all of it imports, is documented, and is found by name."""

from __future__ import annotations

import importlib
import inspect

import pytest

import copter
import copter.errors

NEED_EXTRAS = {"COPTER", "from_cvxpy"}
"""Exports that a star leaves out, since it would fail without their packages."""
DATA = {"COPTER"}
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


@pytest.mark.parametrize("package", ["copter", "copter.ray"])
def test_exports_are_sorted_and_listed(package):
    module = importlib.import_module(package)
    assert sorted(set(module.__all__)) == module.__all__
    assert set(dir(module)) - set(module.__all__) <= NEED_EXTRAS
    with pytest.raises(AttributeError, match=f"'{package}' has no attribute 'nothing'"):
        module.nothing  # noqa: B018


def test_every_error_of_the_package_is_in_one_module_and_of_one_family():
    found = {name: each for name, each in vars(copter.errors).items() if isinstance(each, type)}
    errors = {name: each for name, each in found.items() if each.__module__ == "copter.errors"}
    assert len(errors) > 15
    assert all(issubclass(each, copter.errors.CopterError) for each in errors.values())


def test_authors_of_solvers_find_their_names_in_one_module():
    api = importlib.import_module("copter.solvers.api")
    assert sorted(set(api.__all__), key=str.lower) == sorted(api.__all__, key=str.lower)
    assert all(inspect.getdoc(getattr(api, name)) for name in api.__all__)


def test_every_program_that_is_read_can_be_solved_from_the_top(tmp_path):
    path = tmp_path / "small.mps"
    path.write_text(
        "NAME small\nROWS\n N cost\n L row\nCOLUMNS\n x cost -1 row 1\nRHS\n r row 4\nENDATA\n",
        encoding="utf-8",
    )
    lp = copter.read_model(path)
    assert isinstance(lp, copter.LinearProgram)
    answer = copter.Model(lp).solve()
    assert answer.x.tolist() == pytest.approx([4.0])
