"""Files of linear programs: sense, integrality, gzip, and what is refused."""

import gzip

import numpy as np
import pytest
from mps_texts import MAXIMISE

from copter.errors import CopterError, EditError
from copter.models.mps import nan_line
from copter.solution import Status
from copter.solvers import make_solver
from copter.solvers.general import read_mps, to_program


def written(tmp_path, text, name="file.mps"):
    path = tmp_path / name
    path.write_text(text)
    return path


def test_a_maximisation_keeps_its_sense_and_its_integers(tmp_path):
    lp = read_mps(written(tmp_path, MAXIMISE))
    assert lp.maximize and lp.integral.tolist() == [True, False, True]
    general = to_program(lp)
    whole = make_solver("highs-milp", mip_gap=0.0).solve(general.program)
    np.testing.assert_allclose(general.point(whole), [2.0, 0.25, 1.0], atol=1e-6)
    assert general.objective(whole) == pytest.approx(22.25)
    relaxed = make_solver("highs-simplex").solve(general.program)
    assert general.objective(relaxed) == pytest.approx(22.5)
    assert general.bound(relaxed) == pytest.approx(22.5) and general.bound(whole) >= 22.25


def test_integers_stay_whole_when_a_bound_moves_to_zero(tmp_path):
    rows = "Minimize\n obj: x + y - z\nSubject To\n a: x + y + z >= -9.5\n b: z - y <= 3.7\n"
    bounds = "Bounds\n -2.5 <= x <= 4.5\n -inf <= y <= -1.5\n z free\nGeneral\n x y z\nEnd\n"
    general = to_program(read_mps(written(tmp_path, rows + bounds, "file.lp")))
    assert general.program.store.requests.integral[general.program.request_slots].all()
    solution = make_solver("highs-milp", mip_gap=0.0).solve(general.program)
    x = general.point(solution)
    assert solution.status is Status.OPTIMAL
    np.testing.assert_allclose(x, np.rint(x), atol=1e-9)
    assert general.objective(solution) == pytest.approx(-5.0) and x[2] - x[1] == pytest.approx(3.0)


def test_bounds_with_no_whole_number_between_them(tmp_path):
    text = MAXIMISE.replace("LO BND x 0.5", "LO BND x 2.1")
    with pytest.raises(EditError, match="column 0.*no whole number"):
        to_program(read_mps(written(tmp_path, text)))


def test_gzipped(tmp_path):
    path = tmp_path / "file.mps.gz"
    path.write_bytes(gzip.compress(MAXIMISE.encode()))
    plain, packed = read_mps(written(tmp_path, MAXIMISE)), read_mps(path)
    np.testing.assert_array_equal(packed.c, plain.c)
    np.testing.assert_array_equal(packed.A.toarray(), plain.A.toarray())
    path.write_bytes(b"no gzip at all")
    with pytest.raises(CopterError, match="unpacked"):
        read_mps(path)


@pytest.mark.parametrize(
    ("old", "new", "line"),
    [
        ("x obj 5.0 a 3.0", "x obj 5.0 a nan", 9),
        ("x obj 5.0 a 3.0", "x obj NaN a 3.0", 9),
        ("x obj 5.0 a 3.0", "x obj -nan(0x1)", 9),
        ("RHS a 8.5 obj -10", "RHS a nan obj -10", 16),
        ("RHS a 8.5 obj -10", "a NAN obj -10", 16),
        ("UP BND x 2.5", "UP BND x nan", 19),
    ],
)
def test_nan_is_refused_with_its_line(tmp_path, old, new, line):
    with pytest.raises(CopterError, match=rf"file\.mps, line {line}: NaN"):
        read_mps(written(tmp_path, MAXIMISE.replace(old, new)))


def test_nan_may_be_a_name(tmp_path):
    text = MAXIMISE.replace(" L a", " L nan").replace(" a ", " nan ").replace(" UP BND z 4", " FR BND nan")
    assert nan_line(text.encode()) == 0
    assert read_mps(written(tmp_path, text.replace(" FR BND nan\n", ""))).A.shape == (1, 3)
    assert nan_line(b"Minimize\n obj: x + nan y\nEnd\n", free_text=True) == 2


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("Minimize\n obj: x + [ 2 x ^ 2 ] / 2\nSubject To\n a: x >= 1\nEnd\n", "quadratic"),
        ("Maximize\n obj: x\nSubject To\n a: x <= 4\nBounds\n x <= 9\nSemi\n x\nEnd\n", "semi-continuous"),
    ],
)
def test_what_is_no_linear_program(tmp_path, text, why):
    with pytest.raises(CopterError, match=why):
        read_mps(written(tmp_path, text, "file.lp"))


def test_files_that_cannot_be_read(tmp_path):
    with pytest.raises(CopterError, match="no such file"):
        read_mps(tmp_path / "nowhere.mps")
    with pytest.raises(CopterError, match=r"letter\.mps: cannot be read"):
        read_mps(written(tmp_path, "Dear Sir or Madam,", "letter.mps"))


@pytest.mark.parametrize(
    ("old", "new", "odd"),
    [
        ("y obj 1.0 a 1.0", "y obj abc a 1.0", "abc"),
        ("a 8.5 obj", "a 8,5 obj", "8,5"),
        ("x 2.5", "x bar", "bar"),
    ],
)
def test_text_that_is_no_number_is_named_with_its_line(tmp_path, old, new, odd):
    path = tmp_path / "odd.mps"
    path.write_text(MAXIMISE.replace(old, new))
    line = next(n for n, text in enumerate(MAXIMISE.splitlines(), 1) if old in text)
    with pytest.raises(CopterError, match=f"line {line}: '{odd}' is no number"):
        read_mps(path)
