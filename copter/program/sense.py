"""Sense of a program, minimisation or maximisation, and the conversion of figures.

Stores and solvers always minimise. A program with the sense "max" converts figures where users give or read
them.
"""

from __future__ import annotations

from typing import Any, Literal, TypeAlias, TypeVar

import numpy as np
from numpy.typing import NDArray

from copter.errors import SettingError

Sense: TypeAlias = Literal["min", "max"]
Figure = TypeVar("Figure", float, NDArray[np.float64])


def checked_sense(owner: str, sense: Any) -> Sense:
    """Return a sense; raise SettingError, which names its owner, if it is neither "min" nor "max"."""
    if sense == "min":
        return "min"
    if sense == "max":
        return "max"
    raise SettingError(owner, "sense", sense, 'must be "min" or "max"')


def in_sense(figure: Figure, sense: Sense) -> Figure:
    """Convert a figure from costs to be minimised into the sense of a program, or back.

    A zero never becomes -0.0, so that two conversions return the same bits.
    """
    return figure if sense == "min" else 0.0 - figure
