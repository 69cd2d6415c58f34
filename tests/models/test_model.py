"""Model: every form of every edit against a mirror; only differences reach HiGHS; what is refused."""

import copy
import pickle
from collections import Counter
from dataclasses import fields, replace

import numpy as np
import pandas as pd
import pytest
import scipy.optimize
from scipy.sparse import csc_array, csr_array

from copter import from_arrays, make_solver
from copter.errors import ArgumentTypeError, ConcurrentUseError, EditError, SettingError
from copter.models.highs import HighsEngine
from copter.models.highs_lp import LPChanges
from copter.solvers.general.model import Model
from support.amounts import seeds
from support.lp_families import made

INF = np.inf
KINDS = (
    "c", "row_lower", "row_upper", "bounds", "A entries", "A whole", "integrality", "lp",
    "add_rows", "add_columns", "remove_rows", "remove_columns",
)  # fmt: skip
FORMS = ("array", "list", "positions", "names", "series")
NAMES = ("column_names", "row_names")


def start(rng, maximize=False):
    """A feasible, bounded program with names."""
    m, n = int(rng.integers(2, 6)), int(rng.integers(3, 8))
    A = rng.integers(-3, 5, (m, n)) * (rng.random((m, n)) < 0.7)
    names = {"column_names": tuple(f"x{j}" for j in range(n)), "row_names": tuple(f"r{i}" for i in range(m))}
    x = rng.integers(0, 3, n)
    return made(
        rng.integers(-5, 5, n), A, -INF, A @ x + rng.integers(0, 4, m), 0.0, 6.0, maximize=maximize, **names
    )


