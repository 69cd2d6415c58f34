"""Formats of numbers: three digits and a unit for readers, and strict JSON for programs."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, is_dataclass
from pathlib import Path
from typing import Any

NOTHING = "–"
"""Text for a number that does not exist."""
_COUNTS = ((1e9, "bn"), (1e6, "M"), (1e3, "k"))


def seconds(value: float) -> str:
    """Format a time, such as 12.3 ms, 4.56 s or 3.2 min."""
    if not math.isfinite(value):
        return NOTHING
    for unit, size, until in (("µs", 1e-6, 1e-3), ("ms", 1e-3, 1.0), ("s", 1.0, 120.0)):
        if abs(value) < until:
            return f"{digits(value / size)} {unit}"
    return f"{digits(value / 60.0)} min"


def tick(value: float) -> str:
    """Format a round time on an axis, such as 10 µs or 100 s."""
    for unit, size, until in (("µs", 1e-6, 9e-4), ("ms", 1e-3, 0.9)):
        if value < until:
            return f"{value / size:g} {unit}"
    return f"{value:g} s"


def digits(value: float) -> str:
    """Format a number with three digits, or with all digits before the point if more, without an exponent."""
    if not math.isfinite(value):
        return NOTHING
    if value == 0.0:
        return "0"
    before = math.floor(math.log10(abs(float(f"{value:.3g}")))) + 1
    return f"{value:,.{max(3 - before, 0)}f}"


def with_unit(value: float, unit: str) -> str:
    """Format a number and its unit; a percentage close to 100% gets the digits of its distance from 100%."""
    text = digits(value)
    if unit == "%" and 99.0 <= value < 99.9995:
        text = f"{value:.{1 - math.floor(math.log10(100.0 - value))}f}".rstrip("0")
    return text + (unit if unit in ("%", "x") else f" {unit}" if unit else "")


def with_deviation(mean: float, deviation: float = math.nan) -> str:
    """Format a mean, and its standard deviation if there is one."""
    if not math.isfinite(mean):
        return "-"
    return f"{mean:.3g}" + (f" ± {deviation:.2g}" if math.isfinite(deviation) else "")


def times(ratio: float) -> str:
    """Format a factor, such as 2.50×."""
    return f"{digits(ratio)}×" if math.isfinite(ratio) else NOTHING


def small(value: float) -> str:
    """Format a residual or a gap with two digits and an exponent."""
    if not math.isfinite(value):
        return NOTHING
    return f"{value:.1e}" if value else "0"


def megabytes(value: float) -> str:
    """Format an amount of memory, given in MB."""
    if not math.isfinite(value) or not value:
        return NOTHING
    return f"{digits(value / 1e3)} GB" if value >= 1e3 else f"{digits(value)} MB"


def count(value: float) -> str:
    """Format a number of columns, such as 740, 32k, 1.5M or 1bn."""
    if not math.isfinite(value):
        return NOTHING
    for size, letter in _COUNTS:
        if abs(value) >= size:
            return f"{value / size:.3g}{letter}"
    return f"{value:g}"


def share(value: float) -> str:
    """Format a share in percent."""
    return f"{100.0 * value:.3g}%" if math.isfinite(value) else NOTHING


def plain(value: Any) -> Any:
    """Return `value` in the form of strict JSON: records as objects, NaN and infinities as None."""
    if is_dataclass(value) and not isinstance(value, type):
        return plain(asdict(value))
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    if hasattr(value, "tolist"):
        return plain(value.tolist())
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return str(value) if isinstance(value, Path) else value
