"""The top-level folders are one package, all of it is installed, and it imports lightly."""

import subprocess
import sys
import tomllib
from importlib.metadata import version
from pathlib import Path

import pytest

import copter

ROOT = Path(__file__).parents[1]


@pytest.fixture(scope="module")
def project():
    return tomllib.loads((ROOT / "pyproject.toml").read_text())


def test_every_folder_of_code_is_a_package():
    """Packages are found by their __init__.py (setup.py)."""
    for folder in ("copter", "bench", "problems", "shims", "solvers"):
        for file in (ROOT / folder).rglob("*.py"):
            assert (file.parent / "__init__.py").exists(), file


def test_nothing_is_installed_under_a_bare_name(tmp_path):
    code = (
        "from importlib.util import find_spec; "
        "print([name for name in ('solvers', 'problems', 'shims', 'bench') if find_spec(name)])"
    )
    # -I keeps the working directory and the user's folders off the path.
    result = subprocess.run(
        [sys.executable, "-I", "-c", code], capture_output=True, text=True, cwd=tmp_path, check=True
    )
    assert result.stdout.strip() == "[]"


def test_the_version_is_one(project):
    assert version("copter-opt") == project["project"]["version"] == copter.__version__


@pytest.mark.parametrize("module", ["copter", "copter.cli.main"])
def test_import_loads_nothing_heavy(module, tmp_path):
    heavy = ("numpy", "numba", "scipy", "highspy", "ortools", "cvxpy", "matplotlib", "pandas")
    code = f"import sys, {module}; print([name for name in {heavy} if name in sys.modules])"
    result = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, cwd=tmp_path, check=True
    )
    assert result.stdout.strip() == "[]"