class Mirror:
    """Dense arrays that get each edit too, in the plainest way."""

    def __init__(self, rng, lp):
        self.rng, self.lp, self.A = rng, lp, lp.A.toarray()
        self.counts: Counter = Counter()
        self.fresh = 0

    def given(self, values, names):
        """New values of some entries in a random form, and the full array."""
        rng, form = self.rng, FORMS[sum(self.counts[each] for each in FORMS) % len(FORMS)]
        self.counts[form] += 1
        full = values.copy()
        if form == "array":
            return values, full
        if form == "list":
            return values.tolist(), full
        if form == "series":
            order = rng.permutation(values.size)
            return pd.Series(values[order], [names[k] for k in order]), full
        at = np.flatnonzero(rng.random(values.size) < 0.5)
        return {(names[k] if form == "names" else int(k)): float(values[k]) for k in at.tolist()}, at

    def edit(self, model, kind):
        """Make one edit of a kind, of the model and of the mirror."""
        rng, lp = self.rng, self.lp
        n, m = lp.c.size, lp.row_lower.size
        sign = -1.0 if lp.maximize else 1.0
        self.counts[kind] += 1
        if kind in ("c", "row_lower", "row_upper"):
            values = {
                "c": rng.integers(-5, 6, n).astype(float),
                "row_lower": np.where(rng.random(m) < 0.7, -INF, -9.0 - rng.integers(0, 4, m)),
                "row_upper": rng.integers(-2, 15, m).astype(float),
            }[kind]
            given, at = self.given(values, lp.row_names if kind.startswith("row") else lp.column_names)
            new = (sign * lp.c if kind == "c" else getattr(lp, kind)).copy()
            at = slice(None) if isinstance(given, np.ndarray | list | pd.Series) else at
            new[at] = values[at]
            model.update(**{kind: given})
            self.lp = replace(lp, **{kind: sign * new if kind == "c" else new})
        elif kind == "bounds":
            pairs = [(None if rng.random() < 0.2 else -float(rng.integers(0, 3)), 5.0) for _ in range(n)]
            at = np.flatnonzero(rng.random(n) < 0.5).tolist() if rng.random() < 0.7 else range(n)
            given = {lp.column_names[j] if rng.random() < 0.5 else j: pairs[j] for j in at}
            model.update(bounds=given if len(at) < n else pairs)
            lower, upper = lp.lower.copy(), lp.upper.copy()
            for j in at:
                lower[j], upper[j] = -INF if pairs[j][0] is None else pairs[j][0], pairs[j][1]
            self.lp = replace(lp, lower=lower, upper=upper)
        elif kind == "A entries":
            places = {(int(rng.integers(m)), int(rng.integers(n))) for _ in range(3)}
            given = {}
            for i, j in places:
                self.A[i, j] = float(rng.integers(0, 5))
                key = (lp.row_names[i], lp.column_names[j]) if rng.random() < 0.5 else (i, j)
                given[key] = self.A[i, j]
            model.update(A=given)
        elif kind == "A whole":
            self.A = self.A + rng.integers(0, 2, self.A.shape) * (rng.random(self.A.shape) < 0.3)
            model.update(A=[csc_array, csr_array, np.asarray, list][int(rng.integers(4))](self.A))
        elif kind == "integrality":
            whole = rng.random(n) < 0.5 if not lp.integral.any() else np.zeros(n, bool)
            model.update(
                integrality=whole.astype(int) if rng.random() < 0.5 else dict(enumerate(whole.tolist()))
            )
            self.lp = replace(lp, integral=whole)
        elif kind == "lp":
            self.lp = replace(lp, c=lp.c + 1.0, row_upper=lp.row_upper + 1.0, offset=lp.offset + 2.0)
            model.update(replace(self.lp, A=csc_array(self.A)))
        elif kind == "add_rows":
            k = int(rng.integers(1, 3))
            rows, side = rng.integers(0, 3, (k, n)).astype(float), rng.integers(8, 20, k).astype(float)
            names = [f"row{self.fresh + i}" for i in range(k)]
            self.fresh += k
            model.add_rows(csr_array(rows) if k == 1 else rows, row_upper=side, names=names)
            self.A = np.vstack((self.A, rows))
            low = np.append(lp.row_lower, np.full(k, -INF))
            self.lp = replace(lp, row_lower=low, row_upper=np.append(lp.row_upper, side),
                              row_names=(*lp.row_names, *names))  # fmt: skip
        elif kind == "add_columns":
            k = int(rng.integers(1, 3))
            cost, entries = rng.integers(-4, 5, k).astype(float), rng.integers(-1, 4, (m, k)).astype(float)
            names = [f"new{self.fresh + j}" for j in range(k)]
            self.fresh += k
            model.add_columns(
                cost, entries, bounds=(0, 3), integrality=[int(lp.integral.any())] * k, names=names
            )
            self.A = np.hstack((self.A, entries))
            self.lp = replace(lp, c=np.append(lp.c, sign * cost), lower=np.append(lp.lower, np.zeros(k)),
                              upper=np.append(lp.upper, np.full(k, 3.0)),
                              column_names=(*lp.column_names, *names),
                              integral=np.append(lp.integral, np.full(k, lp.integral.any())))  # fmt: skip
        else:
            size, axis = (m, 0) if kind == "remove_rows" else (n, 1)
            if size < 3:
                return
            out = int(rng.integers(size))
            names = lp.row_names if axis == 0 else lp.column_names
            getattr(model, kind)([names[out]] if rng.random() < 0.5 else out)
            self.A = np.delete(self.A, out, axis)
            own = ("row_lower", "row_upper") if axis == 0 else ("c", "lower", "upper", "integral")
            names = {NAMES[1 - axis]: tuple(name for k, name in enumerate(names) if k != out)}
            self.lp = replace(lp, **{each: np.delete(getattr(lp, each), out) for each in own}, **names)

    def check(self, model):
        """Assert that the model has the mirror's numbers, and solves as HiGHS does from scratch."""
        for each in fields(self.lp):
            if each.name not in ("A", "semi"):
                assert np.array_equal(getattr(model.lp, each.name), getattr(self.lp, each.name)), each.name
        assert np.array_equal(model.lp.A.toarray(), self.A)
        found, lp = model.solve(tolerance=1e-8), self.lp
        rows = scipy.optimize.LinearConstraint(self.A, lp.row_lower, lp.row_upper)
        for presolve in (True, False):  # with presolve, 4 may mean infeasible or unbounded
            given = {"integrality": lp.integral, "bounds": (lp.lower, lp.upper), "constraints": rows}
            truth = scipy.optimize.milp(lp.c, **given, options={"mip_rel_gap": 0, "presolve": presolve})
            if truth.status != 4:
                break
        self.counts[str(found.status)] += 1
        self.counts[found.details["start"], lp.integral.any()] += 1
        assert str(found.status) == {0: "optimal", 2: "infeasible", 3: "unbounded"}[truth.status], (
            found.reason
        )
        if truth.status == 0:
            assert found.objective == pytest.approx(lp.own_sense(truth.fun + lp.offset), abs=1e-5)
            assert list(found.values) == list(lp.column_names)
            assert list(found.values.values()) == found.x.tolist()
            sense = -1 if lp.maximize else 1
            assert sense * found.bound <= sense * found.objective + 1e-6


