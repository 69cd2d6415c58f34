"""A compiled kernel is run only if all that it was compiled from is as it was."""

import importlib
import os
import pkgutil
import subprocess
import sys
from types import ModuleType

import numpy as np
import pytest

import copter.bench
import copter.problems
import copter.shims
import copter.solvers
from copter.compile import cache as kernel_cache
from copter.compile.extremes import Intrinsic
from copter.compile.first_calls import Kernel

TABLE = "from typing import NamedTuple\nSTEP = 1.0\nclass Pair(NamedTuple):\n    a: float\n    b: float\n"
INNER = "from copter.compile.kernels import kernel\n\n@kernel\ndef inner(x):\n    return 10.0 * x\n"
MIDDLE = "from copter.compile.kernels import kernel\nimport lines.inner\nfrom lines.inner import inner\n"
MIDDLE += "\n@kernel\ndef middle(x):\n    return inner(x)\n"
OUTER = """
from copter.compile.first_calls import compile_at_once
from copter.compile.kernels import kernel
from lines.middle import middle
from lines.table import STEP, Pair

@kernel
def outer(x):
    pair = Pair(x, 3.0)
    return middle(pair.a) + STEP

compile_at_once()
print(outer(2.0), sum(outer.stats.cache_hits.values()))
"""


@pytest.fixture
def package(tmp_path):
    folder = tmp_path / "lines"
    folder.mkdir()
    texts = {"__init__": "", "table": TABLE, "inner": INNER, "middle": MIDDLE, "outer": OUTER}
    for name, text in texts.items():
        (folder / f"{name}.py").write_text(text)
    return folder


def run(package, **environment):
    """What outer(2) says in a new process, and whether it came from the cache."""
    # Without a cache for byte code: two edits within one second would look alike to Python itself.
    environment = {"PYTHONDONTWRITEBYTECODE": "1", "PYTHONPATH": str(package.parent)} | environment
    result = subprocess.run(
        [sys.executable, "-c", "import lines.outer"],
        env=os.environ | environment,
        capture_output=True,
        text=True,
        check=True,
    )
    value, loaded = result.stdout.split()
    return float(value), bool(int(loaded))


def edit(package, name, old, new):
    path = package / f"{name}.py"
    assert old in path.read_text()
    path.write_text(path.read_text().replace(old, new))


EDITS = [
    ("inner", "10.0 * x", "20.0 * x", 41.0),
    ("middle", "inner(x)", "inner(x) + 5", 26.0),
    ("table", "STEP = 1.0", "STEP = 2.0", 22.0),
    ("table", "a: float\n    b: float", "b: float\n    a: float", 31.0),
]


@pytest.mark.long
def test_an_edit_of_what_a_kernel_calls_is_seen(package, tmp_path, monkeypatch):
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path / "cache"))
    assert run(package) == (21.0, False)
    assert run(package) == (21.0, True)
    for name, old, new, value in EDITS:
        edit(package, name, old, new)
        assert run(package) == (value, False), (name, new)
        edit(package, name, new, old)
    assert run(package) == (21.0, True)


def test_the_cache_lies_beside_the_source_or_where_one_can_write(package, tmp_path, monkeypatch):
    monkeypatch.delenv("NUMBA_CACHE_DIR", raising=False)
    home = tmp_path / "home"
    assert run(package, XDG_CACHE_HOME=str(home)) == (21.0, False)
    assert list((package / "__pycache__").glob("lines.outer-*/**/*.nbc")) and not home.exists()
    subprocess.run(["rm", "-r", str(package / "__pycache__")], check=True)
    (package / "__pycache__").touch()  # a file: no folder can be made below it, not even by root
    assert run(package, XDG_CACHE_HOME=str(home)) == (21.0, False)
    assert run(package, XDG_CACHE_HOME=str(home)) == (21.0, True)
    home.rename(tmp_path / "old")
    home.touch()
    assert run(package, XDG_CACHE_HOME=str(home)) == (21.0, False)


RECORDS = """
from __future__ import annotations
from typing import NamedTuple

class Inside(NamedTuple):
    a: float

class Outside(NamedTuple):
    inside: Inside
"""


def test_what_is_within_a_record_counts(monkeypatch):
    """numba's index of a kernel names all these classes: with another one in its place it cannot be read."""
    found = set()
    for text in (RECORDS, RECORDS.replace("Inside", "Within"), RECORDS.replace("a: float", "a: int")):
        module = ModuleType("records")
        monkeypatch.setitem(sys.modules, "records", module)
        exec(text, vars(module))
        found.add(kernel_cache._fingerprint(__file__, {"Outside": module.Outside}))
    assert len(found) == 3


def test_old_folders_go_and_young_ones_stay(tmp_path):
    folders = [tmp_path / f"m-{k}" for k in range(kernel_cache.KEPT + 3)]
    for k, folder in enumerate(folders):
        folder.mkdir()
        os.utime(folder, (1000.0 + k, 1000.0 + k))
    (tmp_path / "m.other-1").mkdir()
    os.utime(tmp_path / "m.other-1", (1.0, 1.0))
    kernel_cache._remove_old(tmp_path, "m")
    assert {folder.name for folder in tmp_path.iterdir()} == {"m.other-1"} | {f.name for f in folders[3:]}
    for _ in range(2):
        for k in range(10, 20):
            (tmp_path / f"m-{k}").mkdir(exist_ok=True)
        kernel_cache._remove_old(tmp_path, "m")
    assert len(list(tmp_path.glob("m-*"))) == 10


def test_a_cache_that_cannot_be_written_is_told_of_once(tmp_path, monkeypatch, caplog):
    (tmp_path / "file").write_text("")
    monkeypatch.setattr(kernel_cache.settings, "CACHE_DIR", str(tmp_path / "file" / "cache"))
    kernel_cache._warn_once.cache_clear()
    for name in ("one", "other"):
        assert kernel_cache._make_folder(name, __file__, {}) is None
    assert [record.levelname for record in caplog.records] == ["WARNING"]
    assert "cannot be written" in caplog.text and "NUMBA_CACHE_DIR" in caplog.text


def names_of(code):
    yield from code.co_names
    for constant in code.co_consts:
        if hasattr(constant, "co_names"):
            yield from names_of(constant)


def test_every_name_that_a_kernel_takes_from_elsewhere_is_in_the_hash():
    kernels = {}
    for module in pkgutil.walk_packages(copter.__path__, "copter."):
        if module.name.startswith("copter.live."):
            continue  # no kernels, and packages that may be missing
        for value in list(vars(importlib.import_module(module.name)).values()):
            if isinstance(value, Kernel) and value.py_func.__module__.startswith("copter."):
                kernels[value.py_func] = value
    assert len(kernels) > 50
    for function in kernels:
        for name in names_of(function.__code__):
            value = function.__globals__.get(name)
            home = value.__name__ if isinstance(value, ModuleType) else getattr(value, "__module__", None)
            outside = home is not None and not home.startswith("copter")
            seen = isinstance(value, Kernel | Intrinsic | np.ndarray | type)
            seen |= kernel_cache._is_constant(value)
            assert value is None or outside or seen, (function, name)
