"""What the site has besides the pages of docs/: the reference, a page a module, and files of the root.

Links from a page to a source file, which readers of the checkout follow, lead to its page of the reference.
"""

from __future__ import annotations

import posixpath
import re
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File, Files

ROOT = Path(__file__).parents[2]
PACKAGES = ("copter", "solvers", "shims", "problems", "bench", "live")
FROM_ROOT = {"CHANGELOG.md": "changelog.md", "CONTRIBUTING.md": "contributing.md"}

LINK = re.compile(r"\]\(([^)\s#]+)((?:#[^)\s]*)?)\)")


def sources() -> list[Path]:
    """The modules that have a page: all but those of the command line, whose help is its reference."""
    found = [path.relative_to(ROOT) for name in PACKAGES for path in sorted((ROOT / name).rglob("*.py"))]
    return [path for path in found if path.parts[:2] != ("copter", "cli") and path.name != "__main__.py"]


def module_of(path: Path) -> str:
    """copter.solvers.base of solvers/base.py."""
    parts = path.with_suffix("").parts
    parts = parts if parts[0] == "copter" else ("copter", *parts)
    return ".".join(parts).removesuffix(".__init__")


def page_of(path: Path) -> str:
    """Where the page of a module lies in the site."""
    return f"reference/{module_of(path)}.md"


def reference(path: Path) -> str:
    """The page of a module; of a package whose names are imported lazily, with those names."""
    page = f"::: {module_of(path)}\n"
    stub = ROOT / path.with_suffix(".pyi")
    if stub.exists():
        names = re.findall(r"^from (\S+) import (\w+) as (\w+)$", stub.read_text(), re.MULTILINE)
        page += "\n## Names\n\n"
        for home, name, public in names:
            page += f'- <autoref identifier="{home}.{name}" optional>`{public}`</autoref>\n'
    return page


def on_config(config: Any) -> Any:
    """Add the reference and the root's pages to the navigation: a section for each package."""
    sections: dict[str, list[dict[str, str]]] = {}
    for path in sources():
        parts = module_of(path).split(".")
        home = ".".join(parts[: 2 if path.parts[0] != "copter" or len(path.parts) > 2 else 1])
        sections.setdefault(home, []).append({".".join(parts): page_of(path)})
    reference = [{name: pages} for name, pages in sections.items()]
    config.nav += [{"Reference": reference}, *FROM_ROOT.values()]
    return config


def on_files(files: Files, config: Any) -> Files:
    """Add the pages that are made from elsewhere."""
    for path in sources():
        files.append(File.generated(config, page_of(path), content=reference(path)))
    for source, page in FROM_ROOT.items():
        files.append(File.generated(config, page, content=(ROOT / source).read_text()))
    return files


def on_page_markdown(markdown: str, page: Any, config: Any, files: Files) -> str:
    """Let links to source files and to pages of the root lead to their pages of the site."""
    uri = page.file.src_uri
    if uri.startswith("reference/"):
        return markdown
    # Where the page lies in the checkout, and so what its links are relative to.
    folder = "" if uri in FROM_ROOT.values() else posixpath.join("docs", posixpath.dirname(uri))

    def lead(found: re.Match[str]) -> str:
        target, anchor = found.groups()
        path = posixpath.normpath(posixpath.join(folder, target))
        if path.startswith("docs/"):
            inside = path.removeprefix("docs/")
        elif path in FROM_ROOT:
            inside = FROM_ROOT[path]
        elif path.endswith(".py") and Path(path) in known:
            inside = page_of(Path(path))
        elif path == "README.md":
            inside = "index.md"
        else:
            return found[0]
        return f"]({posixpath.relpath(inside, posixpath.dirname(uri) or '.')}{anchor})"

    known = set(sources())
    return LINK.sub(lead, markdown)