@pytest.mark.parametrize("seed", seeds(3, 20))
def test_every_kind_of_edit_in_every_form(seed):
    rng = np.random.default_rng([seed, 5])
    mirror, twin = Mirror(rng, start(rng, maximize=bool(seed % 2))), None
    model = Model(mirror.lp)
    for step in range(70):
        kind = KINDS[step] if step < len(KINDS) else str(rng.choice(KINDS))
        mirror.edit(model, kind)
        mirror.check(model)
        if step == 30:
            twin = copy.deepcopy(model), pickle.loads(pickle.dumps(model)), Model(model.lp)
            assert len({each.solve().objective for each in twin}) == 1
    counts = mirror.counts
    assert all(counts[each] for each in (*KINDS, *FORMS, "optimal")), counts
    assert counts["kept basis", False] >= 5 and counts["cold", True] >= 5, counts


def test_rows_that_are_added_and_removed_are_inequalities_or_equations_of_from_arrays():
    model = from_arrays([-1.0, -1.0], A_ub=[[1.0, 2.0]], b_ub=[4.0], A_eq=[[1.0, -1.0]], b_eq=[1.0])
    model.add_rows([[1.0, 1.0]], row_upper=3.0)
    model.update(b_ub=[5.0, 4.0], b_eq={0: 0.0})
    assert model.lp.row_upper.tolist() == [5.0, 0.0, 4.0] and model.lp.row_lower.tolist() == [-INF, 0.0, -INF]
    model.remove_rows([0])
    model.update(b_ub=[2.0])
    assert model.solve().x.tolist() == pytest.approx([1.0, 1.0])


# ---- what reaches HiGHS ----------------------------------------------------------------------------------


@pytest.fixture
def calls(monkeypatch):
    """Names of the methods by which HiGHS gets numbers, with how many."""
    found: list[tuple[str, int]] = []
    for name in ("changeColsCost", "changeColsBounds", "changeRowsBounds", "changeCoeff", "passModel"):
        plain = getattr(HighsEngine, name)

        def spy(self, first, *more, name=name, plain=plain):
            found.append((name, 1 if name in ("changeCoeff", "passModel") else int(first)))
            return plain(self, first, *more)

        monkeypatch.setattr(HighsEngine, name, spy, raising=False)
    return found


def test_only_differences_reach_highs(calls):
    rng = np.random.default_rng(3)
    n, m = 40, 15
    A = rng.integers(1, 5, (m, n))
    model = Model(made(rng.normal(size=n), A, -INF, 20.0 + rng.random(m), 0.0, 3.0))
    model.solve()
    assert calls == [("passModel", 1)]
    edits = [
        ({"c": {3: 0.5, 7: -0.5}}, [("changeColsCost", 2)], LPChanges(2, 0, 0, 0)),
        ({"c": model.lp.c.copy()}, [("changeColsCost", 2)], LPChanges(2, 0, 0, 0)),
        ({"c": model.lp.c.copy()}, [], LPChanges(0, 0, 0, 0)),
        ({"bounds": {0: (1, 2), 1: (1, 3), 2: (0, 3)}}, [("changeColsBounds", 2)], LPChanges(0, 2, 0, 0)),
        ({"row_upper": {4: 19.0}}, [("changeRowsBounds", 1)], LPChanges(0, 0, 1, 0)),
        ({"A": {(0, 0): 7.0, (2, 5): float(A[2, 5])}}, [("changeCoeff", 1)], LPChanges(0, 0, 0, 1)),
        ({"A": model.lp.A.copy()}, [("changeCoeff", 1)], LPChanges(0, 0, 0, 1)),
    ]  # fmt: skip
    for given, wanted, changes in edits:
        calls.clear()
        assert model.update(**given) == changes
        found = model.solve()
        assert calls == wanted and found.details["start"] == "kept basis"
        assert found.objective == pytest.approx(Model(model.lp).solve().objective, rel=1e-9)
    calls.clear()
    model.update(A={(0, 0): 0.0})
    model.update(c={1: 4.0}, row_upper={1: 21.0})
    model.solve()
    model.solve()
    assert [name for name, _ in calls].count("passModel") <= 1


