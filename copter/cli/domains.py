"""Commands of domains, found through entry points.

The group ``copter.domains`` names domains (:class:`copter.rounds.domain.Domain`), as
``rides = "rides.model:Rides"``: `copter run rides` and `copter bench rides` play them; in their place any
``module:Name`` is the name of a domain.

The group ``copter.commands`` names functions ``register(run, bench)`` that add commands to the groups `copter
run` and `copter bench`, as ``run.command("sia")(run_sia)``.  Domains are loaded when one of these groups is
asked for its commands, so that `copter --help` and the other commands wait for none of them.

An entry point of the group ``copter.services`` names a function ``register(app)`` that adds commands to
`copter` itself.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from importlib.metadata import entry_points
from typing import Any, ClassVar, TypeAlias

import typer
from typer.core import TyperGroup

from copter.cli.console import errors

_GROUP, _DOMAINS, _SERVICES = "copter.commands", "copter.domains", "copter.services"

_Register: TypeAlias = Callable[[typer.Typer, typer.Typer], None]
"""Adds a domain's commands to the groups `run` and `bench`."""


class _DomainGroup(TyperGroup):
    """A group whose commands are those of the domains that are installed."""

    which: ClassVar[str]

    def list_commands(self, ctx: Any) -> list[str]:
        """Return the names of the commands, in order."""
        return sorted({*_commands()[self.which], *_domains()})

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """Return the command of a name, if there is one; any ``module:Name`` is the name of a domain."""
        domain = _domains().get(cmd_name, cmd_name)
        if ":" in domain:
            from copter.cli.rounds import domain_command

            return domain_command(self.which, domain, cmd_name)
        return _commands()[self.which].get(cmd_name)


class RunGroup(_DomainGroup):
    """The group `copter run`."""

    which = "run"


class BenchGroup(_DomainGroup):
    """The group `copter bench`."""

    which = "bench"


@cache
def _commands() -> dict[str, dict[str, Any]]:
    """Return the commands of each group by name.

    A domain that cannot be loaded is reported, and takes no other domain's commands away.
    """
    return _registered(_GROUP, ("run", "bench"))


@cache
def _domains() -> dict[str, str]:
    """Return the domains that are named by entry points, ``module:Name`` by name."""
    return {entry.name: entry.value for entry in entry_points(group=_DOMAINS)}


@cache
def service_commands() -> dict[str, Any]:
    """Return the commands that stand beside `copter run`: those of services, by name."""
    return _registered(_SERVICES, ("copter",))["copter"]


def _registered(group: str, names: tuple[str, ...]) -> dict[str, dict[str, Any]]:
    """Call what an entry-point group names, and collect the commands that it adds to some groups."""
    groups: dict[str, dict[str, Any]] = {name: {} for name in names}
    for entry in entry_points(group=group):
        apps = {which: typer.Typer(rich_markup_mode=None) for which in groups}
        try:
            register: Any = entry.load()
            register(*apps.values())
        except Exception as error:  # whatever somebody else's module raises
            errors().print(
                f"copter: no commands of {entry.name!r} ({entry.value}): {type(error).__name__}: {error}",
                markup=False,
                highlight=False,
            )
            continue
        for which, app in apps.items():
            groups[which] |= typer.main.get_group(app).commands
    return {which: dict(sorted(commands.items())) for which, commands in groups.items()}
