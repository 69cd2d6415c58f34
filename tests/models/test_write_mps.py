"""Programs written to MPS files: read back by HiGHS and by copter they are what they were."""

from __future__ import annotations

import string
from dataclasses import replace

import highspy
import numpy as np
import pytest
from scipy.sparse import csc_array

from copter import ContinualProgram, LogTerm, Model, make_solver, to_mathopt
from copter.errors import CopterError, EditError, UnsupportedError
from copter.models.files import read_model, write_mps
from copter.models.linear_program import LinearProgram
from support.lp_cases import random_general

INF = np.inf


def by_highs(path) -> tuple[float, highspy.HighsLp]:
    highs = highspy.Highs()
    highs.setOptionValue("output_flag", False)
    assert highs.readModel(str(path)) == highspy.HighsStatus.kOk
    highs.setOptionValue("mip_rel_gap", 0.0)
    highs.run()
    return highs.getInfo().objective_function_value, highs.getLp()


@pytest.mark.parametrize("maximize", [False, True])
@pytest.mark.parametrize("seed", range(12))
def test_a_general_lp_comes_back_with_its_shape_and_its_optimum(seed, maximize, tmp_path):
    lp = random_general(seed)
    integral = np.random.default_rng(seed).random(lp.c.size) < 0.4
    bounded = np.isfinite(lp.row_lower) | np.isfinite(lp.row_upper)
    lp = replace(lp, maximize=maximize, integral=integral & (np.ceil(lp.lower) <= np.floor(lp.upper)))
    write_mps(lp, tmp_path / "lp.mps")
    back = read_model(tmp_path / "lp.mps")
    np.testing.assert_allclose(back.c, lp.c, rtol=1e-14)
    np.testing.assert_allclose(back.A.toarray(), lp.A.toarray()[bounded], rtol=1e-14)
    for name in ("row_lower", "row_upper"):
        np.testing.assert_allclose(getattr(back, name), getattr(lp, name)[bounded], rtol=1e-14, atol=1e-12)
    assert (back.maximize, back.integral.tolist()) == (maximize, lp.integral.tolist())
    continuous = ~lp.integral
    np.testing.assert_allclose(back.lower[continuous], lp.lower[continuous], rtol=1e-14)
    relaxed = replace(lp, integral=np.zeros(lp.c.size, bool))
    write_mps(relaxed, tmp_path / "relaxed.mps")
    truth = Model(relaxed).solve()
    objective, _ = by_highs(tmp_path / "relaxed.mps")
    assert objective == pytest.approx(truth.objective, rel=1e-9, abs=1e-9)


def allocation() -> ContinualProgram:
    program = ContinualProgram()
    program.add_resource("gpu A100", upper=8, lower=1)
    program.add_resource(("rack", 1), upper=INF, lower=-3)
    program.add_resource("Obj", upper=4, lower=4)
    program.add_request("jöb", [-1.5, -2.25], {"gpu A100": [1, 2], ("rack", 1): [0.5, -1]}, total=1)
    program.add_request("j_b", [-1, 0], {"gpu A100": [1, 2]}, upper=[3, 1e3], integral=True)
    program.add_request(7, [-1.0, -1.0], {"Obj": [1, 2]}, total=3, relation="==")
    return program


def test_a_program_keeps_rows_bounds_kinds_and_names(tmp_path):
    program = allocation()
    program.write(tmp_path / "program.mps")
    objective, lp = by_highs(tmp_path / "program.mps")
    assert objective == pytest.approx(make_solver("highs-milp", mip_gap=0.0).solve(program).objective)
    assert lp.col_names_ == ["j_b[0]~1", "j_b[1]~1", "j_b[0]~2", "j_b[1]~2", "7[0]", "7[1]"]
    assert lp.row_names_ == ["gpu_A100", "('rack',_1)", "Obj~1", "total[j_b]", "total[7]"]
    assert list(lp.row_lower_) == [1, -3, 4, -INF, 3] and list(lp.row_upper_) == [8, INF, 4, 1, 3]
    integer = highspy.HighsVarType.kInteger
    assert [kind == integer for kind in lp.integrality_] == [False, False, True, True, False, False]


def test_names_of_a_file_stay(tmp_path):
    program = allocation()
    program.write(tmp_path / "first.mps")
    first = read_model(tmp_path / "first.mps")
    write_mps(first, tmp_path / "second.mps")
    second = read_model(tmp_path / "second.mps")
    assert (first.column_names, first.row_names) == (second.column_names, second.row_names)
    assert len(set(first.column_names)) == len(first.column_names) == program.n_variables