@pytest.mark.parametrize("edit", ["rows", "columns", "entry"])
def test_another_shape_keeps_what_it_can_of_the_basis(edit):
    rng = np.random.default_rng(4)
    n, m, saved = 60, 30, 0
    for _ in range(4):
        A = rng.random((m, n)) * (rng.random((m, n)) < 0.5)
        model = Model(made(-rng.random(n), A, -INF, 2.0 + rng.random(m), 0.0, 1.0))
        cold = model.solve().iterations
        if edit == "rows":
            model.add_rows(rng.random((1, n)), row_upper=n / 8)
        elif edit == "columns":
            model.add_columns([-0.5], rng.random((m, 1)), bounds=(0, 1))
        else:
            model.update(
                A={(int(i), int(j)): 0.25 for i, j in zip(*np.nonzero(A == 0), strict=True) if i == 0}
            )
        found = model.solve()
        saved += found.details["start"] == "kept basis" and found.iterations < 0.7 * cold
        assert found.objective == pytest.approx(Model(model.lp).solve().objective, rel=1e-9)
    assert saved >= 3


# ---- what is refused -------------------------------------------------------------------------------------

REFUSED = [
    (dict(c=[1.0]), EditError, "c = .*must have 3 numbers"),
    (dict(c={"xx0": 1.0}), EditError, "there is no such column; did you mean x0"),
    (dict(c={9: 1.0}), EditError, "must be a name or a position from 0 to 2"),
    (dict(c={-1: 1.0}), EditError, "must be a name or a position"),
    (dict(c={"x0": 1.0, 0: 2.0}), EditError, "given twice"),
    (dict(c=[1.0, np.nan, 2.0]), EditError, r"c\[1\].*nan"),
    (dict(c=["1", "2", "3"]), ArgumentTypeError, "must be numbers"),
    (dict(c={0: "one"}), ArgumentTypeError, "must be numbers"),
    (dict(c=pd.Series([1.0, 2.0, 3.0], ["x0", "x1", "y"])), EditError, "index must have exactly the ids"),
    (dict(c=[1e20, 0, 0]), EditError, "column x0.*must be below"),
    (dict(row_upper={"r7": 1.0}), EditError, "there is no such row; there are: r0, r1"),
    (dict(row_upper=[1.0, np.nan]), EditError, "row 1.*nan"),
    (dict(row_lower=[99.0, 0.0]), EditError, "row 0.*lower <= upper"),
    (dict(bounds={"x1": (9.0, 8.0)}), EditError, "column 1.*lower <= upper"),
    (dict(bounds={"x1": 3.0}), EditError, "bounds"),
    (dict(bounds=[(0, 1)] * 2), EditError, "must be one pair or 3 pairs"),
    (dict(integrality=[0, 1]), EditError, "integrality"),
    (dict(integrality=[0, 2, 0]), EditError, "must be 0 or 1"),
    (dict(integrality={"x0": 1}, bounds={"x0": (0.2, 0.8)}), EditError, "no whole number"),
    (dict(A=np.ones((3, 3))), EditError, "must have the shape"),
    (dict(A=[[1.0, 2.0], [3.0]]), EditError, "A"),
    (dict(A={(0, 0): np.inf}), EditError, "row 0, column 0.*must be finite"),
    (dict(A={(0, "x9"): 1.0}), EditError, "there is no such column; there are: x0, x1, x2"),
    (dict(A={0: 1.0}), EditError, r"pairs \(row, column\)"),
    (dict(A={("r1", "x2"): 1e15}), EditError, "row r1, column x2.*must be below 1e.15"),
    (dict(b_ub=[1.0, 2.0]), EditError, "is for models of from_arrays"),
    (dict(lp="file.mps"), ArgumentTypeError, "must be a LinearProgram"),
    (dict(cc=[1.0]), TypeError, "'cc'; did you mean c"),
]  # fmt: skip


