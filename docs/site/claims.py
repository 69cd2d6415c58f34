"""Verdicts on the claims of papers: one rule for values, ranges, bounds and ratios.

A claim is *beaten*, *met* or *missed*, or it is *not comparable* for a reason that its table states.  A claim
of a figure that is not measured is *not reproduced*.
:data:`RULE` is the rule in words, as the page of papers prints it.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from copter.bench.formats import with_unit
from copter.bench.reproduction import PaperClaim, Reproduction

TOLERANCE = 0.15
"""Difference from the printed value, relative to it, within which a claim is met."""
VERDICTS = ("missed", "not comparable", "not reproduced", "met", "beaten")
"""Verdicts in the order of the page."""
RULE = f"""\
A claim is *met* if the measured value differs from the printed one by at most {TOLERANCE:.0%} of the printed
one. It is *beaten* if the measured value is better by more than that, and *missed* if it is worse by more
than that. "Near" means that a difference in either direction is worse.

- Of a ratio the gain is compared, its distance from 1: 1.04x for 1.12x is a gain of 0.04 for 0.12, a third.
  Of a share of a whole, such as 90% of the optimum, the distance from 100% is compared.
- A range is met by a value within it. Outside of it, the tolerance applies to the end that is nearer.
- A bound is met if the measured value keeps it, and missed otherwise. There is no tolerance.
- A reduction that a paper prints in per cent is compared in per cent, not as a ratio.
- "Better by p%", of completion times, means a time that is p% below the other in all rows.
- If the program, the jobs or the baseline differ so that the comparison is easier or void, the claim is
  neither met nor beaten but *not comparable*. If the measured value misses it all the same, it is missed.
- The same holds if the paper prints the baseline's own time, and the baseline is slower here by more than
  {TOLERANCE:.0%}, and if the set-up has changed since the measurement.
- A claim of which nothing is measured is not comparable. If its table or figure is not measured any more,
  it is *not reproduced*, and its reason has the last value and verdict. Commit cdf8196c has the documents
  of these values and the code that measures them.
