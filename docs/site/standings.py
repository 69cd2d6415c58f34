"""Differences of the measured figures of papers from the published ones, by document."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from claims import TOLERANCE, difference

from copter.bench.report.model import Claim
from copter.bench.report.papers import claim_of, command_of, ratio_of, read_documents
from copter.bench.reproduction import Reproduction, reproductions

_FAR = 0.5
"""Relative difference within which a measured figure counts as of the same kind as the published one."""


def measured(folder: Path) -> list[Claim]:
    """Return a claim for each document of a folder, with its samples and the seconds of the measurement."""
    known, found = reproductions(), []
    for name, document in read_documents(folder).items():
        claim, took = claim_of(document, known.get(name)), document["wall_seconds"]
        text = f"{claim.text} Measured in {took:.0f} s: `{command_of(document)}`."
        deviations, printed = document.get("deviations", "samples"), known[name].printed
        if deviations != "samples":
            text += f" Deviations are over {deviations}."
        values = [(one["row"], one["column"]) for one in document["figures"] if one["paper"] is not None]
        if theirs := sum(place not in printed for place in values):
            text += (
                f" Of the {len(values)} values of the paper, {theirs} are results that its authors publish."
            )
        found.append(replace(claim, text=text))
    return found


@dataclass(frozen=True)
class _Agreement:
    """Number of published figures, and of the measured ones within 15% and :data:`_FAR` of them."""

    figures: int
    near: int
    far: int


@dataclass(frozen=True)
class _Standing:
    """Agreement of a document with its paper.

    `printed`: with the figures that the paper prints. `published`: with other results of the authors.
    `workloads`: number of distinct workloads. `seconds`: of the measurement.
    """

    name: str
    source: str
    printed: _Agreement
    published: _Agreement
    workloads: int
    seconds: float


def standings(folder: Path) -> tuple[list[_Standing], list[Reproduction]]:
    """Return the agreement of each document of a folder, and the reproductions without one, by name."""
    known, documents, found = reproductions(), read_documents(folder), []
    for name, one in sorted(documents.items()):
        printed, bounds = (known[name].printed, known[name].bounds) if name in known else ({}, {})
        own = [figure for figure in one["figures"] if (figure["row"], figure["column"]) in printed]
        others = [figure for figure in one["figures"] if figure not in own]
        seeds, took = one["settings"]["seeds"], one["wall_seconds"]
        workloads = known[name].played(seeds) if name in known else seeds
        found.append(
            _Standing(name, one["source"], _agreement(own, bounds), _agreement(others, {}), workloads, took)
        )
    return found, [one for name, one in sorted(known.items()) if name not in documents]


def _agreement(figures: Iterable[Mapping[str, Any]], bounds: Mapping[tuple[str, str], str]) -> _Agreement:
    off = [
        difference(one["ours"], one["paper"], one["unit"], bounds.get((one["row"], one["column"]), ""))
        for one in figures
        if math.isfinite(ratio_of(one))
    ]
    near, far = (sum(each <= limit for each in off) for limit in (TOLERANCE, _FAR))
    return _Agreement(len(off), near, far)
