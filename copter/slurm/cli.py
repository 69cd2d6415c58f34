"""`copter schedule` and `copter why`: a policy of copter decides about the held jobs of a Slurm partition."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TypeAlias

import typer

from copter.cli.console import say
from copter.cli.options import positive

if TYPE_CHECKING:
    from copter.slurm.decide import Decider

_SCHEDULE_EXAMPLES = """\b
Examples:
  copter schedule --slurm --partition gpu --policy sia
  copter schedule --slurm --partition gpu --policy queue --set quotas=vision=8,speech=4
  copter schedule --slurm --partition gpu --policy sia --dry-run
"""
_WHY_EXAMPLES = """\b
Examples:
  copter why 1234 --partition gpu
  copter why 1234_7 --partition gpu --policy queue
"""


def register(app: typer.Typer) -> None:
    """Add the commands to an application."""
    app.command("schedule", epilog=_SCHEDULE_EXAMPLES)(schedule)
    app.command("why", epilog=_WHY_EXAMPLES)(why)


_Partition: TypeAlias = Annotated[str, typer.Option(help="Name of the partition.")]
_Policy: TypeAlias = Annotated[str, typer.Option(help="Name of the policy; an unknown name prints the list.")]
_Settings: TypeAlias = Annotated[
    list[str] | None, typer.Option("--set", metavar="SETTING=VALUE", help="Setting of the policy.")
]
_RoundSeconds: TypeAlias = Annotated[
    float | None, typer.Option(callback=positive, help="Length of a round; default: the policy's own.")
]


def schedule(
    partition: _Partition,
    slurm: Annotated[
        bool, typer.Option("--slurm", help="Schedule the jobs of Slurm, the only source so far.")
    ] = False,
    policy: _Policy = "sia",
    sets: _Settings = None,
    round_seconds: _RoundSeconds = None,
    every: Annotated[
        float, typer.Option(callback=positive, help="Seconds between two reads of Slurm's jobs and nodes.")
    ] = 2.0,
    soon_seconds: Annotated[
        float,
        typer.Option(
            callback=positive,
            help="Also start a round when a job arrives or ends or a node changes, at least this many seconds"
            " after the last round began.",
        ),
    ] = 5.0,
    lock: Annotated[
        Path | None,
        typer.Option(
            help="File that the scheduler locks; default: one for each partition and user, in /run for root."
        ),
    ] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Say what would be done now, do nothing, and end.")
    ] = False,
) -> None:
    """Start and resize the held jobs of a Slurm partition as a policy decides.

    This scheduler may be killed and started at any moment. Without it, start jobs with `scontrol release`.
    """
    import asyncio

    from copter.slurm.schedule import Scheduler, lock_path, locked

    if not slurm:
        raise typer.BadParameter(
            "must be given: Slurm is the only source of jobs so far", param_hint="--slurm"
        )
    decider, tell = _decider(policy, sets, round_seconds), typer.echo if dry_run else say
    scheduler = Scheduler(partition, decider, every=every, soon=soon_seconds, say=tell)

    async def run() -> None:
        if dry_run:
            return await scheduler.step(dry=True)
        await locked(lock or lock_path(partition), say)
        say(f"{policy} decides about partition {partition}")
        await scheduler.run()

    try:
        asyncio.run(run())
    except KeyboardInterrupt:
        pass


def why(
    job: Annotated[str, typer.Argument(help="Number of the job, as squeue shows it.")],
    partition: _Partition,
    policy: _Policy = "sia",
    sets: _Settings = None,
    round_seconds: _RoundSeconds = None,
) -> None:
    """Say why a job of a Slurm partition waits, and what a policy would give it now; change nothing."""
    from copter.slurm import why as answers
    from copter.slurm.read import read

    for sentence in answers.why(read(partition), job, _decider(policy, sets, round_seconds)):
        typer.echo(sentence)


def _decider(policy: str, sets: list[str] | None, round_seconds: float | None) -> Decider:
    """Return a policy with its settings, and its world."""
    from copter.problems.cluster.cli import policy_settings
    from copter.slurm.decide import Decider

    return Decider(policy, policy_settings(sets), round_seconds)
