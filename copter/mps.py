"""Files of linear programs, MPS or LP, plain or gzipped, read by HiGHS' reader with a check before it.

HiGHS takes ``nan`` for a number in some places and drops the coefficient without a word, so the text is
searched for it first.
"""

from __future__ import annotations

import gzip
import re
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from copter.errors import CopterError

if TYPE_CHECKING:
    import highspy

_NAN = re.compile(rb"(?<!\S)[+-]?nan(?:\(\w*\))?(?!\S)", re.IGNORECASE)
_NUMBERS = (b"COLUMNS", b"RHS", b"RANGES", b"BOUNDS")
_BOUNDS_WITHOUT_NUMBER = (b"FR", b"MI", b"PL", b"BV")


def load(path: Path) -> highspy.HighsLp:
    """The linear program in a file, as HiGHS holds it.

    Raises
    ------
    CopterError
        The file is missing, is not what its ending says, has a NaN for a number (names the line), or is no
        linear program: a quadratic objective, semi-continuous columns.
    """
    if not path.is_file():
        raise CopterError(f"{path}: no such file")
    packed = path.suffix == ".gz"
    try:
        content = gzip.decompress(path.read_bytes()) if packed else path.read_bytes()
    except (OSError, EOFError) as error:
        raise CopterError(f"{path}: cannot be unpacked: {error}") from None
    line = nan_line(content, free_text=".lp" in path.suffixes)
    if line:
        raise CopterError(f"{path}, line {line}: NaN is no number for a linear program")
    if not packed:
        return _read(path, path)
    with tempfile.TemporaryDirectory() as folder:
        plain = Path(folder) / path.stem
        plain.write_bytes(content)
        return _read(plain, path)


def nan_line(content: bytes, *, free_text: bool = False) -> int:
    """Number of the first line that has NaN where a number belongs, 0 if there is none.

    In MPS (not ``free_text``) a row or column may be called nan: only the fields of numbers count, the last
    of a line and, in the sections that have two pairs of name and number a line, the last but two.
    """
    if not _NAN.search(content):
        return 0
    section = b""
    for number, line in enumerate(content.splitlines(), 1):
        fields = line.split()
        if free_text:
            if any(_NAN.fullmatch(field) for field in fields):
                return number
        elif line[:1].strip() and fields[0] != b"*":
            section = fields[0].upper()
        elif section in _NUMBERS and len(fields) > 1:
            values = fields[-1:] if section == b"BOUNDS" or len(fields) < 4 else fields[-3::2]
            if section == b"BOUNDS" and fields[0].upper() in _BOUNDS_WITHOUT_NUMBER:
                continue
            if any(_NAN.fullmatch(value) for value in values):
                return number
    return 0


def _read(plain: Path, named: Path) -> highspy.HighsLp:
    import highspy

    highs = highspy.Highs()
    highs.setOptionValue("output_flag", False)
    if highs.readModel(str(plain)) == highspy.HighsStatus.kError:
        raise CopterError(f"{named}: cannot be read as an MPS or LP file")
    if highs.getModel().hessian_.dim_:
        raise CopterError(f"{named}: has a quadratic objective; copter solves linear programs")
    lp = highs.getLp()
    semi = (highspy.HighsVarType.kSemiContinuous, highspy.HighsVarType.kSemiInteger)
    if any(kind in semi for kind in lp.integrality_):
        raise CopterError(f"{named}: has semi-continuous columns; copter solves linear programs")
    return lp
