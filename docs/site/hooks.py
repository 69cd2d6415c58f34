"""Pages that the site has besides those in docs/: the API, the command line, and files from the root.

The API reference has a page for each public package, with the names that its ``__init__.pyi`` exports. The
command line's reference is made from the commands themselves (commands.py).
"""

from __future__ import annotations

import posixpath
import re
import sys
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File, Files

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(Path(__file__).parent))

from commands import command_line  # noqa: E402

PACKAGES = {
    "copter": "copter",
    "copter.errors": "copter/errors.py",
    "copter.solvers.api": "copter/solvers/api.py",
    "copter.ray": "copter/ray",
    "copter.live.client": "copter/live/client.py",
    "copter.live.training": "copter/live/training",
    **{
        f"copter.problems.{name}": f"copter/problems/{name}"
        for name in ("cluster", "sia", "load_balancing", "traffic", "shockwave", "placement")
    },
}
"""Public packages and modules, and where their sources are."""
RESULTS = "bench/results"
FROM_ROOT = {
    "CHANGELOG.md": "changelog.md",
    "CONTRIBUTING.md": "contributing.md",
    **{
        f"{RESULTS}/{name}.md": f"results/{name}.md"
        for name in ("benchmarks", "report", "papers", "shards", "live-figures", "netlib", "coverage")
    },
}
COMMANDS = "reference/commands.md"

LINK = re.compile(r"\[((?:[^\[\]]|\[[^\]]*\])*)\]\(([^)\s#]+)((?:#[^)\s]*)?)\)")
EXPORT = re.compile(r"^from (\S+) import (\w+) as (\w+)$", re.MULTILINE)


def page_of(package: str) -> str:
    """Return where the page of a public package is in the site."""
    return f"reference/api/{package}.md"


def api_page(package: str, shown: set[str]) -> str:
    """Return the page of a package: its exported names with their docstrings, or all of a module.

    Add the names to `shown`. A name that another page shows already is only linked.
    """
    stub = ROOT / PACKAGES[package] / "__init__.pyi"
    if not stub.exists():
        return f"::: {package}\n"
    page, elsewhere = f"# {package}\n\n", ""
    for home, name, _ in EXPORT.findall(stub.read_text()):
        whole = f"{home}.{name}"
        if whole in shown or home == "copter.errors":
            elsewhere += f'- <autoref identifier="{whole}" optional>`{name}`</autoref>\n'
        else:
            page += f"::: {whole}\n    options:\n      heading_level: 2\n      show_root_full_path: false\n\n"
            shown.add(whole)
    return page + (f"## Names described elsewhere\n\n{elsewhere}" if elsewhere else "")


def on_config(config: Any) -> Any:
    """Add these pages to the navigation."""
    api = [{package: page_of(package)} for package in PACKAGES]
    results = [page for page in FROM_ROOT.values() if page.startswith("results/")]
    own = [page for page in FROM_ROOT.values() if not page.startswith("results/")]
    for section in config.nav:
        if isinstance(section, dict) and "Reference" in section:
            section["Reference"] += [{"Command line": COMMANDS}, {"API": api}]
    config.nav += [{"Results": results}, *own]
    return config


def on_files(files: Files, config: Any) -> Files:
    """Add the pages that are made from elsewhere, and the pictures of the results."""
    shown: set[str] = set()
    for package in PACKAGES:
        files.append(File.generated(config, page_of(package), content=api_page(package, shown)))
    for source, page in FROM_ROOT.items():
        files.append(File.generated(config, page, content=(ROOT / source).read_text()))
    files.append(File.generated(config, COMMANDS, content=command_line()))
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
    folder = posixpath.dirname(sources.get(uri, f"docs/{uri}"))

    def lead(found: re.Match[str]) -> str:
        text, target, anchor = found.groups()
        path = posixpath.normpath(posixpath.join(folder, target))
        if path in FROM_ROOT:
            inside = FROM_ROOT[path]
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
