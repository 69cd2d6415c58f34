"""The page of the command line: the help of every command, as the command prints it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import typer

from copter.cli.main import app

HEAD = """# Command line

The help of every command of `copter`, as the command prints it with `--help`.
"""


def command_line() -> str:
    """Return the page as Markdown."""
    root: Any = typer.main.get_command(app)
    return HEAD + "".join(sections(root, "copter", None))


def sections(command: Any, name: str, parent: Any) -> Iterator[str]:
    """Yield a section for a command and for each of its commands."""
    context = command.make_context(name.split()[-1], [], parent=parent, resilient_parsing=True)
    text = command.get_help(context).rstrip()
    yield f"\n## `{name}`\n\n```text\n{text}\n```\n"
    for each in getattr(command, "list_commands", lambda _: [])(context):
        yield from sections(command.get_command(context, each), f"{name} {each}", context)
