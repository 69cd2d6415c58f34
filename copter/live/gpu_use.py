"""The use of the GPUs of this machine, as nvidia-smi reports it.

nvidia-smi numbers GPUs by their PCI bus. CUDA does the same on machines whose GPUs are all of one model, or
with ``CUDA_DEVICE_ORDER=PCI_BUS_ID``.
"""

from __future__ import annotations

import os
import re
import select
import shutil
import signal
import subprocess
import time
from collections.abc import Mapping
from contextlib import suppress
from typing import NamedTuple

from copter.errors import CopterError
from copter.live.untrusted import words

LOOK_SECONDS = 10.0
"""Seconds between two calls of nvidia-smi."""
_ANSWER_SECONDS = 5.0
"""Seconds after which nvidia-smi is killed."""
_END_SECONDS = 1.0
_MOST_BYTES = 64 * 1024
"""Largest output of nvidia-smi, in bytes."""
_COMMAND = (
    "--query-gpu=index,uuid,utilization.gpu,memory.used,memory.total",
    "--format=csv,noheader,nounits",
)
_LINE = re.compile(
    r"(?P<index>\d{1,4}), (?P<uuid>GPU-[0-9a-f-]{1,60}), (?P<percent>\d{1,3}|\[.{1,30}\]), "
    r"(?P<used>\d{1,9}|\[.{1,30}\]), (?P<total>\d{1,9}|\[.{1,30}\])",
    re.ASCII,
)
"""Form of a line; a figure that the GPU does not have is a text in brackets, such as ``[N/A]``."""


class GpuUseError(CopterError, RuntimeError):
    """nvidia-smi did not report the use of the GPUs, for the reason in the message."""


class GpuUse(NamedTuple):
    """Use of a GPU: the percentage of time in which it was busy, and memory in MiB; None if unknown."""

    device: str
    percent: int | None
    used_mib: int | None
    total_mib: int | None


def has_nvidia_smi() -> bool:
    """Return whether nvidia-smi is on the PATH."""
    return shutil.which("nvidia-smi") is not None


def read_gpu_use() -> Mapping[str, GpuUse]:
    """Return the use of each GPU of this machine, by its number and by its UUID.

    Raises GpuUseError if nvidia-smi does not answer in time, fails, or writes something else.
    """
    try:
        process = subprocess.Popen(
            ["nvidia-smi", *_COMMAND],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
    except OSError as error:
        raise GpuUseError(f"nvidia-smi cannot be called: {error}") from None
    try:
        output = _output(process)
    except (TimeoutError, subprocess.TimeoutExpired):
        raise GpuUseError(f"nvidia-smi did not answer within {_ANSWER_SECONDS:g} s") from None
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        with suppress(subprocess.TimeoutExpired):  # a process that waits for a broken device cannot be killed
            process.wait(_END_SECONDS)
    return _parsed(output)


def _output(process: subprocess.Popen[bytes]) -> str:
    """Return the output of a process that must end with status 0."""
    deadline, output = time.monotonic() + _ANSWER_SECONDS, b""
    assert process.stdout is not None
    with process.stdout as pipe:
        poll = select.poll()
        poll.register(pipe, select.POLLIN)
        while len(output) <= _MOST_BYTES:
            if not poll.poll(1000.0 * max(deadline - time.monotonic(), 0.0)):
                raise TimeoutError
            part = os.read(pipe.fileno(), _MOST_BYTES)
            if not part:
                break
            output += part
        else:
            raise GpuUseError(f"nvidia-smi wrote more than {_MOST_BYTES} bytes")
    if status := process.wait(max(deadline - time.monotonic(), 0.0)):
        raise GpuUseError(f"nvidia-smi ended with status {status}")
    return output.decode(errors="replace")


def _parsed(output: str) -> dict[str, GpuUse]:
    uses = {}
    for line in output.splitlines():
        found = _LINE.fullmatch(line.strip())
        if found is None:
            raise GpuUseError(f"nvidia-smi wrote {words(line)!r}: must be number, UUID and three figures")
        figures = (found[name] for name in ("percent", "used", "total"))
        use = GpuUse(found["index"], *(int(one) if one.isdecimal() else None for one in figures))
        uses[use.device] = uses[found["uuid"]] = use
    return uses