"""
_STALE = "Measured with an earlier set-up; to be measured again."
_UNEXPLAINED = "The difference is not explained."
_TIMES = ("h", "s", "ms")
"""Units of figures of which a larger one is worse."""
_PRINTED = re.compile(
    r"(?:about |up to |≈ ?)?(?P<bound>[<>≤≥]?) ?(?P<low>[-+]?[\d,.]*\d)(?:-(?P<high>[\d,.]*\d))?"
    r" ?(?P<unit>%|x|h|ms|s|)"
)
_KEEPS = {
    "<": lambda value, bound: value < bound,
    ">": lambda value, bound: value > bound,
    "≤": lambda value, bound: value <= bound,
    "≥": lambda value, bound: value >= bound,
}


@dataclass(frozen=True)
class Printed:
    """A printed value: a bound or "", the ends of a range, which are equal for a number, and the unit."""

    bound: str
    low: float
    high: float
    unit: str


@dataclass(frozen=True)
class Judged:
    """A claim, the name of its reproduction, the measured value with its unit, the verdict and its reason."""

    claim: PaperClaim
    name: str
    measured: str
    verdict: str
    reason: str


def read_printed(text: str) -> Printed:
    """Return a printed value; raise ValueError if the text is not a number, a range or a bound."""
    found = _PRINTED.fullmatch(text)
    if found is None:
        raise ValueError(f"printed = {text!r}: must be a number, a range or a bound, with a unit")
    low = float(found["low"].replace(",", ""))
    high = float(found["high"].replace(",", "")) if found["high"] else low
    return Printed(found["bound"], low, high, found["unit"])


def verdict(claim: PaperClaim, measured: float) -> str:
    """Return "beaten", "met" or "missed" by :data:`RULE`; reasons not to compare are not looked at."""
    printed = read_printed(claim.read or claim.printed)
    if printed.bound:
        return "met" if _KEEPS[printed.bound](measured, printed.low) else "missed"
    base = 1.0 if printed.unit == "x" else 100.0 if claim.share else 0.0
    if claim.better == "near":
        off = max(printed.low - measured, measured - printed.high, 0.0)
        end = printed.low if measured < printed.low else printed.high
        return "met" if off <= TOLERANCE * abs(end - base) else "missed"
    sign = 1.0 if claim.better == "more" else -1.0
    worse, best = sorted((sign * printed.low, sign * printed.high))
    ahead = sign * measured
    if ahead > best + TOLERANCE * abs(best - sign * base):
        return "beaten"
    return "met" if ahead >= worse - TOLERANCE * abs(worse - sign * base) else "missed"


def difference(measured: float, printed: float, unit: str, bound: str = "") -> float:
    """Return the difference relative to the printed value, or to its gain; of a bound 0 if kept, or inf."""
    if bound:
        return 0.0 if _KEEPS[bound](measured, printed) else math.inf
    size = abs(printed - 1.0) if unit == "x" and printed != 1.0 else abs(printed)
    return abs(measured - printed) / size


def measured_value(claim: PaperClaim, figures: Sequence[Mapping[str, Any]]) -> tuple[float, str]:
    """Return the measured value of a claim with its unit; NaN if the document lacks one of its figures."""
    found = {(one["row"], one["column"]): one for one in figures}
    other = next((row for row in (claim.below, claim.above, claim.over) if row), "")
    places = [(claim.row, claim.column)]
    places += [(other, claim.other_column or claim.column)] if other else []
    if any(place not in found or found[place]["ours"] is None for place in places):
        return math.nan, ""
    value, *base = (float(found[place]["ours"]) for place in places)
    if not base:
        return value, str(found[places[0]]["unit"])
    if claim.over:
        return value / base[0], "x"
    change = 100.0 * (value / base[0] - 1.0)
    return (change, "%") if claim.above else (-change, "%")


def slower_baseline(claim: PaperClaim, figures: Sequence[Mapping[str, Any]]) -> str:
    """Return in words by how much a claim's baseline is slower than the paper prints; "" if it is not.

    The baseline is the row that the claim's row is compared with; or the claim's own row, if the claim is
    that its time is larger than that of the other row.
    """
    other = claim.below or claim.above or claim.over
    if not other:
        return ""
    is_smaller = claim.better == "less" or read_printed(claim.read or claim.printed).bound in ("<", "≤")
    if claim.below or is_smaller:
        place = other, claim.other_column or claim.column
    else:
        place = claim.row, claim.column
    for one in figures:
        if (one["row"], one["column"]) == place and one.get("paper") and one["unit"] in _TIMES:
            change = one["ours"] / one["paper"] - 1.0
            if change > TOLERANCE:
                return f"{place[0]}: {place[1]} is {change:.0%} above the printed one."
    return ""


def judge(
    known: Mapping[str, Reproduction],
    documents: Mapping[str, Mapping[str, Any]],
    others: Mapping[str, Sequence[PaperClaim]] | None = None,
) -> Iterator[Judged]:
    """Yield all claims with their verdicts, by name of the reproduction; `others` are not reproduced."""
    for name, one in known.items():
        document = documents.get(name, {"figures": (), "differs": one.differs})
        for claim in one.claims:
            value, unit = measured_value(claim, document["figures"])
            if math.isnan(value):
                yield Judged(claim, name, "", "not comparable", claim.unlike or "Not measured.")
                continue
            changed = document["differs"] != one.differs
            differs = claim.unlike or (_STALE if changed else "")
            decided, reason = verdict(claim, value), ""
            if decided == "missed":
                reason = claim.why or differs or _UNEXPLAINED
            elif excuse := differs or slower_baseline(claim, document["figures"]):
                decided, reason = "not comparable", excuse
            yield Judged(claim, name, with_unit(value, unit), decided, reason)
    for name, claims in (others or {}).items():
        yield from (
            Judged(claim, name, "", "not reproduced", claim.why or "Not measured.") for claim in claims
        )
