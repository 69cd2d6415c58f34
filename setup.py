"""The folders install as one package, so that nothing lands in site-packages as a bare `solvers`."""

from pathlib import Path

from setuptools import setup

ROOT = Path(__file__).parent
FOLDERS = {name: f"copter.{name}" for name in ("bench", "live", "problems", "shims", "solvers")} | {
    "copter": "copter"
}

packages = {}
for folder, package in FOLDERS.items():
    for marker in sorted((ROOT / folder).rglob("__init__.py")):
        inner = marker.parent.relative_to(ROOT / folder).parts
        packages[".".join((package, *inner))] = "/".join((folder, *inner))

setup(packages=sorted(packages), package_dir=packages)
