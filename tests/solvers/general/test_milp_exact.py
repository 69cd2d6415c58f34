"""`milp` and `Model` on small integer programs of hard kinds, against enumeration in Fractions."""

from collections import Counter

import numpy as np
import pytest
from scipy.sparse import csc_array

from copter import from_arrays, milp
from copter.models.linear_program import LinearProgram
from copter.solvers.general.model import Model
from support.amounts import whole
from support.exact_milp import KINDS, SIZES

FEW, ALL = 16, 160
TIGHT = {"mip_rel_gap": 1e-9}


@pytest.mark.parametrize("kind", KINDS)
def test_answers_are_those_of_enumeration(kind):
    """Statuses and values, by milp and by a model, and the bound is below the optimum."""
    counts: Counter = Counter()
    for seed in range(ALL if whole() else FEW):
        program = KINDS[kind](np.random.default_rng([seed, len(kind)]))
        least, most = program.interval()
        counts[program.about] += 1
        found = milp(**program.arguments, options=TIGHT)
        assert found.status in (0, 2), (seed, program.about, found.message)
        counts[found.status] += 1
        if found.status == 2:
            assert most is None, (seed, program.about)
            assert found.x is found.fun is found.mip_gap is None
            continue
        room = 1e-6 * max(1.0, abs(least))
        assert float(least) - room <= found.fun, (seed, program.about)
        assert most is None or found.fun <= float(most) + room, (seed, program.about)
        assert most is None or found.mip_dual_bound <= float(most) + room, (seed, program.about)
        holds(program, found.x)
        if (program.kinds < 2).all():
            same = model_of(program).solve(tolerance=1e-9)
            assert str(same.status) == "optimal" and abs(same.objective - found.fun) <= room, seed
            assert ("hold exactly" in same.reason) == (same.details["engine"] == "branch and bound")
            counts[same.details["engine"]] += 1
    assert counts["branch and bound"] or kind == "semi", counts
    assert counts[0] and (counts[2] or kind == "big_m"), counts
    if kind == "big_m":
        assert {about[2] for about in counts if isinstance(about, tuple)} == {"x <= a + M y", "x + M y <= b"}
        assert len({about[1] for about in counts if isinstance(about, tuple)}) >= len(SIZES) - 1


def model_of(program) -> Model:
    rows = program.low, program.high, program.lower, program.upper
    return Model(LinearProgram(program.c, csc_array(program.A), *rows, 0.0, program.kinds == 1))


def holds(program, x):
    """Assert that whole numbers, 0 and bounds are exact, and rows are met as the pages say."""
    integral, off = np.isin(program.kinds, (1, 3)), (program.kinds > 1) & (x == 0.0)
    assert (x[integral] == np.rint(x[integral])).all()
    assert (off | ((x >= program.lower) & (x <= program.upper))).all()
    at, size = program.A @ x, abs(program.A) @ abs(x)
    for side, sign in ((program.high, 1), (program.low, -1)):
        finite = np.isfinite(side)
        room = 1e-6 * np.minimum(1.0, np.maximum(size, abs(np.where(finite, side, 0.0)))) + 1e-15 * size
        assert (sign * (at - side) <= room)[finite].all()


@pytest.mark.parametrize(
    ("given", "status", "fun"),
    [
        # x <= 3 + M y or x <= 1 if y is on; the best is off
        (dict(c=[-1, 0], integrality=[0, 1], bounds=([0, 0], [np.inf, 1]),
              constraints=([[1, -1e7], [1, 1e7]], -np.inf, [3, 1e7 + 1])), 0, -3),
        (dict(c=[-1, 0], integrality=[0, 1], bounds=([0, 0], [np.inf, 3]),
              constraints=([[1, 1e6]], -np.inf, 1)), 0, -1),
        (dict(c=[1, 1, 1, 1], integrality=[1, 1, 1, 0], bounds=(0, 1),
              constraints=([[1e9, 1e9, 1e9, 1.0]], 1999999999, 1999999999)), 2, None),
        (dict(c=[1, 0, 0], integrality=[0, 1, 1], bounds=([0, -9e9, -9e9], [9, 9e9, 9e9]),
              constraints=([[0, 2, 4]], 3, 3)), 2, None),
        (dict(c=[1, 0], integrality=1, bounds=(-np.inf, np.inf), constraints=([[3, -3]], 1, 2)), 2, None),
        (dict(c=[1, 0], integrality=1, bounds=(-np.inf, np.inf), constraints=([[3, -3]], 1, 1)), 2, None),
        (dict(c=[-1, 0], integrality=[0, 1], bounds=([0, 0], [1e6, 1]),
              constraints=([[1, -2.0**49], [0, 1]], [-np.inf, 1], [0, 1])), 0, -1e6),
        # an import or an export link of M: both directions at a time are of no use
        (dict(c=[-2, 1, 0], integrality=[0, 0, 1], bounds=(0, [1e8, 1e8, 1]),
              constraints=([[1, 0, -1e8], [0, 1, 1e8], [1, -1, 0]], -np.inf, [0, 1e8, 5])), 0, -10),
        (dict(c=[-1, 0], integrality=[0, 1], bounds=([0, 0], [np.inf, 3]),
              constraints=([[1, 9e14]], -np.inf, 1e10)), 0, -1e10),
    ],
)  # fmt: skip
def test_programs_that_were_reported(given, status, fun):
    found = milp(**given)
    assert found.status == status, found.message
    if status == 0:
        assert found.fun == pytest.approx(fun, rel=1e-6)


@pytest.mark.parametrize("solve", [milp, from_arrays])
def test_an_entry_that_highs_does_not_support_is_named(solve):
    rows = {"constraints": ([[1, 0], [1, 1e15]], -np.inf, 3e15)}
    rows = rows if solve is milp else {"A_ub": rows["constraints"][0], "b_ub": [3e15, 3e15]}
    with pytest.raises(ValueError, match=r"row 1, column 1.*must be below 1e\+15"):
        solve([-1, 0], integrality=[0, 1], **rows)
    with pytest.raises(ValueError, match=r"column 1.*must be below 1e\+20"):
        solve([0, 1e21])


def test_without_an_optimum_infeasible_and_unbounded_are_told_apart():
    """Free directions d with A d = 0, and in half of the programs a row that no integers satisfy."""
    counts: Counter = Counter()
    for seed in range(60):
        rng = np.random.default_rng(seed)
        A, d = rng.integers(-3, 4, (2, 3)).astype(float), rng.integers(1, 4, 3).astype(float)
        d[0] = 1.0
        A[:, 0] = -A[:, 1:] @ d[1:]
        c = rng.integers(-2, 3, 3).astype(float)
        half = float(rng.random() < 0.5)
        rows = np.vstack((np.hstack((A, [[0.0], [0.0]])), [0.0, 0.0, 0.0, 2.0]))
        low, high = [-9.0, -9.0, half], [9.0, 9.0, half]
        found = milp(np.append(c, 0.0), integrality=1, constraints=(rows, low, high))
        falls = c @ d < 0
        if half or falls:
            assert found.status == (2 if half else 3), (seed, found.message)
            counts[bool(half), bool(falls)] += 1
    assert len(counts) == 3 and min(counts.values()) >= 5, counts
