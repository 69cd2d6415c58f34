"""Readers of MPS and LP files, and a writer of MPS files."""

from __future__ import annotations

from dataclasses import replace
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING

from copter.errors import CopterError, FileError
from copter.models import lp_format, mps
from copter.models.arrays import arrays_of, safe_names
from copter.models.linear_program import LinearProgram, checked
from copter.models.text import Source

if TYPE_CHECKING:
    from copter.program.program import ContinualProgram


def read_model(path: str | PathLike[str], *, strict: bool = True) -> LinearProgram:
    r"""Read an MPS or LP file, plain or gzipped; a maximisation becomes the minimisation of the negation.

    Parameters
    ----------
    path : path-like
        Path that ends in ``.mps`` or ``.lp``, possibly followed by ``.gz``.
    strict : bool
        True to reject constructs on which file readers disagree: unknown names, duplicates, contradicting
        bounds, a column that continues after others, an invalid sense, a truncated file. With False each of
        these causes a warning that states how the construct is read. In an MPS file an unknown name is
        ignored, and the first of two entries, rows, right-hand sides or bounds counts. A column that
        continues after others is read as one column. An upper bound below 0 without a lower bound makes the
        lower bound minus infinity. In an LP file a variable that is neither in a row nor in the objective is
        a column, and the last of two bounds counts.

    Returns
    -------
    LinearProgram
        Linear program with the names in the file; :class:`copter.Model` solves it.

    Raises
    ------
    FileError
        If the file is missing or cannot be unpacked. If a line is invalid or the file is not a linear
        program, the error is an :class:`~copter.errors.InputError` that names the line.

    Examples
    --------
    >>> import tempfile, pathlib
    >>> from copter import read_model
    >>> folder = tempfile.TemporaryDirectory()
    >>> path = pathlib.Path(folder.name, "small.lp")
    >>> _ = path.write_text("Maximize\n x + 2 y\nSubject To\n c: x + y <= 4\nBounds\n y <= 3\nEnd\n")
    >>> lp = read_model(path)
    >>> lp.column_names, lp.maximize
    (('x', 'y'), True)
    >>> folder.cleanup()
    """
    source = Source(Path(path), strict)
    suffixes = [suffix.lower() for suffix in source.path.suffixes]
    for suffix, read in ((".mps", mps.read), (".lp", lp_format.read)):
        if suffix in suffixes:
            return read(source)
    raise FileError(source.path, "must have a name that ends in .mps or .lp, with or without .gz")


def write_mps(model: ContinualProgram | LinearProgram, path: str | PathLike[str]) -> None:
    """Write a program to a file in free MPS format.

    The file has integral columns, rows with two bounds (RANGES), the sense and offset of the objective, and
    names. In names, spaces and characters other than ASCII become ``_``. Numbers have enough digits to be
    read back exactly. A row without a bound is written as kind N, which readers drop.

    Parameters
    ----------
    model : ContinualProgram or LinearProgram
        A ContinualProgram becomes the arrays of :meth:`~copter.ContinualProgram.to_arrays`, with their names.
    path : path-like
        Path that ends in ``.mps``.

    Raises
    ------
    EditError
        If a number is invalid (NaN, or an infinite cost or coefficient), or MPS cannot express the two bounds
        of a row.
    CopterError
        If the path has another ending, its folder is missing or not writable, a request has a convex term, or
        a column is semi-continuous.

    Examples
    --------
    >>> import tempfile, pathlib
    >>> from copter import ContinualProgram, read_model, write_mps
    >>> program = ContinualProgram()
    >>> program.add_resource("gpu", upper=8)
    >>> program.add_request("job", costs=[-1.0, -1.8], usage={"gpu": [1, 2]}, total=1)
    >>> folder = tempfile.TemporaryDirectory()
    >>> path = pathlib.Path(folder.name, "small.mps")
    >>> write_mps(program, path)
    >>> read_model(path).column_names
    ('job[0]', 'job[1]')
    >>> folder.cleanup()
    """
    target = Path(path)
    if target.suffix != ".mps":
        raise CopterError(f"{target}: cannot be written: the path must end in .mps")
    if not target.parent.is_dir():
        raise CopterError(f"{target}: cannot be written: there is no folder {target.parent}")
    lp = checked(arrays_of(model, "write_mps"))
    text = mps.text_of(_named(lp))
    try:
        target.write_text(text)
    except OSError as error:
        raise CopterError(f"{target}: cannot be written: {error}") from error


def _named(lp: LinearProgram) -> LinearProgram:
    """Return the LP with a valid name for every column and row."""
    m, n = lp.A.shape
    columns = safe_names(lp.column_names or (f"x{j}" for j in range(n)), reserved=mps.RESERVED)
    rows = safe_names(lp.row_names or (f"r{i}" for i in range(m)), reserved=mps.RESERVED)
    return replace(lp, column_names=columns, row_names=rows)
