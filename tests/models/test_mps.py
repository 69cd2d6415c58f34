"""Files of linear programs: sense, integrality, gzip, and what is refused."""

import gzip
import warnings

import highspy
import numpy as np
import pytest

from copter import Model, make_solver, read_model
from copter.errors import CopterError, EditError, FileError, InputError
from copter.models.highs import HighsEngine
from copter.solution import Status
from support import real_data
from support.highs_models import from_highs
from support.lp_cases import random_general
from support.mps_texts import FIXED, MAXIMISE, RANGES

INF = np.inf
DATA = real_data.DATA / "lp"


def written(tmp_path, text, name="file.mps"):
    path = tmp_path / name
    path.write_text(text)
    return path


def test_a_maximisation_keeps_its_sense_and_its_integers(tmp_path):
    lp = read_model(written(tmp_path, MAXIMISE))
    assert lp.maximize and lp.integral.tolist() == [True, False, True]
    model = Model(lp)
    whole = model.solve(tolerance=1e-9)
    np.testing.assert_allclose(whole.x, [2.0, 0.25, 1.0], atol=1e-6)
    assert whole.objective == pytest.approx(22.25)
    relaxed = make_solver("highs-simplex").solve(model)
    assert relaxed.objective == pytest.approx(22.5)
    assert relaxed.bound == pytest.approx(22.5) and whole.bound >= 22.25


def test_bounds_of_integers_are_rounded_inwards(tmp_path):
    rows = "Minimize\n obj: x + y - z\nSubject To\n a: x + y + z >= -9.5\n b: z - y <= 3.7\n"
    bounds = "Bounds\n -2.5 <= x <= 4.5\n -inf <= y <= -1.5\n z free\nGeneral\n x y z\nEnd\n"
    solution = Model(read_model(written(tmp_path, rows + bounds, "file.lp"))).solve()
    x = solution.x
    assert solution.status is Status.OPTIMAL
    np.testing.assert_allclose(x, np.rint(x), atol=1e-9)
    assert solution.objective == pytest.approx(-5.0) and x[2] - x[1] == pytest.approx(3.0)


def test_bounds_with_no_whole_number_between_them(tmp_path):
    text = MAXIMISE.replace("LO BND x 0.5", "LO BND x 2.1")
    with pytest.raises(EditError, match="column 0.*no whole number"):
        Model(read_model(written(tmp_path, text)))


def test_gzipped(tmp_path):
    path = tmp_path / "file.mps.gz"
    path.write_bytes(gzip.compress(MAXIMISE.encode()))
    plain, packed = read_model(written(tmp_path, MAXIMISE)), read_model(path)
    np.testing.assert_array_equal(packed.c, plain.c)
    np.testing.assert_array_equal(packed.A.toarray(), plain.A.toarray())
    path.write_bytes(b"no gzip at all")
    with pytest.raises(CopterError, match="unpacked"):
        read_model(path)


@pytest.mark.parametrize(
    ("old", "new", "line"),
    [
        ("x obj 5.0 a 3.0", "x obj 5.0 a nan", "9, COLUMNS"),
        ("x obj 5.0 a 3.0", "x obj NaN a 3.0", "9, COLUMNS"),
        ("x obj 5.0 a 3.0", "x obj -nan(0x1)", "9, COLUMNS"),
        ("RHS a 8.5 obj -10", "RHS a nan obj -10", "16, RHS"),
        ("RHS a 8.5 obj -10", "a NAN obj -10", "16, RHS"),
        ("UP BND x 2.5", "UP BND x nan", "19, BOUNDS"),
    ],
)
def test_nan_is_refused_with_its_line(tmp_path, old, new, line):
    for strict in (True, False):
        with pytest.raises(InputError, match=rf"file\.mps, line {line}: NaN"):
            read_model(written(tmp_path, MAXIMISE.replace(old, new)), strict=strict)


def test_nan_may_be_a_name(tmp_path):
    text = MAXIMISE.replace(" L a", " L nan").replace(" a ", " nan ").replace("x", "NaN")
    lp = read_model(written(tmp_path, text))
    assert lp.row_names == ("nan",) and lp.column_names == ("NaN", "y", "z")
    with pytest.raises(InputError, match="line 2: NaN"):
        read_model(written(tmp_path, "Minimize\n obj: x + nan y\nEnd\n", "file.lp"))


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("Minimize\n obj: x + [ 2 x ^ 2 ] / 2\nSubject To\n a: x >= 1\nEnd\n", "quadratic"),
        ("Maximize\n obj: x\nSubject To\n a: x <= 4\nBounds\n x <= 9\nSemi\n x\nEnd\n", "semi-continuous"),
    ],
)
def test_what_is_no_linear_program(tmp_path, text, why):
    with pytest.raises(CopterError, match=why):
        read_model(written(tmp_path, text, "file.lp"))


