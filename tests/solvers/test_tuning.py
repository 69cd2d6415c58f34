"""The tuning of the proximal-point solver: passed in, documented number by number, only a matter of speed."""

from __future__ import annotations

from dataclasses import FrozenInstanceError, fields, is_dataclass, replace

import numpy as np
import pytest

from copter import ProximalPoint, make_solver
from copter.errors import SettingError
from copter.solvers.inner.tuning import NewtonTuning
from copter.solvers.proximal.tuning import ProximalTuning, StepsTuning
from support.strategies import KINDS, random_plain


def records(record):
    """A record of the tuning and those in it."""
    yield record
    for name in [each.name for each in fields(record)] if is_dataclass(record) else record._fields:
        if not isinstance(getattr(record, name), int | float):
            yield from records(getattr(record, name))


@pytest.mark.parametrize("record", list(records(ProximalTuning())), ids=lambda record: type(record).__name__)
def test_every_number_has_a_sentence(record):
    names = [each.name for each in fields(record)] if is_dataclass(record) else record._fields
    documented = type(record).__doc__.partition("Attributes")[2]
    heads = [line.partition(" : ")[0].strip() for line in documented.splitlines() if " : " in line]
    assert {name for head in heads for name in head.split(", ")} >= set(names)


def test_the_record_cannot_be_changed():
    with pytest.raises(FrozenInstanceError):
        ProximalTuning().goal_share = 1.0


@pytest.mark.parametrize("tuning", [None, {"goal_share": 0.1}, StepsTuning()])
def test_something_else_is_refused_by_name(tuning):
    with pytest.raises(SettingError, match=r"tuning.*must be a ProximalTuning"):
        ProximalPoint(tuning=tuning)


def test_a_number_that_is_passed_in_is_used():
    plain = random_plain(np.random.default_rng([2, 77]), "packing")
    usual, short = ProximalPoint(), ProximalPoint(tuning=ProximalTuning(steps=StepsTuning(inner_limit=1)))
    longer = short.solve(plain.build())
    assert longer.status == "optimal"
    assert longer.iterations != usual.solve(plain.build()).iterations


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("seed", range(4))
def test_compiled_steps_and_those_of_python_reach_the_optimum(kind, seed):
    plain = random_plain(np.random.default_rng([seed, 40]), kind)
    best = make_solver("highs-simplex", tolerance=1e-9).solve(plain.build()).objective
    for rows in (0, 1_000):
        newton = NewtonTuning(compiled_rows=rows)
        solver = ProximalPoint(
            inner="newton", fall_back=False, tuning=replace(ProximalTuning(), newton=newton)
        )
        solution = solver.solve(plain.build())
        assert solution.status == "optimal"
        assert solution.objective == pytest.approx(best, rel=1e-5, abs=1e-5)
