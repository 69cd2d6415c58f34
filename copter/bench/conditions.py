"""Conditions of a folder of results: those that must agree to continue the run, and commands for its lines.

Results are published, so no paths are stored.  For a folder of inputs, the number of files and a hash of the
files' names and contents are stored; in commands a word in capitals replaces the path.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from copter.bench.result_files import SuiteResult

_OPTIONS = {
    "threads": "--threads",
    "limit": "--time-limit",
    "seconds": "--budget",
    "seed": "--seed",
    "rounds": "--rounds",
    "solvers": "--solvers",
}
_PLACES = {"data": "--data NETWORKS", "lps": "--lps PROGRAMS"}
_HASH_DIGITS = 12


def contents(folder: Path) -> str:
    """Return a short description of a folder's content, which does not depend on the folder's place."""
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    digest = hashlib.sha256()
    for path in files:
        digest.update(f"{path.relative_to(folder).as_posix()}\0{path.stat().st_size}\0".encode())
        with path.open("rb") as file:
            digest.update(hashlib.file_digest(file, "sha256").digest())
    return f"{len(files)} files, {digest.hexdigest()[:_HASH_DIGITS]}"


def differences(there: SuiteResult, now: SuiteResult) -> list[str]:
    """Return, in words, the differences of the present conditions `now` from those of the folder `there`."""
    pairs = (
        (there.settings, now.settings),
        ({"version": there.version}, {"version": now.version}),
        (flat(there.machine), flat(now.machine)),
    )
    return [
        f"{name} {was}, not {wanted}"
        for old, new in pairs
        for name, was, wanted in differing(old, new)
        if name in old and name in new  # a condition that one side does not state cannot differ
    ]


def flat(machine: Mapping[str, Any]) -> dict[str, Any]:
    """Return a machine's description, with its versions at the same level as its other entries."""
    return {name: value for name, value in machine.items() if name != "versions"} | {
        **machine.get("versions", {})
    }


def differing(old: Mapping[str, Any], new: Mapping[str, Any]) -> list[tuple[str, Any, Any]]:
    """Return (name, old value, new value) for each difference; "none" replaces a missing value."""
    return [
        (name, old.get(name, "none"), new.get(name, "none"))
        for name in dict.fromkeys([*old, *new])
        if old.get(name) != new.get(name)
    ]


def rerun(suite: SuiteResult, line: str) -> str:
    """Return the command that measures a line again under the same conditions."""
    words = [f"copter bench all --profile {suite.profile} --only {line}"]
    for name, option in _OPTIONS.items():
        value = suite.settings.get(name)
        if value is not None and value != []:
            words.append(f"{option} {_word(value)}")
    words += [place for name, place in _PLACES.items() if suite.settings.get(name)]
    return " ".join([*words, f"--out runs/{line}"])


def _word(value: Any) -> str:
    if isinstance(value, list):
        return ",".join(value)
    return f"{value:.15g}" if isinstance(value, float) else str(value)
