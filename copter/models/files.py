"""Linear programs from MPS and LP files, and to them."""

from __future__ import annotations

from dataclasses import replace
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING

from copter.errors import CopterError
from copter.models.arrays import program_arrays, safe_names
from copter.models.general_lp import GeneralLP, checked
from copter.models.highs_form import from_highs, to_highs
from copter.models.mps import load

if TYPE_CHECKING:
    from copter.program.program import ContinualProgram

_WRITTEN = (".mps", ".lp", ".mps.gz", ".lp.gz")


def read_mps(path: str | PathLike[str]) -> GeneralLP:
    """Read an MPS (or LP) file, plain or gzipped; a maximisation becomes the minimisation of the negation.

    Parameters
    ----------
    path : path-like

    Returns
    -------
    GeneralLP
        With the names in the file; :func:`copter.solve_lp` solves it.

    Raises
    ------
    CopterError
        The file is missing, cannot be read, has a NaN in it or is no linear program.
    """
    return from_highs(load(Path(path)))


def write_mps(model: ContinualProgram | GeneralLP, path: str | PathLike[str]) -> None:
    """Write a program to a file in free MPS format, or in LP format, by HiGHS' writer.

    Integral columns, two sides of a row (RANGES), sense and offset of the objective are in the file, and so
    are names, made safe: spaces and what is no ASCII become ``_``.

    Parameters
    ----------
    model : ContinualProgram or GeneralLP
        A ContinualProgram becomes what :meth:`~copter.ContinualProgram.to_arrays` has, with its names.
    path : path-like
        Its ending, ``.mps`` or ``.lp``, and ``.gz`` after that, says what is written.

    Raises
    ------
    EditError
        A number cannot be: a NaN, an infinite cost.
    CopterError
        The ending is none of these, the folder is missing or HiGHS cannot write there, or a request has a
        convex term.
    """
    target = Path(path)
    if not target.name.endswith(_WRITTEN):
        raise CopterError(f"{target}: cannot be written; it must end in {', '.join(_WRITTEN)}")
    if not target.parent.is_dir():
        raise CopterError(f"{target}: cannot be written: there is no folder {target.parent}")
    lp = checked(model if isinstance(model, GeneralLP) else program_arrays(model))
    _write(_named(lp), target)


def _named(lp: GeneralLP) -> GeneralLP:
    """The LP with a safe name for every column and row; HiGHS would name all anew if one was not."""
    m, n = lp.A.shape
    columns = safe_names(lp.column_names or (f"x{j}" for j in range(n)))
    rows = safe_names(lp.row_names or (f"r{i}" for i in range(m)))
    return replace(lp, column_names=columns, row_names=rows)


def _write(lp: GeneralLP, target: Path) -> None:
    import highspy

    highs = highspy.Highs()
    highs.setOptionValue("output_flag", False)
    model = to_highs(lp)
    if highs.passModel(model) == highspy.HighsStatus.kError:
        raise CopterError(f"{target}: HiGHS refused the program")
    if highs.writeModel(str(target)) == highspy.HighsStatus.kError or not target.is_file():
        raise CopterError(f"{target}: HiGHS cannot write it")
