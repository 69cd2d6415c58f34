"""Linear programs from MPS and LP files, and to them."""

from __future__ import annotations

from dataclasses import replace
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING

from copter.errors import CopterError, FileError
from copter.models import lp_format, mps
from copter.models.arrays import program_arrays, safe_names
from copter.models.general_lp import GeneralLP, checked
from copter.models.text import Source

if TYPE_CHECKING:
    from copter.program.program import ContinualProgram


def read_mps(path: str | PathLike[str], *, strict: bool = True) -> GeneralLP:
    """Read an MPS or LP file, plain or gzipped; a maximisation becomes the minimisation of the negation.

    Parameters
    ----------
    path : path-like
        Ends in ``.mps`` or ``.lp``, and perhaps ``.gz``.
    strict : bool
        Whether constructs on which file readers disagree are errors: unknown names, duplicates, contradicting
        bounds, a column that continues after others, an invalid sense, a truncated file. With False each is a
        warning that says how it is read. In an MPS file an unknown name is ignored, of two entries, rows,
        right-hand sides or bounds the first counts, a column that continues is one column, and an upper bound
        below 0 alone makes the lower one minus infinity. In an LP file a variable with bounds only is a
        column, and the last bound counts.

    Returns
    -------
    GeneralLP
        With the names in the file; :func:`copter.solve_lp` solves it.

    Raises
    ------
    FileError
        The file is missing or cannot be unpacked. An :class:`~copter.errors.InputError` names the invalid
        line, or says that the file is no linear program.
    """
    source = Source(Path(path), strict)
    suffixes = [suffix.lower() for suffix in source.path.suffixes]
    if ".mps" in suffixes:
        return mps.read(source)
    if ".lp" in suffixes:
        return lp_format.read(source)
    raise FileError(source.path, "its name ends neither in .mps nor in .lp, with or without .gz")


def write_mps(model: ContinualProgram | GeneralLP, path: str | PathLike[str]) -> None:
    """Write a program to a file in free MPS format.

    The file has integral columns, two sides of a row (RANGES), sense and offset of the objective, and names,
    in which spaces and characters other than ASCII become ``_``. Numbers have enough digits to be read back
    exactly. MPS has no row without a bound: readers drop it.

    Parameters
    ----------
    model : ContinualProgram or GeneralLP
        A ContinualProgram becomes the arrays of :meth:`~copter.ContinualProgram.to_arrays`, with their names.
    path : path-like
        Ends in ``.mps``.

    Raises
    ------
    EditError
        A number is invalid (NaN, or an infinite cost or coefficient), or MPS cannot express the two sides of
        a row.
    CopterError
        The path has another ending, its folder is missing or not writable, or a request has a convex term.
    """
    target = Path(path)
    if target.suffix != ".mps":
        raise CopterError(f"{target}: cannot be written; give a path that ends in .mps")
    if not target.parent.is_dir():
        raise CopterError(f"{target}: cannot be written: there is no folder {target.parent}")
    lp = checked(model if isinstance(model, GeneralLP) else program_arrays(model))
    text = mps.text_of(_named(lp))
    try:
        target.write_text(text)
    except OSError as error:
        raise CopterError(f"{target}: cannot be written: {error}") from error


def _named(lp: GeneralLP) -> GeneralLP:
    """The LP with a safe name for every column and row."""
    m, n = lp.A.shape
    columns = safe_names(lp.column_names or (f"x{j}" for j in range(n)))
    rows = safe_names(lp.row_names or (f"r{i}" for i in range(m)), reserved=(mps.OBJECTIVE,))
    return replace(lp, column_names=columns, row_names=rows)