def test_files_that_cannot_be_read(tmp_path):
    with pytest.raises(CopterError, match="no such file"):
        read_model(tmp_path / "nowhere.mps")
    with pytest.raises(FileError, match=r"letter\.mps, line 1: 'Dear' is not a section"):
        read_model(written(tmp_path, "Dear Sir or Madam,", "letter.mps"))
    with pytest.raises(FileError, match=r"letter\.txt: must have a name that ends in \.mps or \.lp"):
        read_model(written(tmp_path, "Dear Sir or Madam,", "letter.txt"))


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
    with pytest.raises(CopterError, match=f"line {line}, [A-Z]+: '{odd}' is not a number"):
        read_model(path)


# fmt: off
# What other readers let pass: where it stands, what it says in strict files, and the program without strict.
# Each is (old, new, line and what is said, a figure of the program that strict=False makes, its value).
DOUBTS = [
    ("x high 3.5 other 7", "x high 3.5 hihg 7", "12, COLUMNS: there is no row 'hihg'", "A", 2.0),
    ("RHS same -2", "RHS smae -2", "18, RHS: there is no row 'smae'", "row_lower", [2, 1, 0, -2.5]),
    ("RNG wide", "RNG wiide", "21, RANGES: there is no row 'wiide'", "row_lower", [2, 1, -2, 0]),
    ("FX BND z 0.5", "FX BND zz 0.5", "26, BOUNDS: there is no column 'zz'", "lower", [-INF, -INF, 0]),
    ("FX BND z 0.5", "UP BND y 8", "26, BOUNDS: column 'y' has 10 for its upper", "upper", [INF, 10, INF]),
    (
        "FX BND z 0.5",
        "UP BND z -1",
        "26, BOUNDS: column 'z' has the upper bound -1, and 0",
        "lower",
        [-INF] * 3,
    ),
    ("x high 3.5 other 7", "x low 3.5", "12, COLUMNS: column 'x' has an entry in row 'low'", "A", 2.0),
    (
        " z wide -1",
        " z wide -1\n x same 9",
        "16, COLUMNS: column 'x', begun in line 11, continues after other columns",
        "c",
        [1, -0.125, 0],
    ),
    ("RHS same -2", "RHS low -2", "18, RHS: row 'low' has a right-hand side", "row_upper", [5, 5, 0, 0]),
    ("RHS same -2", "RHS2 same -2", "18, RHS: a second set, 'RHS2'", "row_upper", [5, 5, -2, 0]),
    ("RNG wide -2.5", "RNG low 9", "21, RANGES: row 'low' has a range", "row_lower", [2, 1, -2, 0]),
    ("RNG wide -2.5", "RNG other 9", "21, RANGES: row 'other' is of kind N", "row_lower", [2, 1, -2, 0]),
    (
        " E wide",
        " E wide\n G low",
        "10, ROWS: row 'low' is defined in line 6 already",
        "row_lower",
        [2, 1, -2, -2.5],
    ),
    ("ROWS", "OBJSENSE\n FOO\nROWS", "4, OBJSENSE: 'FOO' is not a sense", "c", [1, -0.125, 0]),
    ("ROWS", "OBJSENSE FOO\nROWS", "3, OBJSENSE: 'FOO' is not a sense", "c", [1, -0.125, 0]),
    ("ENDATA\n", "", "26, BOUNDS: the file ends without ENDATA", "c", [1, -0.125, 0]),
    (" RHS low 5 high 1", "R low 5 high 1", "17, RHS: 'R' is not a section", "row_upper", [5, 5, -2, 0]),
]
# fmt: on


@pytest.mark.parametrize(
    ("old", "new", "why", "field", "value"), DOUBTS, ids=[each[2][:30] for each in DOUBTS]
)
def test_what_is_in_doubt(tmp_path, old, new, why, field, value):
    path = written(tmp_path, RANGES.replace(old, new, 1))
    with pytest.raises(InputError, match=f"file.mps, line {why}"):
        read_model(path)
    with pytest.warns(UserWarning, match=f"line {why}"):
        lp = read_model(path, strict=False)
    found = lp.A[0, 0] if field == "A" else getattr(lp, field)
    np.testing.assert_array_equal(found, value)


def test_only_the_objective_has_a_constant(tmp_path):
    lp = read_model(written(tmp_path, RANGES.replace("RHS same -2", "RHS other 9 cost 4")))
    assert lp.offset == -4.0


