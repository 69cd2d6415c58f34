"""All folders of the package are installed, and an extra that is missing is named."""

import importlib
import subprocess
import sys
import tomllib
from importlib.metadata import version
from pathlib import Path

import pytest

import copter
from copter.errors import MissingExtraError

ROOT = Path(__file__).parents[1]


@pytest.fixture(scope="module")
def project():
    return tomllib.loads((ROOT / "pyproject.toml").read_text())


def test_every_folder_of_code_is_a_package():
    """Packages are found by their __init__.py."""
    for file in (ROOT / "copter").rglob("*.py"):
        assert (file.parent / "__init__.py").exists(), file


def test_the_version_is_one(project):
    assert version("copter-opt") == project["project"]["version"] == copter.__version__


def run(*arguments, **options):
    return subprocess.run([sys.executable, *arguments], capture_output=True, text=True, **options)


def test_the_core_works_without_any_extra(tmp_path):
    result = run(str(ROOT / "tests/light_core.py"), "--hide", cwd=tmp_path)
    assert result.returncode == 0, result.stderr
    assert result.stdout.splitlines() == [
        "ortools is not installed; in a checkout: python -m pip install '.[baselines]'",
        "networkx is not installed; in a checkout: python -m pip install '.[traffic]'",
        "prometheus_client is not installed; in a checkout: python -m pip install '.[metrics]'",
        "cvxpy is not installed; in a checkout: python -m pip install '.[cvxpy]'",
    ]


def test_the_command_without_its_extra_says_so_in_one_line(tmp_path):
    code = "import sys; sys.modules['typer'] = None; from copter.__main__ import main; main()"
    result = run("-c", code, cwd=tmp_path)
    assert (result.returncode, result.stdout) == (1, "")
    assert result.stderr == "copter: typer is not installed; in a checkout: python -m pip install '.[cli]'\n"


def test_an_import_error_of_our_own_is_not_blamed_on_an_extra():
    from copter.extras import extra

    with pytest.raises(ModuleNotFoundError, match="nowhere") as found, extra("cli"):
        importlib.import_module("copter.nowhere")
    assert not isinstance(found.value, MissingExtraError)


def test_every_requirement_of_an_extra_is_in_all_and_dev(project):
    extras = project["project"]["optional-dependencies"]
    (everything,) = extras["all"]
    named = set(everything.partition("[")[2].rstrip("]").split(","))
    assert named == set(extras) - {"all", "dev", "docs", "torch"}  # torch is as large as all others
    assert "copter-opt[all]" in extras["dev"]
