"""Mutated files: the reader gives a linear program with sound numbers, or an error of copter."""

from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from mps_texts import MAXIMISE

from copter.errors import CopterError
from copter.models.general_lp import checked
from copter.solvers.general import read_mps

LP_FILE = """Minimize
 obj: 2 x - 3 y + z + 4
Subject To
 a: x + y - 2 z <= 5
 b: -1 <= x - z <= 3
 c: y = 2.5
Bounds
 x <= 4
 -1 <= z <= 10
 y free
General
 x
End
"""
TOKENS = [
    "nan", "inf", "-inf", "1e400", "-1e30", "1e", "0x1p3", "--1", "RHS", "RANGES", "BOUNDS", "ENDATA",
    "ROWS", "N", "MI", "BV", "SC", "free", "End", "sos", "[", "]", "^", "/", "<=", ">=", "=", ":", "x",
    "obj", "'MARKER'", "'INTORG'", "\0", "é", "*", "$", "\t", "1e-320", "99999999999999999999",
]  # fmt: skip


@st.composite
def mutated(draw, text: str) -> bytes:
    """The text with some words replaced, doubled or dropped, lines exchanged, and perhaps cut short."""
    lines = [line.split(" ") for line in text.splitlines()]
    for _ in range(draw(st.integers(1, 4))):
        line = draw(st.integers(0, len(lines) - 1))
        words = lines[line]
        where = draw(st.integers(0, len(words) - 1)) if words else 0
        what = draw(st.sampled_from(("replace", "insert", "drop", "swap lines", "double line")))
        if what == "replace" and words:
            words[where] = draw(st.sampled_from(TOKENS))
        elif what == "insert":
            words.insert(where, draw(st.sampled_from(TOKENS)))
        elif what == "drop" and words:
            del words[where]
        elif what == "swap lines":
            other = draw(st.integers(0, len(lines) - 1))
            lines[line], lines[other] = lines[other], lines[line]
        else:
            lines.insert(line, list(words))
    whole = "\n".join(" ".join(words) for words in lines).encode()
    return whole[: draw(st.integers(0, len(whole)))] if draw(st.booleans()) else whole


def read(content: bytes, ending: str) -> None:
    with TemporaryDirectory() as folder:
        path = Path(folder) / f"file{ending}"
        path.write_bytes(content)
        try:
            lp = read_mps(path)
        except CopterError as error:
            assert "file" in str(error)
            return
    try:
        sound = checked(lp)
    except CopterError:
        return
    assert sound.A.shape == (sound.row_lower.size, sound.c.size)
    assert np.isfinite(sound.c).all() and np.isfinite(sound.A.data).all()
    assert (sound.lower <= sound.upper).all() and (sound.row_lower <= sound.row_upper).all()


slowly = settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow])


@slowly
@given(mutated(MAXIMISE))
def test_mutated_mps(content):
    read(content, ".mps")


@slowly
@given(mutated(LP_FILE))
def test_mutated_lp(content):
    read(content, ".lp")


@pytest.mark.parametrize("ending", [".mps", ".lp"])
@pytest.mark.parametrize("content", [b"", b"\n\n", b"\0" * 50, b"\xff\xfe" * 20, b"NAME\nENDATA\n", b"End\n"])
def test_files_of_nothing(content, ending):
    read(content, ending)