@pytest.mark.parametrize("word", ["MAX", "maximize"])
def test_the_sense_may_stand_beside_its_section(tmp_path, word):
    lp = read_model(written(tmp_path, RANGES.replace("ROWS", f"OBJSENSE {word}\nROWS")))
    assert lp.maximize and lp.c.tolist() == [-1, 0.125, 0]


@pytest.mark.parametrize("text", [MAXIMISE, RANGES, FIXED])
def test_sound_files_are_read_as_by_highs(tmp_path, text):
    path = written(tmp_path, text)
    assert not unlike(read_model(path), by_highs(path))


@pytest.mark.skipif(not DATA.is_dir(), reason="no files of linear programs")
@pytest.mark.parametrize("path", sorted(DATA.glob("*.mps")), ids=lambda path: path.stem)
def test_files_of_the_world_are_read_as_by_highs(path):
    if path.stem.startswith("nan"):
        with pytest.raises(InputError, match="line (9|12), .*NaN"):
            read_model(path)
        return
    lp = read_model(path)
    kept = abs(lp.A.data) >= 1e-9  # what HiGHS' reader keeps: of gas11 it drops twelve entries of -9.999e-10
    assert kept.all() or path.stem == "gas11"
    lp.A.data[~kept] = 0.0
    lp.A.eliminate_zeros()
    assert not unlike(lp, by_highs(path))


def by_highs(path):
    highs = highspy.Highs()
    highs.setOptionValue("output_flag", False)
    assert highs.readModel(str(path)) != highspy.HighsStatus.kError
    return from_highs(highs.getLp())


def unlike(one, other):
    """Names of the fields in which two programs differ."""
    arrays = ("c", "row_lower", "row_upper", "lower", "upper", "integral")
    found = [name for name in arrays if not np.array_equal(getattr(one, name), getattr(other, name))]
    found += ["A"] if one.A.shape != other.A.shape or (one.A - other.A).count_nonzero() else []
    plain = ("offset", "maximize", "column_names", "row_names")
    return found + [name for name in plain if getattr(one, name) != getattr(other, name)]


LP_ROWS = """Minimize
 obj: 3 x - 2 y + 4 + z
Subject To
 1 <= x + y <= 5
 b: x + 3 >= 2 y - z + 1
 c: -4 >= -
    2 x - y + 1 >= -9
 x - y
   <= 3
 -x >= -7
Bounds
 -inf <= x <= 4
 2 >= z
End
"""


def test_lp_files_with_ranges_constants_and_variables_on_the_right(tmp_path):
    lp = read_model(written(tmp_path, LP_ROWS, "file.lp"))
    assert (lp.column_names, lp.row_names) == (("x", "y", "z"), ("c1", "b", "c", "c4", "c5"))
    assert lp.c.tolist() == [3, -2, 1] and lp.offset == 4
    expected = [[1, 1, 0], [1, -2, 1], [-2, -1, 0], [1, -1, 0], [-1, 0, 0]]
    np.testing.assert_array_equal(lp.A.toarray(), expected)
    assert lp.row_lower.tolist() == [1, -2, -10, -INF, -7] and lp.row_upper.tolist() == [5, INF, -5, 3, INF]
    assert lp.lower.tolist() == [-INF, 0, 0] and lp.upper.tolist() == [4, INF, 2]


@pytest.mark.parametrize(
    ("old", "new", "why"),
    [
        (" b: x + 3", " b: x y + 3", "line 5: the row has no <=, >= or = before 'y'"),
        (" b: x + 3", " b: 2 3 x", "line 5: '2 3' is not a number"),
        ("<= 5", "<= z", "line 4: must have the form: number <= sum of variables"),
        ("-x >= -7", "-x >=", "line 10: a sum of variables, or a number, is missing"),
        (" 2 >= z", " 2 >= 3 z", "line 13: must be a bound"),
        ("Minimize\n", "max: x\n", "line 1: 'max' is neither Minimize nor Maximize"),
        ("b: x + 3", "b: x * 3", "line 5: has a quadratic term or a product"),
        (" 2 >= z", " 2 >= w", "line 13: the variable 'w' is neither in a row nor in the objective"),
        (" 2 >= z", " 3 >= x", "line 13: 'x' has 4 for its upper bound already, from line 12"),
        (" 2 >= z", " z <= -2", "line 13: 'z' has the lower bound 0, 0 by default, and"),
        (" c: -4", " b: -4", "line 6: the name 'b' is that of a row in line 5, too"),
        ("End\n", "", "line 13: the file ends without End"),
    ],
)
def test_lp_files_that_are_wrong_or_in_doubt(tmp_path, old, new, why):
    path = written(tmp_path, LP_ROWS.replace(old, new, 1), "file.lp")
    with pytest.raises(InputError, match=why) as told:
        read_model(path)
    if "strict=False" in str(told.value):
        with pytest.warns(UserWarning, match=why):
            read_model(path, strict=False)
    else:
        with pytest.raises(InputError, match=why), warnings.catch_warnings():
            warnings.simplefilter("error")
            read_model(path, strict=False)