@pytest.mark.parametrize("seed", range(20))
def test_numbers_come_back_bit_by_bit(seed, tmp_path):
    rng = np.random.default_rng(seed)
    lp = random_general(seed)
    m, n = lp.A.shape
    draw = lambda k: rng.choice([1.0, 2.0**52 - 1, 1 / 3, 1e-7, 1e15]) * rng.random(k)  # noqa: E731
    lp.A.data[:] = np.where(rng.random(lp.A.nnz) < 0.5, draw(lp.A.nnz), 2.0**53 - 1)
    row_lower, row_upper = np.sort([draw(m), 1e3 * draw(m) + 1.0], axis=0)
    kind = rng.integers(0, 4, m)
    row_lower = np.where(kind == 1, -INF, row_lower)
    row_upper = np.where(kind == 0, row_lower, np.where(kind == 2, INF, row_upper))
    row_upper = np.where(np.isinf(row_lower) & np.isinf(row_upper), 1.0, row_upper)
    lower, upper = np.sort(rng.normal(size=(2, n)) * draw(n), axis=0)
    integral = rng.random(n) < 0.3
    lower, upper = np.where(integral, (np.floor(lower), np.ceil(upper)), (lower, upper))
    lp = replace(lp, c=draw(n), row_lower=row_lower, row_upper=row_upper, lower=lower, upper=upper)
    lp = replace(lp, integral=integral, maximize=bool(seed % 2), offset=1 / 3)
    write_mps(lp, tmp_path / "lp.mps")
    back = read_model(tmp_path / "lp.mps")
    for name in ("c", "row_lower", "row_upper", "lower", "upper", "integral", "offset", "maximize"):
        assert np.array_equal(getattr(back, name), getattr(lp, name)), name
    assert (back.A != lp.A).nnz == 0


def test_what_cannot_be_written(tmp_path):
    program = allocation()
    with pytest.raises(CopterError, match=r"\.lp: cannot be written.*\.mps"):
        program.write(tmp_path / "program.lp")
    with pytest.raises(CopterError, match="there is no folder"):
        program.write(tmp_path / "nowhere" / "program.mps")
    with pytest.raises(EditError, match="must be finite"):
        write_mps(replace(random_general(1), c=np.full(random_general(1).c.size, INF)), tmp_path / "a.mps")
    program.add_request("fair", [0.0], {"Obj": [1.0]}, term=LogTerm(1.0, 1.0), upper=1e3)
    with pytest.raises(CopterError, match="'fair' has a convex term"):
        program.write(tmp_path / "program.mps")
    assert not list(tmp_path.iterdir())


WORDS = [
    *"NLGE",
    "RHS",
    "RHS_V",
    "RANGES",
    "RANGE",
    "BOUNDS",
    "BOUND",
    "MARKER",
    "'MARKER'",
    "'INTORG'",
    "'INTEND'",
]
WORDS += [
    "NAME",
    "ROWS",
    "COLUMNS",
    "ENDATA",
    "OBJSENSE",
    "MAX",
    "Obj",
    "UP",
    "FR",
    "BV",
    "SOS",
    "INDICATORS",
]
WORDS += ["inf", "nan", "-1", "1e5", "0x1", "MARK0", "MARKEND", *string.punctuation, "$a", "*1", "a:", "'a'"]


@pytest.mark.parametrize("places", [(True, False), (False, True), (True, True)])
def test_every_name_is_read_back(places, tmp_path):
    """A file with names that mean something to a reader has the same numbers for copter and for HiGHS."""
    A = np.array([[1.0, 2.0, 0.0], [0.0, 3.0, 4.0], [5.0, 0.0, 6.0]])
    for word in WORDS:
        rows, columns = ((word, "y", "z") if own else ("x", "y", "z") for own in places)
        lp = LinearProgram(
            np.array([1.0, -2.0, 3.0]), csc_array(A), np.array([1.0, -INF, 0.5]), np.array([50.0, 9.0, INF]),
            np.array([-2.0, 0.0, 0.0]), np.array([INF, 7.0, 7.0]), 3.0, np.array([False, True, False]), False,
            columns, rows,
        )  # fmt: skip
        write_mps(lp, tmp_path / "lp.mps")
        back, (_, highs) = read_model(tmp_path / "lp.mps"), by_highs(tmp_path / "lp.mps")
        assert len({*back.row_names}) == len({*back.column_names}) == 3
        for field, other in (("c", "col_cost_"), ("lower", "col_lower_"), ("upper", "col_upper_")):
            assert (
                getattr(back, field).tolist() == getattr(lp, field).tolist() == list(getattr(highs, other))
            ), word
        for field in ("row_lower", "row_upper"):
            own = getattr(lp, field).tolist()
            assert getattr(back, field).tolist() == own == list(getattr(highs, f"{field}_")), word
        assert (back.A.toarray() == A).all() and list(highs.a_matrix_.value_) == lp.A.data.tolist(), word


@pytest.mark.parametrize("write", [lambda lp, path: write_mps(lp, path), lambda lp, path: to_mathopt(lp)])
def test_semi_continuous_columns_are_refused(tmp_path, write):
    A = csc_array(np.array([[1.0, 1.0]]))
    row, zero = np.array([1.0]), np.zeros(2, bool)
    lp = LinearProgram(np.ones(2), A, row, 9 * row, np.array([0.0, 2.0]), np.full(2, 5.0), 0.0, zero)
    with pytest.raises(UnsupportedError, match="column 1 must not be semi-continuous"):
        write(replace(lp, semi=np.array([False, True])), tmp_path / "lp.mps")
    assert not list(tmp_path.iterdir())
    write(replace(lp, semi=zero), tmp_path / "lp.mps")


def test_ids_that_readers_take_for_something_else(tmp_path):
    program = ContinualProgram()
    for id in ("'MARKER'", "RHS_V", "'MARKER'~1"):
        program.add_resource(id, upper=4)
        program.add_request(id, [-1.0], {id: 2}, total=3, integral=id != "RHS_V")
    program.write(tmp_path / "p.mps")
    back = read_model(tmp_path / "p.mps")
    assert back.row_names[:3] == ("'MARKER'~2", "RHS_V~1", "'MARKER'~1")
    assert back.integral.tolist() == [True, False, True] and by_highs(tmp_path / "p.mps")[0] == -6.0
