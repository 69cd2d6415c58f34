"""Pages of the command line: the help of every command, as the command prints it.

A command that has commands of its own has a page. The others are on one page for each group.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from typing import Any

import typer

from copter.cli.main import app

HEAD = """# {title}

The help of these commands of `copter`, as each prints it with `--help`.
"""


@cache
def pages() -> dict[str, str]:
    """Return the pages by title, in the order and with the groups of ``copter --help``."""
    root: Any = typer.main.get_command(app)
    context = root.make_context("copter", [], resilient_parsing=True)
    names = set(root.list_commands(context))
    found: dict[str, str] = {}
    for line in root.get_help(context).splitlines():
        name = line.split()[0] if line.startswith("  ") and line.strip() else ""
        if line and not line.startswith(" "):
            title = line.rstrip(":")
        elif name in names:
            command = root.get_command(context, name)
            page = f"copter {name}" if hasattr(command, "list_commands") else title
            text = "".join(sections(command, f"copter {name}", context))
            found[page] = found.get(page, HEAD.format(title=page)) + text
            names.remove(name)
    return found


def sections(command: Any, name: str, parent: Any) -> Iterator[str]:
    """Yield a section for a command and for each of its commands."""
    context = command.make_context(name.split()[-1], [], parent=parent, resilient_parsing=True)
    text = command.get_help(context).rstrip()
    yield f"\n## `{name}`\n\n```text\n{text}\n```\n"
    for each in getattr(command, "list_commands", lambda _: [])(context):
        yield from sections(command.get_command(context, each), f"{name} {each}", context)
