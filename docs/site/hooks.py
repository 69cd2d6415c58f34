"""Pages that the site has besides those in docs/: the API, the command line, and files from the root.

The API reference has the names that the ``__init__.pyi`` of each public package exports (api.py). The command
line's reference is made from the commands themselves (commands.py). Long pages of results are split at their
headings, so that each section is a page.
"""

from __future__ import annotations

import posixpath
import re
import sys
from functools import cache
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File, Files

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(Path(__file__).parent))

import api  # noqa: E402
import commands  # noqa: E402

RESULTS = "bench/results"
FROM_ROOT = {
    "CHANGELOG.md": "changelog.md",
    "CONTRIBUTING.md": "contributing.md",
    **{
        f"{RESULTS}/{name}.md": f"results/{name}.md"
        for name in ("benchmarks", "report", "papers", "shards", "live-figures", "netlib", "coverage")
    },
}
SPLIT = {"results/report.md": "report", "results/papers.md": "papers"}
"""Pages of which each section becomes a page, and the folder of these pages."""
CLAIMS = "What the papers claim"
LONG = 200
"""Number of lines from which on a section is split at its own headings, too."""
PAPERS = {
    "sia": "Sia",
    "thesis": "COpter, shards and networks",
    "shockwave": "Shockwave",
    "pollux": "Pollux",
    "afs": "AFS",
    "fgd": "Placement",
}
"""Papers by the first word of the names of their documents."""

LINK = re.compile(r"\[((?:[^\[\]]|\[[^\]]*\])*)\]\(([^)\s#]+)((?:#[^)\s]*)?)\)")


def slug(text: str) -> str:
    """Return a heading as the anchor that the site gives it."""
    return re.sub(r"[-\s]+", "-", re.sub(r"[^\w\s-]", "", text).strip().lower())


def sections_of(text: str) -> dict[str, str]:
    """Return the sections of a page by title; the text before the first heading has the title ""."""
    found: dict[str, str] = {}
    for title, body in _parts(text, "## "):
        inner = _parts(body, "### ") if body.count("\n") > LONG else [("", body)]
        for name, part in inner:
            found[f"{title}: {name}" if name and title != CLAIMS else name or title] = part
    return found


def _parts(text: str, mark: str) -> list[tuple[str, str]]:
    before, *rest = re.split(f"^{mark}", text, flags=re.MULTILINE)
    parts = [tuple(part.split("\n", 1)) for part in rest]
    return [("", before), *((title, body) for title, body in parts)]


@cache
def pages_of_results() -> dict[str, dict[str, tuple[str, str]]]:
    """Return the pages into which each long page is split: its title and text, by the page's place."""
    found: dict[str, dict[str, tuple[str, str]]] = {}
    for source, page in FROM_ROOT.items():
        if page in SPLIT:
            parts = sections_of((ROOT / source).read_text())
            found[page] = {
                f"results/{SPLIT[page]}/{slug(title)}.md": (title, f"# {title}\n{text}")
                for title, text in parts.items()
                if title and text.strip()
            }
    return found


@cache
def pages_of_api() -> dict[str, tuple[str, str, str]]:
    """Return package, title and text of each page of the API, by the page's place."""
    return {
        f"reference/api/{package}{'' if title == package else '.' + slug(title)}.md": (package, title, text)
        for package, title, text in api.pages()
    }


def on_config(config: Any) -> Any:
    """Add these pages to the navigation."""
    reference: dict[str, list[Any]] = {}
    for place, (package, title, _) in pages_of_api().items():
        reference.setdefault(package, []).append({title: place})
    by_package = [one[0] if package in one[0] else {package: one} for package, one in reference.items()]
    command_line = [{title: f"reference/commands/{slug(title)}.md"} for title in commands.pages()]
    for section in config.nav:
        if isinstance(section, dict) and "Reference" in section:
            section["Reference"] += [{"Command line": command_line}, {"API": by_package}]
    results: list[Any] = []
    split = pages_of_results()
    for page in FROM_ROOT.values():
        if page in split:
            results.append({SPLIT[page].capitalize(): [page, *_grouped(split[page])]})
        elif page.startswith("results/"):
            results.append(page)
    own = [page for page in FROM_ROOT.values() if not page.startswith("results/")]
    config.nav += [{"Results": results}, *own]
    return config


def _grouped(pages: dict[str, tuple[str, str]]) -> list[Any]:
    """Return the navigation of the sections of a page; documents of one paper are together."""
    plain: list[Any] = []
    papers: dict[str, list[Any]] = {}
    for place, (title, text) in pages.items():
        name = re.search(r"`copter reproduce (\w+?)-", text)
        paper = PAPERS.get(name[1], "Other papers") if name and place.startswith("results/papers/") else ""
        (papers.setdefault(paper, []) if paper else plain).append({title: place})
    return [*plain, *({paper: each} for paper, each in papers.items())]


def on_files(files: Files, config: Any) -> Files:
    """Add the pages that are made from elsewhere, and the pictures of the results."""
    for place, (_, _, text) in pages_of_api().items():
        files.append(File.generated(config, place, content=text))
    split = pages_of_results()
    for source, page in FROM_ROOT.items():
        text = (ROOT / source).read_text()
        if page in split:
            folder = SPLIT[page]
            for at in split[page]:  # links within the page lead to its sections
                text = text.replace(f"](#{Path(at).stem})", f"]({folder}/{Path(at).name})")
            links = (f"- [{title}]({folder}/{Path(at).name})\n" for at, (title, _) in split[page].items())
            text = re.split("^## ", text, flags=re.MULTILINE)[0] + "\n" + "".join(links)
            for place, (_, part) in split[page].items():
                files.append(File.generated(config, place, content=part))
        files.append(File.generated(config, page, content=text))
    for title, text in commands.pages().items():
        files.append(File.generated(config, f"reference/commands/{slug(title)}.md", content=text))
    for kind in ("svg", "html"):
        for path in sorted((ROOT / RESULTS).rglob(f"*.{kind}")):
            place = f"results/{path.relative_to(ROOT / RESULTS).as_posix()}"
            files.append(File.generated(config, place, abs_src_path=str(path)))
    return files


def on_page_markdown(markdown: str, page: Any, config: Any, files: Files) -> str:
    """Let links lead to pages of the site; a link to a source file becomes its text."""
    uri = page.file.src_uri
    if uri.startswith("reference/api/"):
        return markdown
    # Where the page lies in the checkout, and so what its links are relative to.
    sources = {page: source for source, page in FROM_ROOT.items()}
    split = pages_of_results()
    sources |= {place: sources[page] for page, each in split.items() for place in each}
    folder = posixpath.dirname(sources.get(uri, f"docs/{uri}"))

    def lead(found: re.Match[str]) -> str:
        text, target, anchor = found.groups()
        path = posixpath.normpath(posixpath.join(folder, target))
        if path in FROM_ROOT:
            inside = FROM_ROOT[path]
            own = f"results/{SPLIT.get(inside)}/{anchor[1:]}.md"
            if own in split.get(inside, {}):
                inside, anchor = own, ""
        elif path.startswith("docs/") and not path.endswith(".py"):
            inside = path.removeprefix("docs/")
        elif path.startswith(f"{RESULTS}/"):
            inside = "results/" + path.removeprefix(f"{RESULTS}/")
        elif path == "README.md":
            inside = "index.md"
        elif "://" not in target and (ROOT / path).exists():
            return text
        else:
            return found[0]
        return f"[{text}]({posixpath.relpath(inside, posixpath.dirname(uri) or '.')}{anchor})"

    return LINK.sub(lead, markdown)