@pytest.mark.parametrize(
    "row",
    [
        *("x + y >= 2,5", "2,5 x + y >= 2", "2,5x >= 2", "2 ,5 x >= 2", "x >= 1.234,5", "x >= 1,234.5"),
        *("x >= 1.234.567", "x >= 1'000", "x >= 1_000", "x >= 1 000", "x >= 1\u2009000", "x >= .5.5"),
        *("x >= 5%", "x >= 5 %", "x >= 5 \u20ac", "x >= 2;", "x >= 2 ;", "3 x + 2 y; >= 4", "x, y >= 2"),
        *("x >= \u22122", "x\u2212y >= 2", "2\u00d7x >= 2", "x >= \u0663", "2\u00b7x >= 2"),
        *("2 (x + y) >= 2", "2(x) >= 2", "f(x + y) >= 2", "{x + y} >= 2", "x) >= 2", "2#x >= 2"),
    ],
)
def test_numbers_and_names_in_other_notations_are_rejected_in_lp_files(tmp_path, row):
    for section in ("Subject To", "Bounds"):
        text = f"Minimize\n x + y\n{section}\n {row}\n y <= 3\nEnd\n"
        for strict in (True, False):
            with pytest.raises(InputError, match="line 4: ['\"]"):  # the word that is not understood
                read_model(written(tmp_path, text, "file.lp"), strict=strict)


def test_names_that_lp_files_may_have(tmp_path):
    names = ("x(1,2)", "a[1,2]", "_u", "y_1", "\u00e4", "o\u0308", "#x", "'a'", "x,1", "a;b", "e/m")
    rows = "".join(f" c{k}: 2 {name} + 1.5e0 {name} >= {k}.25\n" for k, name in enumerate(names))
    lp = read_model(written(tmp_path, f"Minimize\n 3x\nSubject To\n{rows}End\n", "file.lp"))
    assert set(lp.column_names) == {"x", *names} and lp.A.data.tolist() == [3.5] * len(names)


@pytest.mark.parametrize("seed", range(8))
def test_lp_files_by_highs_writer(tmp_path, seed):
    lp = random_general(seed)
    HighsEngine.loaded(lp, None).writeModel(str(tmp_path / "lp.lp"))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # columns in no row
        back = read_model(tmp_path / "lp.lp", strict=False)
    assert not unlike(back, by_highs(tmp_path / "lp.lp"))


@pytest.mark.parametrize("ending", ["mps", "lp"])
def test_a_byte_order_mark_is_no_part_of_a_model(tmp_path, ending):
    lp = "Minimize\n x\nSubject To\n r: x >= 1\nEnd\n"
    mps = "ROWS\n N c\n G r\nCOLUMNS\n x c 1 r 1\nRHS\n RHS r 1\nENDATA\n"
    path = tmp_path / f"model.{ending}"
    path.write_text("\ufeff" + (lp if ending == "lp" else mps), encoding="utf-8")
    assert read_model(path).column_names == ("x",)


@pytest.mark.parametrize(
    "name", ["x[0]", "x[1,2]", "x[a]", "x[1][2]", "x[-1]", "flow[a,b]_in", "a/b", "x[a/b]"]
)
def test_names_in_lp_files_may_have_brackets(tmp_path, name):
    path = tmp_path / "model.lp"
    path.write_text(
        f"Minimize\n 2 {name} + 3 c\nSubject To\n cap[{name[0]}]: {name} + c >= 4\n"
        f" 1 <= {name} - c <= 2\nBounds\n -1 <= {name} <= 3\nGeneral\n {name}\nEnd\n"
    )
    lp = read_model(path)
    assert lp.column_names == (name, "c") and lp.c.tolist() == [2.0, 3.0]
    assert (lp.lower[0], lp.upper[0], lp.integral.tolist()) == (-1.0, 3.0, [True, False])
    assert lp.row_names[0] == f"cap[{name[0]}]"


@pytest.mark.parametrize("term", ["[ x ^ 2 ] / 2", "[x^2]/2", "x * y", "x ^ 2", "x / 2", "2 [ x * y ]"])
def test_products_in_lp_files_are_refused(tmp_path, term):
    path = tmp_path / "model.lp"
    path.write_text(f"Minimize\n y + {term}\nSubject To\n r: x + y >= 4\nEnd\n")
    with pytest.raises(InputError, match="line 2"):
        read_model(path)
