"""Figures of papers, published and measured, from documents of ``copter reproduce NAME --json``.

The suite measures solvers on programs, but most tables of the papers are about whole schedulers. Their
reproductions are separate runs, whose documents are in a separate folder.  A table without a document is
listed with the command that measures it.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from copter.bench.formats import NOTHING, digits, times, with_unit
from copter.bench.report.model import Claim, Command, ReportTable, Row
from copter.bench.reproduction import Reproduction, reproductions
from copter.errors import FileError

_WANTED = "thesis-"
"""Beginning of the names of the reproductions that the report shows."""


def claims(folder: Path | None) -> list[Claim]:
    """Return the claims of the section about papers: one for each table or figure that the report shows.

    Raise FileError if a file is not a document of ``copter reproduce``.
    """
    documents = {} if folder is None else read_documents(folder)
    shown = {name: one for name, one in documents.items() if name.startswith(_WANTED)}
    known = {name: one for name, one in reproductions().items() if name.startswith(_WANTED)}
    names = sorted({*known, *shown}, key=_order)
    return [
        claim_of(shown[name], known.get(name)) if name in shown else _missing(known[name]) for name in names
    ]


def _order(name: str) -> tuple[bool, list[int], str]:
    """Return a key that sorts names by their numbers, with those of the thesis first."""
    numbers = [int(part) for part in name.replace("-", ".").split(".") if part.isdigit()]
    return not name.startswith("thesis"), numbers, name


def read_documents(folder: Path) -> dict[str, dict[str, Any]]:
    """Return the documents of a folder by name; raise FileError if a JSON file is not a document."""
    found = {}
    for file in sorted(folder.glob("*.json")):
        try:
            document = json.loads(file.read_text())
            found[document["name"]] = document
        except (ValueError, KeyError, TypeError) as error:
            what = f"must be a document of copter reproduce: {type(error).__name__}: {error}"
            raise FileError(file, what) from None
    return found


def command_of(document: Mapping[str, Any]) -> str:
    """Return the command that makes a document of ``copter reproduce NAME --json`` again."""
    settings = document["settings"]
    options = [f"--seeds {settings['seeds']}"] + ([f"--seed {settings['seed']}"] if settings["seed"] else [])
    options += ["--quick"] if settings["quick"] else []
    options += ["--data TRACES"] if settings["data"] else []
    return " ".join(["copter", "reproduce", document["name"], *options])


def claim_of(document: Mapping[str, Any], one: Reproduction | None) -> Claim:
    """Return the section of a document; `one` is its reproduction, or None if it is unknown."""
    bounds = one.bounds if one is not None else {}
    rows = tuple(_row(figure, bounds) for figure in document["figures"])
    quick = (
        " A smaller instance of the same kind, which is not comparable."
        if document["settings"]["quick"]
        else ""
    )
    table = ReportTable(
        document["title"], ("", "figure", "measured", "paper", "measured / paper"), rows, words=(0, 1)
    )
    key = document["name"].replace(".", "-")
    return Claim(
        key,
        document["title"],
        f"{document['source']}. Differences: {document['differs'].rstrip('.')}.{quick}",
        tables=(table,),
        commands=(Command(document["title"], command_of(document)),),
    )


def _missing(one: Reproduction) -> Claim:
    command = f"copter reproduce {one.name}" + (" --data TRACES" if one.needs_data else "")
    return Claim(
        one.name.replace(".", "-"),
        one.title,
        f"{one.source}. Not measured for this report; the measurement takes about {one.minutes:g} min.",
        commands=(Command(one.title, command),),
    )


def _row(figure: Mapping[str, Any], bounds: Mapping[tuple[str, str], str]) -> Row:
    value, paper, std = (_number(figure[name]) for name in ("ours", "paper", "std"))
    shown = with_unit(value, figure["unit"]) + (f" ± {digits(std)}" if math.isfinite(std) else "")
    bound = bounds.get((figure["row"], figure["column"]), "")
    published = f"{bound} {with_unit(paper, figure['unit'])}".strip() if math.isfinite(paper) else NOTHING
    return Row((figure["row"], figure["column"], shown, published, times(ratio_of(figure))))


def ratio_of(figure: Mapping[str, Any]) -> float:
    """Return the ratio of a figure's measured to its published value; NaN if it does not exist."""
    value, paper = _number(figure["ours"]), _number(figure["paper"])
    return value / paper if paper else math.nan


def _number(value: float | None) -> float:
    return math.nan if value is None else value
