"""Every file of the gallery runs as it is, keeps what a domain promises, and comes to what HiGHS comes to."""

from __future__ import annotations

import os
import runpy
import subprocess
import sys
from pathlib import Path
from typing import Any

import matplotlib
import matplotlib.pyplot as plt
import numpy as np
import pytest

from copter import Rounds, make_solver
from copter.rounds.check import check_domain
from copter.rounds.named import domain_named
from support.amounts import longer, some

ROOT = Path(__file__).parents[2]
FILES = sorted(
    file for file in (ROOT / "docs/examples").glob("*.py") if file.stem != "solve_sequence"
)  # that one solves LPs, and has no domain
EACH = pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
ROUNDS = 12


@pytest.fixture(autouse=True)
def files_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """A domain that is named by its file puts the folder on the path of modules: only during a test."""
    monkeypatch.setattr(sys, "path", list(sys.path))


def domain_of(file: Path) -> Any:
    """The class that a file calls DOMAIN."""
    return domain_named(f"{file}:DOMAIN")


@EACH
def test_a_file_is_short(file: Path) -> None:
    assert len(file.read_text().splitlines()) <= 80


@EACH
def test_a_file_is_in_the_gallery_with_its_picture(file: Path) -> None:
    page = (ROOT / "docs/tutorial/gallery.md").read_text()
    picture = f"examples/pictures/{file.stem}.svg"
    assert f"python docs/examples/{file.name}" in page and picture in page
    assert (ROOT / "docs" / picture).is_file()


@pytest.mark.parametrize("file", some(1, FILES), ids=lambda file: file.stem)
def test_the_script_plays_rounds_and_draws(file: Path, tmp_path: Path) -> None:
    picture = tmp_path / "picture.svg"
    command = [sys.executable, str(file), "--rounds", "5", "--picture", str(picture)]
    environment = os.environ | {"MPLBACKEND": "agg"}
    ran = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True)
    assert ran.returncode == 0, ran.stderr
    assert "copter" in ran.stdout and "highs-hot" in ran.stdout
    assert picture.read_text().startswith("<?xml")


@pytest.mark.parametrize("file", FILES[1:], ids=lambda file: file.stem)
def test_the_script_does_so_in_this_process(
    file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The imports of all scripts take longer than what they do."""
    picture = tmp_path / "picture.svg"
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", [str(file), "--rounds", "5", "--picture", str(picture)])
    monkeypatch.syspath_prepend(str(file.parent))
    matplotlib.use("agg")
    runpy.run_path(str(file), run_name="__main__")
    plt.close("all")
    said = capsys.readouterr().out
    assert "copter" in said and "highs-hot" in said
    assert picture.read_text().startswith("<?xml")


@pytest.mark.parametrize(("rounds", "bounds"), [(7, 2), longer(28, 14)])
@EACH
def test_the_domain_keeps_what_a_domain_promises(file: Path, rounds: int, bounds: int) -> None:
    counts = check_domain(domain_of(file), rounds=rounds, seed=0)
    assert counts["events"] > rounds and counts["bound"] > bounds and counts["refused"]


@EACH
def test_objectives_are_those_of_highs_within_the_certified_gap(file: Path) -> None:
    """HiGHS solves the same programs: what a domain charges may depend on its answers so far."""
    rounds, highs, rng = Rounds(domain_of(file)()), make_solver("highs-hot"), np.random.default_rng(1)
    for _ in range(ROUNDS):
        mine, exact = rounds.play(*rounds.domain.events(rng)), highs.solve(rounds.domain.program)
        assert mine.path == "solved" and mine.solution is not None
        size = max(1.0, abs(exact.objective))
        assert abs(mine.solution.objective - exact.objective) <= (mine.solution.gap + 1e-6) * size
        sign = -1.0 if rounds.domain.program.sense == "max" else 1.0
        assert sign * (mine.answer.objective - exact.objective) >= -1e-6 * size
        worse = sign * (mine.answer.objective - mine.bound)
        assert worse <= (mine.gap + 1e-6) * max(size, abs(mine.objective), mine.solution.gap_denominator)
