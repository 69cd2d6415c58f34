"""Data of a report, independent of HTML and Markdown: claims with pictures, tables and commands."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Row:
    """Row of a table; `ours`: True for a highlighted row of copter."""

    cells: tuple[str, ...]
    ours: bool = False


@dataclass(frozen=True)
class ReportTable:
    """Table; `words`: indices of the columns that contain text."""

    title: str
    heads: tuple[str, ...]
    rows: tuple[Row, ...]
    words: tuple[int, ...] = (0,)
    note: str = ""


def simple_table(title: str, heads: Sequence[str], rows: Iterable[Sequence[str]]) -> ReportTable:
    """Return a table whose first column contains text."""
    return ReportTable(title, tuple(heads), tuple(Row(tuple(row)) for row in rows))


@dataclass(frozen=True)
class Picture:
    """Picture (:func:`copter.bench.report.pictures.as_svg`) in a file called after its `name`."""

    name: str
    caption: str
    svg: str


@dataclass(frozen=True)
class Command:
    """Command that repeats a measurement; `what` is its description."""

    what: str
    text: str


@dataclass(frozen=True)
class Claim:
    """Section with a claim and its evidence; `key` is the target of links to it."""

    key: str
    title: str
    text: str = ""
    pictures: tuple[Picture, ...] = ()
    tables: tuple[ReportTable, ...] = ()
    commands: tuple[Command, ...] = ()


@dataclass(frozen=True)
class Lost:
    """Line on which copter is not the fastest solver with a certified answer.

    `text`: copter's seconds against those of the fastest solver. `note`: the reason, if it is known.
    """

    line: str
    title: str
    text: str
    note: str = ""


@dataclass(frozen=True)
class FirstScreen:
    """Summary at the top of the report.

    `remarks`: unfinished lines, answers that the checker rejected, and other facts that a reader must know.
    """

    title: str
    measured: str
    machine: str
    verdict: str
    lost: tuple[Lost, ...]
    remarks: tuple[str, ...]
    picture: Picture | None


@dataclass(frozen=True)
class SuiteReport:
    """The report: claims about all lines, about each family, and about each table of a paper."""

    first: FirstScreen
    overall: Claim
    claims: tuple[Claim, ...]
    papers: tuple[Claim, ...]
    versions: tuple[tuple[str, str], ...]
    settings: tuple[tuple[str, str], ...]

    @property
    def sections(self) -> list[Claim]:
        """All claims, in the order of the page."""
        return [self.overall, *self.claims, *self.papers]

    @property
    def pictures(self) -> list[Picture]:
        """All pictures, beginning with that of the first screen."""
        first = [self.first.picture] if self.first.picture is not None else []
        return [*first, *(picture for claim in self.sections for picture in claim.pictures)]
