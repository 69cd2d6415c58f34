"""Linear programs from MPS and LP files."""

from __future__ import annotations

from pathlib import Path

from copter.models.general_lp import GeneralLP
from copter.models.highs_form import from_highs
from copter.models.mps import load


def read_mps(path: str | Path) -> GeneralLP:
    """Read an MPS (or LP) file, plain or gzipped; a maximisation becomes the minimisation of the negation.

    Raises
    ------
    CopterError
        The file is missing, cannot be read, has a NaN in it or is no linear program.
    """
    return from_highs(load(Path(path)))
