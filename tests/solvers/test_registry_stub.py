"""The stub of the registry, with the settings of each solver as typed keywords, is that of the code.

After a change of settings: ``python tests/solvers/test_registry_stub.py``.
"""

import inspect
import subprocess
import sys
from collections import defaultdict
from pathlib import Path

from copter.solvers import registry
from copter.solvers.registry import SOLVERS
from copter.solvers.settings import setting_defaults

STUB = Path(registry.__file__).with_suffix(".pyi")
HEAD = '''"""Written by `python tests/solvers/test_registry_stub.py`: settings of each solver, for editors."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal, overload

from copter.proof.certificate import Certificate
from copter.solvers.base import Solver
{imports}

@dataclass(frozen=True)
class SolverEntry:
    name: str
    target: str
    line: str = ...
    preset: Mapping[str, Any] = ...
    @property
    def summary(self) -> str: ...
    def load(self) -> type[Solver]: ...
    def make(self, **settings: Any) -> Solver: ...

class Registry(Mapping[str, SolverEntry]):
    def __init__(self, built_in: Mapping[str, SolverEntry]) -> None: ...
    def __getitem__(self, name: str) -> SolverEntry: ...
    def __iter__(self) -> Iterator[str]: ...
    def __len__(self) -> int: ...

SOLVERS: Mapping[str, SolverEntry]

def solver_entry(name: str, also: tuple[str, ...] = ...) -> SolverEntry: ...
def repeatable_solver(name: str, **settings: Any) -> Solver: ...
'''


def stub() -> str:
    """The text of the stub."""
    names, text = defaultdict(list), ""
    for entry in registry._BUILT_IN:
        names[entry.load()].append(f'"{entry.name}"')
    for kind, its in names.items():
        kinds = {
            name: one.annotation
            for base in reversed(kind.__mro__)
            if "__init__" in vars(base)
            for name, one in inspect.signature(vars(base)["__init__"]).parameters.items()
        }
        settings = ", ".join(f"{name}: {kinds[name]} = ..." for name in setting_defaults(kind))
        text += "@overload\ndef make_solver(\n"
        text += f"    name: Literal[{', '.join(its)}], *, {settings},\n) -> {kind.__name__}: ...\n"
    text += "@overload\ndef make_solver(name: str, **settings: Any) -> Solver: ...\n"
    homes = defaultdict(set)
    for kind in names:
        homes[kind.__module__].add(kind.__name__)
    homes["copter.solvers.proximal.solver"].add("Inner")
    homes["copter.solvers.proximal.tuning"].add("ProximalTuning")
    imports = "".join(f"from {home} import {', '.join(sorted(homes[home]))}\n" for home in sorted(homes))
    ruff = [sys.executable, "-m", "ruff", "format", "--stdin-filename", str(STUB), "-"]
    return subprocess.run(
        ruff, input=HEAD.format(imports=imports) + text, capture_output=True, text=True, check=True
    ).stdout


def test_the_stub_has_the_settings_of_the_solvers() -> None:
    assert STUB.read_text() == stub()
    assert {entry.name for entry in registry._BUILT_IN} <= set(SOLVERS)


if __name__ == "__main__":
    STUB.write_text(stub())