@pytest.mark.parametrize(("given", "kind", "said"), REFUSED, ids=lambda each: str(each)[:40])
def test_what_makes_no_sense_is_named_and_changes_nothing(given, kind, said):
    names = {"column_names": ("x0", "x1", "x2"), "row_names": ("r0", "r1")}
    model = Model(
        made([1.0, 2.0, -1.0], [[1.0, 1.0, 0.0], [0.0, 1.0, 2.0]], [0.0, -INF], [5.0, 6.0], 0.0, 4.0, **names)
    )
    before, lp = model.solve().objective, model.lp
    with pytest.raises(kind, match=said):
        model.update(**given)
    assert model.lp is lp and model.solve().objective == before


@pytest.mark.parametrize(
    ("method", "given", "kind"),
    [
        ("add_rows", ([[1.0]],), EditError), ("add_rows", ([[1.0, np.nan]],), EditError),
        ("add_rows", ([[1.0, 1.0]], 3.0, 2.0), EditError), ("add_rows", ([["a", 1.0]],), ArgumentTypeError),
        ("add_columns", ([1.0], [[1.0], [1.0]]), EditError), ("add_columns", ([np.nan], [[1.0]]), EditError),
        ("add_columns", ([1.0, 2.0], [[1.0]]), EditError), ("remove_rows", ([1],), EditError),
        ("remove_rows", (["r"],), EditError), ("remove_columns", ([0, 0],), EditError),
        ("remove_columns", ([True],), EditError), ("remove_columns", ([0.5],), EditError),
    ],
)  # fmt: skip
def test_rows_and_columns_that_make_no_sense_change_nothing(method, given, kind):
    model = from_arrays([-1.0, -2.0], A_ub=[[1.0, 1.0]], b_ub=[4.0], bounds=(0, 3))
    lp = model.lp
    with pytest.raises(kind):
        getattr(model, method)(*given)
    assert model.lp is lp and model.solve().objective == -7.0


@pytest.mark.parametrize(("name", "value"), [("tolerance", 0), ("tolerance", np.nan), ("time_limit", -1)])
def test_settings_that_make_no_sense(name, value):
    with pytest.raises(SettingError, match=name):
        from_arrays([1.0]).solve(**{name: value})


def test_a_model_prints_its_size_and_is_solved_by_one_thread_at_a_time(monkeypatch):
    model = from_arrays([-1.0, -2.0], A_ub=[[1.0, 1.0]], b_ub=[4.0])
    assert repr(model) == "<Model: 1 rows, 2 columns>"

    def twice(*_):
        model.solve()

    monkeypatch.setattr("copter.solvers.general.model.HighsLP", twice)
    with pytest.raises(ConcurrentUseError):
        model.solve()


@pytest.mark.parametrize("maximize", [False, True])
def test_values_and_duals_are_by_the_names_of_the_source(maximize):
    """2 x + y <= 4 is tight, and worth 1 a unit; y is wanted, x is not."""
    sign = -1.0 if maximize else 1.0
    names = {"column_names": ("x", "y"), "row_names": ("room",)}
    found = Model(made([1.0, -1.0], [[2.0, 1.0]], -INF, 4.0, offset=3.0, maximize=maximize, **names)).solve()
    assert found.values == pytest.approx({"x": 0.0, "y": 4.0}) and found.duals == {"room": -sign}
    assert [found.objective, found.bound] == pytest.approx([-sign, -sign]) and found.y.tolist() == [1.0]


@pytest.mark.parametrize("name", ["highs-hot", "highs-simplex"])
def test_a_solver_and_the_model_itself_agree_after_each_edit(name):
    model, solver = from_arrays([-1.0, -2.0], A_ub=[[1.0, 1.0]], b_ub=[4.0], bounds=(0, 3)), make_solver(name)
    for edit in ({}, {"c": {0: -3.0}}, {"b_ub": [5.0]}, {"bounds": (0, 1)}):
        model.update(**edit)
        own, other = model.solve(), solver.solve(model)
        assert own.objective == other.objective and other.details["solver"] == name


@pytest.mark.parametrize("name", ["highs-simplex", "highs-hot", "highs-ipm"])
def test_a_relaxation_says_that_it_is_one(name):
    model = from_arrays([-1.0], A_ub=[[2.0]], b_ub=[3.0], bounds=(0, 5), integrality=[1])
    found = make_solver(name).solve(model)
    assert found.objective == pytest.approx(-1.5) and found.reason.startswith(
        "relaxation without integrality"
    )
    assert make_solver("highs-milp").solve(model).objective == model.solve().objective == -1.0
