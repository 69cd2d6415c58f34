"""What a report is made of, before it is HTML or Markdown: claims with pictures, tables and commands."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Row:
    """A row of a table; one of copter's stands out."""

    cells: tuple[str, ...]
    ours: bool = False


@dataclass(frozen=True)
class ReportTable:
    """A table; the columns in `words` are text, the others figures."""

    title: str
    heads: tuple[str, ...]
    rows: tuple[Row, ...]
    words: tuple[int, ...] = (0,)
    note: str = ""


@dataclass(frozen=True)
class Picture:
    """A picture (:func:`copter.bench.report.pictures.as_svg`); its file is called by the name."""

    name: str
    caption: str
    svg: str


@dataclass(frozen=True)
class Command:
    """A command that reruns something."""

    what: str
    text: str


@dataclass(frozen=True)
class Claim:
    """A section: what is claimed, and what it rests on; links lead to the key."""

    key: str
    title: str
    text: str
    pictures: tuple[Picture, ...] = ()
    tables: tuple[ReportTable, ...] = ()
    commands: tuple[Command, ...] = ()


@dataclass(frozen=True)
class Lost:
    """A line on which copter is not the fastest with a certified answer.

    The text has the faster solver and its ratio, the note the reason, if one was written down.
    """

    line: str
    title: str
    text: str
    note: str = ""


@dataclass(frozen=True)
class FirstScreen:
    """The summary at the top of the report.

    Remarks prevent misreading: unfinished lines, and answers that the checker refused.
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
    """The whole of it: a claim over all lines, one for each family, one for each table of a paper."""

    first: FirstScreen
    overall: Claim
    claims: tuple[Claim, ...]
    papers: tuple[Claim, ...]
    versions: tuple[tuple[str, str], ...]
    settings: tuple[tuple[str, str], ...]

    @property
    def sections(self) -> list[Claim]:
        """All claims, as they stand one after the other."""
        return [self.overall, *self.claims, *self.papers]

    @property
    def pictures(self) -> list[Picture]:
        """All of them, that of the first screen first."""
        first = [self.first.picture] if self.first.picture is not None else []
        return [*first, *(picture for claim in self.sections for picture in claim.pictures)]
