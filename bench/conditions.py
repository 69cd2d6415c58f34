"""What a folder of results was measured under: what must agree for it to go on, and how to measure again.

Results are for others' eyes, so that no path is kept.  Of a folder of inputs there is what is in it (how many
files, and a hash of their names and contents); in commands its place is taken by a word in capitals.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from copter.bench.result_files import SuiteResult

_OPTIONS = {
    "threads": "--threads",
    "limit": "--limit",
    "seconds": "--budget",
    "seed": "--seed",
    "rounds": "--rounds",
    "solvers": "--solvers",
}
_PLACES = {"data": "--data NETWORKS", "lps": "--lps PROGRAMS", "dede_python": "--dede-python PYTHON"}
_HASH_DIGITS = 12


def contents(folder: Path) -> str:
    """Return a short description of a folder's content, equal for equal files in any place."""
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    digest = hashlib.sha256()
    for path in files:
        digest.update(f"{path.relative_to(folder).as_posix()}\0{path.stat().st_size}\0".encode())
        with path.open("rb") as file:
            digest.update(hashlib.file_digest(file, "sha256").digest())
    return f"{len(files)} files, {digest.hexdigest()[:_HASH_DIGITS]}"


def differences(there: SuiteResult, now: SuiteResult) -> list[str]:
    """Say why what is measured now does not belong into the folder that holds `there`, an item each."""
    pairs = (
        (there.settings, now.settings),
        ({"version": there.version}, {"version": now.version}),
        (flat(there.machine), flat(now.machine)),
    )
    return [
        f"{name} {was}, not {wanted}"
        for old, new in pairs
        for name, was, wanted in differing(old, new)
        # what one of two folders does not say cannot differ; an older one says only that there was a folder
        if name in old and name in new and not (was is True and isinstance(wanted, str))
    ]


def flat(machine: Mapping[str, Any]) -> dict[str, Any]:
    """Return a machine's description with its versions at the same level."""
    return {name: value for name, value in machine.items() if name != "versions"} | {
        **machine.get("versions", {})
    }


def differing(old: Mapping[str, Any], new: Mapping[str, Any]) -> list[tuple[str, Any, Any]]:
    """Return each name whose values differ, with both of them; "none" where there is no value."""
    return [
        (name, old.get(name, "none"), new.get(name, "none"))
        for name in dict.fromkeys([*old, *new])
        if old.get(name) != new.get(name)
    ]


def rerun(suite: SuiteResult, line: str) -> str:
    """Command that measures a line again, alone, as it was measured."""
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


def with_commands(suite: SuiteResult) -> SuiteResult:
    """A suite whose lines have the commands that its settings make: in older folders they lack options."""
    lines = {name: replace(line, command=rerun(suite, name)) for name, line in suite.lines.items()}
    return replace(suite, lines=lines)
