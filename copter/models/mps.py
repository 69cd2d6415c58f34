"""Files of linear programs, MPS or LP, plain or gzipped, read by HiGHS' reader with a check before it.

HiGHS takes ``nan`` for a number in some places and drops the coefficient without a word, and reads other text
as 0, so the text is searched for both first.
"""

from __future__ import annotations

import gzip
import re
import tempfile
from collections.abc import Iterator
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

    Parameters
    ----------
    path : Path

    Returns
    -------
    highspy.HighsLp

    Raises
    ------
    CopterError
        The file is missing, is not what its ending says, has a NaN or other text for a number (names the
        line), or is no linear program: a quadratic objective, semi-continuous columns.
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
    if ".mps" in path.suffixes:
        line, text = odd_number(content)
        if line:
            raise CopterError(f"{path}, line {line}: {text!r} is no number")
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

    Parameters
    ----------
    content : bytes
    free_text : bool
        Whether it is of an LP file, and not MPS.

    Returns
    -------
    int
    """
    if not _NAN.search(content):
        return 0
    if free_text:
        lines = enumerate(content.splitlines(), 1)
        return next((n for n, line in lines if any(map(_NAN.fullmatch, line.split()))), 0)
    fields = _number_fields(content)
    return next((n for n, _, values in fields if any(map(_NAN.fullmatch, values))), 0)


def odd_number(content: bytes) -> tuple[int, str]:
    """Number of the first line of an MPS file that has other text where a number belongs, and the text; or 0.

    Names with spaces in them are only known by the places of the fields, in columns 25 to 36 and 50 to 61.

    Parameters
    ----------
    content : bytes

    Returns
    -------
    int, str
    """
    for number, line, values in _number_fields(content):
        odd = [value for value in values if not _is_number(value)]
        if odd and b"'MARKER'" not in line:
            places = [part for part in (line[24:36].strip(), line[49:61].strip()) if part]
            if not places or not all(map(_is_number, places)):
                return number, odd[0].decode(errors="replace")
    return 0, ""


def _number_fields(content: bytes) -> Iterator[tuple[int, bytes, list[bytes]]]:
    """Lines of an MPS file that have numbers: their number, text, and the fields where numbers belong."""
    section = b""
    for number, line in enumerate(content.splitlines(), 1):
        fields = line.split()
        if not fields or fields[0].startswith(b"*"):
            continue
        if line[:1].strip():
            section = fields[0].upper()
        elif section in _NUMBERS and len(fields) > 1:
            if section == b"BOUNDS" and fields[0].upper() in _BOUNDS_WITHOUT_NUMBER:
                continue
            yield number, line, fields[-1:] if section == b"BOUNDS" or len(fields) < 4 else fields[-3::2]


def _is_number(text: bytes) -> bool:
    try:
        float(text.lower().replace(b"d", b"e"))
    except ValueError:
        return False
    return True


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
