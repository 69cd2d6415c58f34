"""scipy's own tests of `linprog` and `milp`, with copter's functions in place of scipy's."""

from __future__ import annotations

import inspect

import pytest

import copter

linprog_suite = pytest.importorskip("scipy.optimize.tests.test_linprog", reason="scipy came without its tests")
milp_suite = pytest.importorskip("scipy.optimize.tests.test_milp", reason="scipy came without its tests")


@pytest.fixture(autouse=True)
def copter_in_place_of_scipy(monkeypatch):
    monkeypatch.setattr(linprog_suite, "linprog", copter.linprog)
    monkeypatch.setattr(milp_suite, "milp", copter.milp)


for _suite in (linprog_suite, milp_suite):
    for _name, _member in vars(_suite).items():
        if _name.startswith("Test") or (_name.startswith("test_") and inspect.isfunction(_member)):
            globals()[_name] = _member
