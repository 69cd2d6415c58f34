"""Commands of domains, found through entry points.

The entry points of the group ``copter.commands`` map the words of a command, such as "run sia", to its
options (:class:`copter.cli.command.Options`). A domain of :class:`copter.Rounds` without its own command
gets the general command. A domain is found by its name, or as ``module:Name``.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from functools import cache
from importlib.metadata import EntryPoint
from typing import Any, ClassVar

import typer
from typer.core import TyperGroup

from copter.cli.command import command_of
from copter.cli.console import say
from copter.installed import DOMAINS, installed

_GROUP, _SERVICES = "copter.commands", "copter.services"
_WORDS = re.compile(r"(run|bench) \S+")
"""Words of a command."""


class _DomainGroup(TyperGroup):
    """A group with the commands of the installed domains."""

    which: ClassVar[str]

    def list_commands(self, ctx: Any) -> list[str]:
        """Return the names of the commands in alphabetical order."""
        return sorted({*_commands(self.which), *installed(DOMAINS)})

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """Return the command with the name `cmd_name`, which may be ``module:Name`` of a domain, or None."""
        options = _commands(self.which).get(cmd_name)
        if options is not None:
            return command_of(cmd_name, options)
        if ":" in cmd_name or cmd_name in installed(DOMAINS):
            from copter.cli.rounds import GENERAL

            return command_of(cmd_name, GENERAL[self.which], domain=cmd_name)
        return None


class RunGroup(_DomainGroup):
    """The group `copter run`."""

    which = "run"


class BenchGroup(_DomainGroup):
    """The group `copter bench`."""

    which = "bench"


@cache
def _commands(group: str) -> dict[str, Any]:
    """Return the options of the commands of a group by name, without those that cannot be imported."""
    found: dict[str, Any] = {}
    for entry, declared in _loaded(_GROUP):
        if not (isinstance(declared, Mapping) and all(map(_WORDS.fullmatch, declared))):
            say(f"copter: {entry.name!r} ({entry.value}) must be a mapping of 'run NAME' or 'bench NAME'")
            continue
        for words, options in declared.items():
            first, name = words.split()
            found |= {name: options} if first == group else {}
    return found


@cache
def service_commands() -> dict[str, Any]:
    """Return the commands that installed services add to `copter`, by name."""
    found: dict[str, Any] = {}
    for _, register in _loaded(_SERVICES):
        app = typer.Typer(rich_markup_mode=None)
        register(app)
        found |= typer.main.get_group(app).commands
    return dict(sorted(found.items()))


def _loaded(group: str) -> Iterator[tuple[EntryPoint, Any]]:
    """Yield the entry points of a group with their objects; report those that cannot be imported."""
    for entry in installed(group).values():
        try:
            found = entry.load()
        except Exception as error:  # an installed package may raise any error
            why = f"{type(error).__name__}: {error}"
            say(f"copter: cannot load the commands of {entry.name!r} ({entry.value}): {why}")
            continue
        yield entry, found
