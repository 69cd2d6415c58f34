"""Files of a report: a self-contained HTML page, and Markdown with separate picture files."""

from __future__ import annotations

import html
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from copter.bench.report import papers
from copter.bench.report.model import Claim, Picture, SuiteReport
from copter.bench.report.pictures import HUES, looks
from copter.bench.report.sections import claim, first_screen, modes, overall
from copter.bench.result_files import SuiteResult
from copter.bench.statistics import families
from copter.extras import extra

with extra("cli"):
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

HTML, _MARKDOWN, PICTURES = "report.html", "report.md", "pictures"
_TEMPLATES = Path(__file__).parent / "templates"


def make_report(
    suite: SuiteResult, notes: Mapping[str, str] | None = None, documents: Path | None = None
) -> SuiteReport:
    """Return the report of a folder of results.

    `notes`: reasons why copter is not the fastest solver, by line. `documents`: folder with documents of
    ``copter reproduce``, for the papers' figures.
    """
    styles = looks([solver for line in suite.lines.values() for solver in line.order])
    found = families(suite)
    return SuiteReport(
        first_screen(suite, notes or {}),
        overall(suite),
        (modes(suite), *(claim(family, lines, styles) for family, lines in found.items())),
        tuple(papers.claims(documents)),
        tuple(suite.machine["versions"].items()),
        tuple((name, str(value)) for name, value in suite.settings.items()),
    )


def as_html(report: SuiteReport) -> str:
    """Return the HTML page; it is also well-formed XML, and refers to no other file."""
    return _html("report.html.j2", report=report)


def write_page(path: Path, title: str, sections: Sequence[Claim]) -> None:
    """Write an HTML page with sections, which refers to no other file."""
    path.write_text(_html("run.html.j2", title=title, sections=sections), encoding="utf-8")


def _html(template: str, **content: Any) -> str:
    light, dark = ("".join(f"--{name}:{pair[k]};" for name, pair in HUES.items()) for k in (0, 1))
    return _environment(escape=True).get_template(template).render(light=light, dark=dark, **content)


def as_markdown(report: SuiteReport, pictures: str = PICTURES) -> str:
    """Return the report in Markdown; `pictures` is the relative path of its pictures."""
    return _environment(escape=False).get_template("report.md.j2").render(report=report, folder=pictures)


def sections_as_markdown(claims: Sequence[Claim], pictures: str) -> str:
    """Return claims as sections of a page; `pictures` is the relative path of their pictures."""
    module: Any = _environment(escape=False).get_template("section.md.j2").make_module({"folder": pictures})
    return "\n".join(module.section(one, 2) for one in claims)


def write_pictures(pictures: Iterable[Picture], folder: Path) -> None:
    """Write an SVG file of each picture, for Markdown pages, and remove all other SVG files of the folder."""
    light, dark = (";".join(f"--{name}:{pair[k]}" for name, pair in HUES.items()) for k in (0, 1))
    style = (
        f"<style>:root{{{light}}}@media(prefers-color-scheme:dark){{:root{{{dark}}}}}"
        "text{font-family:system-ui,sans-serif}</style>"
    )
    folder.mkdir(parents=True, exist_ok=True)
    for file in folder.glob("*.svg"):
        file.unlink()
    for picture in pictures:
        begin, rest = picture.svg.split(">", 1)
        width, height = begin.partition('viewBox="0 0 ')[2].partition('"')[0].split()
        # in points, so that labels have the size of the surrounding text
        size = f'width="{width}pt" height="{height}pt"'
        alone = f'{begin} {size} xmlns="http://www.w3.org/2000/svg">{style}{rest}'
        (folder / f"{picture.name}.svg").write_text(alone + "\n", encoding="utf-8")


def write_report(report: SuiteReport, folder: Path) -> None:
    """Write ``report.html``, ``report.md`` and the pictures of ``report.md`` to a folder."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / HTML).write_text(as_html(report), encoding="utf-8")
    (folder / _MARKDOWN).write_text(as_markdown(report), encoding="utf-8")
    write_pictures(report.pictures, folder / PICTURES)


def _environment(*, escape: bool) -> Environment:
    environment = Environment(
        loader=FileSystemLoader(_TEMPLATES),
        autoescape=escape,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    environment.filters["words"] = _words
    environment.filters["cell"] = lambda text: _words(text).replace("|", "\\|")
    return environment


def _words(text: str) -> str:
    """Return a text with its HTML characters escaped, and with spaces instead of line breaks."""
    return " ".join(html.escape(str(text), quote=False).split())
