"""Calls of Slurm's commands."""

from __future__ import annotations

import os
import subprocess

from copter.errors import CopterError

_SECONDS = 30.0
"""Seconds to wait for the answer of a command."""
_DEFAULTS = ("SACCT_", "SINFO_", "SQUEUE_", "SCONTROL_")
"""Prefixes of environment variables with a user's defaults, which would change the output of the commands."""


class SlurmError(CopterError, RuntimeError):
    """A command of Slurm failed or did not answer, or a partition has no nodes with GPUs."""


def call(*command: str) -> str:
    """Return the output of a command; raise SlurmError if it fails."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith(_DEFAULTS)}
    try:
        done = subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=_SECONDS,
            env=environment,
        )
    except subprocess.TimeoutExpired:
        raise SlurmError(f"{command[0]} did not answer within {_SECONDS:g} s") from None
    except OSError as error:
        raise SlurmError(f"{command[0]} cannot be called: {error.strerror}") from None
    if done.returncode:
        said = " ".join((done.stderr or done.stdout).split())
        raise SlurmError(f"{' '.join(command[:3])}: {said or f'exit code {done.returncode}'}")
    return done.stdout
