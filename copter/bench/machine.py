"""Description of the machine of a measurement: processor, memory and versions, but no host or user names."""

from __future__ import annotations

import os
import platform
import resource
import subprocess
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from copter.parallel import available_threads

_PACKAGES = ("copter-opt", "numpy", "scipy", "numba", "llvmlite", "highspy", "ortools", "cvxpy", "matplotlib")


def versions() -> dict[str, str]:
    """Return the versions of Python and of the packages on which a result depends."""
    found = {"python": platform.python_version()}
    for package in _PACKAGES:
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            found[package] = "not installed"
    return found


def commit() -> str:
    """Return the last commit that changed the program, with "+" if the working tree differs from it.

    Changes of documents, tests and results do not count. The text is empty without a repository.
    """
    there = ("--", ":/", *(f":(top,exclude){each}" for each in ("bench/results", "docs", "tests", "*.md")))
    here = Path(__file__).resolve()
    commands = (
        ("ls-files", "--error-unmatch", here.name),  # copter may be installed inside another repository
        ("log", "-1", "--format=%h", "--abbrev=12", *there),
        ("status", "--porcelain", "--untracked-files=no", *there),
    )
    try:
        _, last, changed = (
            subprocess.run(
                ["git", *command],
                cwd=here.parent,
                capture_output=True,
                text=True,
                timeout=10.0,
                check=True,
            ).stdout.strip()
            for command in commands
        )
    except (OSError, subprocess.SubprocessError):
        return ""
    return last + ("+" if changed else "")


def machine() -> dict[str, Any]:
    """Return system, processor, cores, memory and versions."""
    return {
        "system": platform.system(),
        "architecture": platform.machine(),
        "processor": _processor(),
        "cores": available_threads(),
        "memory_gb": round(memory_mb() / 1e3, 1),
        "versions": versions(),
    }


def moment() -> dict[str, Any]:
    """Return the present day and the present load of the machine, for the beginning of a measurement."""
    return {"on": datetime.now(UTC).strftime("%Y-%m-%d"), "load_before": round(os.getloadavg()[0], 2)}


def memory_mb() -> float:
    """Return the memory of this machine, in MB."""
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 1e6


def _processor() -> str:
    info = Path("/proc/cpuinfo")
    if info.exists():
        for line in info.read_text().splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or "unknown"


def peak_memory_mb() -> float:
    """Return the most memory that this process has held, in MB.

    On Linux it is read from VmHWM, because ru_maxrss includes the memory that the parent process held when it
    started this process.
    """
    status = Path("/proc/self/status")
    if status.exists():
        for line in status.read_text().splitlines():
            if line.startswith("VmHWM"):
                return int(line.split()[1]) * 1024 / 1e6
    scale = 1 if platform.system() == "Darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * scale / 1e6
