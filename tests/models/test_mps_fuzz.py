"""Mutated files: the reader gives the program that HiGHS reads, or an error that names the line.

``python tests/models/test_mps_fuzz.py SECONDS`` goes on with new seeds for so long.
"""

import random
import sys
import time
import warnings
from pathlib import Path
from tempfile import TemporaryDirectory

import highspy
import numpy as np
import pytest

from copter.errors import CopterError, InputError
from copter.models.files import read_model
from copter.models.linear_program import checked
from support.highs_models import from_highs
from support.mps_texts import FIXED, LP_FILE, MAXIMISE, RANGES

TEXTS = [(".mps", MAXIMISE, True), (".mps", RANGES, True), (".mps", FIXED, False), (".lp", LP_FILE, False)]
"""Ending, text, and whether HiGHS reads mutants of it: in the fixed format it runs for ever on an empty line,
and of LP files it drops signs, and constants in rows."""
TOKENS = [
    "nan", "inf", "-inf", "1e400", "-1e30", "1e", "0x1p3", "--1", "RHS", "RANGES", "BOUNDS", "ENDATA",
    "ROWS", "N", "MI", "BV", "SC", "free", "End", "sos", "[", "]", "^", "/", "<=", ">=", "=", ":", "x",
    "obj", "'MARKER'", "'INTORG'", "\0", "é", "*", "$", "\t", "1e-320", "99999999999999999999", "3", "-2",
    "y", "a", "b", "UP", "FX", "G", "E", "+", "-", "General", "\\", "OBJSENSE", "MAX", "1_000", "٣", "\x0b",
]  # fmt: skip


def mutated(text: str, draw: random.Random) -> bytes:
    """The text with some words replaced, doubled or dropped, lines exchanged, and perhaps cut short."""
    lines = [line.split(" ") for line in text.splitlines()]
    for _ in range(draw.randint(1, 4)):
        line = draw.randrange(len(lines))
        words = lines[line]
        where = draw.randrange(len(words)) if words else 0
        what = draw.choice(("replace", "insert", "drop", "swap lines", "double line", "byte"))
        if what == "replace" and words:
            words[where] = draw.choice(TOKENS)
        elif what == "insert":
            words.insert(where, draw.choice(TOKENS))
        elif what == "drop" and words:
            del words[where]
        elif what == "swap lines":
            other = draw.randrange(len(lines))
            lines[line], lines[other] = lines[other], lines[line]
        elif what == "byte" and words and words[where]:
            word, at = words[where], draw.randrange(len(words[where]))
            words[where] = word[:at] + chr(draw.randrange(1, 256)) + word[at + 1 :]
        else:
            lines.insert(line, list(words))
    whole = "\n".join(" ".join(words) for words in lines).encode()
    return whole[: draw.randint(0, len(whole))] if draw.random() < 0.2 else whole


def read(content: bytes, path: Path, by_highs: bool = False) -> bool:
    """Whether it is a program, and then that HiGHS reads the same if it reads it without a warning."""
    path.write_bytes(content)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            read_model(path, strict=False)
        except InputError as error:
            assert error.where.startswith("line "), error
    try:
        lp = read_model(path)
    except InputError as error:
        assert error.where.startswith("line "), error
        return False
    m, n = lp.A.shape
    assert (m, n) == (lp.row_lower.size, lp.c.size) == (len(lp.row_names), len(lp.column_names))
    assert np.isfinite(lp.c).all() and np.isfinite(lp.A.data).all() and (lp.lower <= lp.upper).all()
    try:
        checked(lp)
    except CopterError:
        pass  # no whole number between bounds
    ranges = content.find(b"\nRANGES")
    if not by_highs or 0 <= ranges < content.rfind(b"\nRHS"):  # HiGHS 1.16 reads ranges before sides wrongly
        return True
    highs = highspy.Highs()
    highs.setOptionValue("output_flag", False)
    highs.setOptionValue("time_limit", 5.0)
    if highs.readModel(str(path)) == highspy.HighsStatus.kOk:
        other = from_highs(highs.getLp())
        assert differences(lp, other) == [], content.decode(errors="replace")
    return True


def differences(one, other) -> list[str]:
    names = ("c", "row_lower", "row_upper", "lower", "upper", "integral")
    if one.A.shape != other.A.shape:
        return ["shape"]
    found = [name for name in names if not np.array_equal(getattr(one, name), getattr(other, name))]
    found += ["A"] if (one.A - other.A).count_nonzero() else []
    return found + [name for name in ("offset", "maximize") if getattr(one, name) != getattr(other, name)]


@pytest.mark.parametrize(("ending", "text", "by_highs"), TEXTS)
def test_mutated_files(ending, text, by_highs, tmp_path):
    assert read(text.encode(), tmp_path / f"whole{ending}", True)
    draw = random.Random(7)
    programs = sum(read(mutated(text, draw), tmp_path / f"file{ending}", by_highs) for _ in range(400))
    assert programs > 10


@pytest.mark.parametrize("ending", [".mps", ".lp"])
@pytest.mark.parametrize("content", [b"", b"\n\n", b"\0" * 50, b"\xff\xfe" * 20, b"NAME\nENDATA\n", b"End\n"])
def test_files_of_nothing(content, ending, tmp_path):
    assert not read(content, tmp_path / f"file{ending}")


if __name__ == "__main__":
    limit, seed, counts = time.monotonic() + float(sys.argv[1]), 0, [0, 0]
    with TemporaryDirectory() as folder:
        while time.monotonic() < limit:
            for ending, text, by_highs in TEXTS:
                draw = random.Random(seed)
                content = mutated(text, draw)
                try:
                    counts[read(content, Path(folder) / f"file{ending}", by_highs)] += 1
                except Exception as error:
                    told = f"seed {seed} {ending}: {type(error).__name__}: {error}"
                    print(told, content.decode(errors="replace"), sep="\n")
            seed += 1
    print(f"{seed} seeds: {counts[1]:,} programs, {counts[0]:,} errors")
