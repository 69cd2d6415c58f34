"""Commands of domains, found through entry points.

An entry point of the group ``copter.domains`` names a domain (:class:`copter.rounds.domain.Domain`), for
example ``rides = "rides.model:Rides"``. `copter check rides`, `copter run rides` and `copter bench rides`
play its rounds. They also accept ``module:Name`` for a domain without an entry point. If a command of the
group has the same name, `copter run` and `copter bench` mean the command.

An entry point of the group ``copter.commands`` names a function ``register(run, bench)``. It adds commands to
the groups `copter run` and `copter bench`, for example with ``run.command("sia")(run_sia)``. Domains are
imported only for the commands of these groups, so that `copter --help` and other commands start quickly.

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
from copter.installed import DOMAINS, installed

_GROUP, _SERVICES = "copter.commands", "copter.services"

_Register: TypeAlias = Callable[[typer.Typer, typer.Typer], None]
"""A function that adds a domain's commands to the groups `run` and `bench`."""


class _DomainGroup(TyperGroup):
    """A group with the commands of the installed domains."""

    which: ClassVar[str]

    def list_commands(self, ctx: Any) -> list[str]:
        """Return the names of the commands in alphabetical order."""
        return sorted({*_commands()[self.which], *installed(DOMAINS)})

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """Return the command with the name `cmd_name`, which may be ``module:Name`` of a domain, or None."""
        own = _commands()[self.which].get(cmd_name)
        if own is None and (":" in cmd_name or cmd_name in installed(DOMAINS)):
            from copter.cli.rounds import domain_command

            return domain_command(self.which, cmd_name)
        return own


class RunGroup(_DomainGroup):
    """The group `copter run`."""

    which = "run"


class BenchGroup(_DomainGroup):
    """The group `copter bench`."""

    which = "bench"


@cache
def _commands() -> dict[str, dict[str, Any]]:
    """Return the commands of each group by name, without those of domains that cannot be imported."""
    return _registered(_GROUP, ("run", "bench"))


@cache
def service_commands() -> dict[str, Any]:
    """Return the commands that installed services add to `copter`, by name."""
    return _registered(_SERVICES, ("copter",))["copter"]


def _registered(group: str, names: tuple[str, ...]) -> dict[str, dict[str, Any]]:
    """Call the functions of an entry-point group; return the commands that they add to the groups `names`.

    An entry point that raises an error is reported on standard error and skipped.
    """
    groups: dict[str, dict[str, Any]] = {name: {} for name in names}
    for entry in entry_points(group=group):
        apps = {which: typer.Typer(rich_markup_mode=None) for which in groups}
        try:
            register: Any = entry.load()
            register(*apps.values())
        except Exception as error:  # an installed package may raise any error
            errors().print(
                f"copter: cannot load the commands of {entry.name!r} ({entry.value}): "
                f"{type(error).__name__}: {error}",
                markup=False,
                highlight=False,
            )
            continue
        for which, app in apps.items():
            groups[which] |= typer.main.get_group(app).commands
    return {which: dict(sorted(commands.items())) for which, commands in groups.items()}
