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

from copter.bench.suite.results import SuiteResult

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
    """What is in a folder, in a few words: equal for equal files, wherever they lie."""
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    digest = hashlib.sha256()
    for path in files:
        digest.update(f"{path.relative_to(folder).as_posix()}\0{path.stat().st_size}\0".encode())
        with path.open("rb") as file:
            digest.update(hashlib.file_digest(file, "sha256").digest())
    return f"{len(files)} files, {digest.hexdigest()[:_HASH_DIGITS]}"


def differences(there: SuiteResult, now: SuiteResult) -> list[str]:
    """Why what is measured now does not belong into a folder, an item each; empty if it does.

    Parameters
    ----------
    there, now : SuiteResult
        What is in the folder, and what it would be if it began now.

    Returns
    -------
    list of str
    """
    found = _differing(there.settings, now.settings)
    found += _differing({"version": there.version}, {"version": now.version})
    found += _differing(_flat(there.machine), _flat(now.machine))
    return found


def _flat(machine: Mapping[str, Any]) -> dict[str, Any]:
    """A machine with its versions beside the rest; what one of two folders does not say cannot differ."""
    return {**machine, **machine.get("versions", {}), "versions": None}


def _differing(there: Mapping[str, Any], now: Mapping[str, Any]) -> list[str]:
    return [
        f"{name} {there[name]}, not {now[name]}"
        for name in now
        if name in there and not _agree(there[name], now[name])
    ]


def _agree(there: object, now: object) -> bool:
    """Whether a value is the same, or an older folder says only that there was one."""
    return there == now or (there is True and isinstance(now, str))


def rerun(suite: SuiteResult, line: str) -> str:
    """Command that measures a line again, alone, as it was measured.

    Parameters
    ----------
    line : str
        Its name.
    """
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
