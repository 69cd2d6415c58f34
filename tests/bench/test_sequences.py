"""Exported sequences of LPs: an independent reader of the format, HiGHS from scratch, and the runner."""

from __future__ import annotations

import json
import math
import subprocess
import sys
from collections.abc import Iterable, Iterator
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from copter import ContinualProgram
from copter.bench.recording import Recorder
from copter.bench.sequences import NamedRounds, Round, rounds_of, write_sequence
from copter.errors import CopterError, SolverError
from support.commands import invoke, words
from support.random_programs import random_edits, random_program

ROOT = Path(__file__).parents[2]
RUNNER, PAGE = ROOT / "docs/examples/solve_sequence.py", ROOT / "docs/reference/lp-sequences.md"
LINES = ("columns-quick", "exact-128", "shards-24", "sia-quick", "traffic-quick")
"""Lines of different kinds: recorded, generated, and with rounds that depend on the last answer."""
KINDS = ("remove_columns", "remove_rows", "costs", "bounds", "sides", "add_rows", "add_columns")
FILES = ("sequence.json", "round0.mps", "rounds.jsonl")


def written(name: str, folder: Path, rounds: int | None = None, seed: int = 0) -> int:
    return write_sequence(name, rounds_of(name, rounds, seed), folder, seed)


def named(programs: Iterable[ContinualProgram]) -> Iterator[Round]:
    names = NamedRounds()
    return (names.take(program) for program in programs)


def lines(folder: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (folder / "rounds.jsonl").read_text().splitlines()]


def run(folder: Path, *options: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-I", str(RUNNER), str(folder), *options]
    return subprocess.run(command, capture_output=True, text=True)


def check(folder: Path, rounds: int) -> None:
    """The runner, which has nothing of copter, finds the certified optimum of every round."""
    header, every = json.loads((folder / "sequence.json").read_text()), lines(folder)
    assert header["rounds"] == rounds and [line["round"] for line in every] == list(range(1, rounds))
    for line in (header, *every):
        optimum = line["optimum"]
        gap = abs(optimum["objective"] - optimum["bound"]) / max(1.0, abs(optimum["objective"]))
        assert gap <= 1e-8
    ran = run(folder)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert [line.split()[0] for line in ran.stdout.splitlines() if " s " in line] == list(
        map(str, range(rounds))
    )


@pytest.mark.parametrize("name", LINES)
def test_the_runner_finds_the_certified_optima(name: str, tmp_path: Path) -> None:
    assert written(name, tmp_path / name, 4, seed=3) == 4
    check(tmp_path / name, 4)


def test_the_runner_exits_with_1_if_an_optimum_is_wrong(tmp_path: Path) -> None:
    folder = tmp_path / "one"
    written("traffic-quick", folder, 4, seed=1)
    every = lines(folder)
    every[1]["optimum"]["objective"] *= 1 + 2e-6
    (folder / "rounds.jsonl").write_text("".join(json.dumps(line) + "\n" for line in every))
    assert run(folder).returncode == 1


@pytest.mark.parametrize("name", LINES)
def test_equal_seeds_give_equal_files(name: str, tmp_path: Path) -> None:
    for run_name, seed in (("a", 5), ("b", 5), ("c", 6)):
        written(name, tmp_path / run_name, 3, seed)
    for file in FILES:
        assert (tmp_path / "a" / file).read_bytes() == (tmp_path / "b" / file).read_bytes()
    assert (tmp_path / "a/rounds.jsonl").read_bytes() != (tmp_path / "c/rounds.jsonl").read_bytes()


@pytest.mark.parametrize("name", ["lp-quick", "shockwave-30"])
def test_a_line_without_one_linear_program_is_refused(name: str, tmp_path: Path) -> None:
    with pytest.raises(CopterError, match="program of requests"):
        written(name, tmp_path / "one")
    assert not (tmp_path / "one/sequence.json").exists()


# ---- programs that are edited at random -------------------------------------------------------------------


def random_rounds(seed: int, rounds: int) -> Iterator[ContinualProgram]:
    """Rounds of random edits, after some of which columns that stay use a resource that is new."""
    program, rng, fresh = random_program(seed), np.random.default_rng(seed), count(100)
    for k in range(rounds):
        yield program
        random_edits(program, rng, fresh)
        if k % 3 == 1:
            id = program.request_ids[0]
            program.add_resource(("new", k), upper=20.0)
            costs = program.requests[id].costs
            program.update_request(id, costs=costs, usage={("new", k): np.ones(costs.size)}, upper=1.5)


def test_every_kind_of_edit_is_exported(tmp_path: Path) -> None:
    write_sequence("random", named(random_rounds(7, 40)), tmp_path / "random", seed=0)
    made = {kind: sum(len(line[kind]) for line in lines(tmp_path / "random")) for kind in KINDS}
    assert all(made.values()), made
    check(tmp_path / "random", 40)


# ---- recordings, domains and errors -----------------------------------------------------------------------


def test_a_recording_is_exported(tmp_path: Path) -> None:
    with Recorder(tmp_path / "My rounds.copter") as program:
        program.add_resource("gpu", upper=8)
        for k in range(5):
            program.add_request(k, [-1.0 - k, -2.0], {"gpu": [1.0, 2.0]}, total=3)
            program.end_round()
    assert written(str(tmp_path / "My rounds.copter"), tmp_path / "out") == 5
    assert run(tmp_path / "out").returncode == 0


def test_an_optimum_that_cannot_be_certified_is_an_error(tmp_path: Path) -> None:
    def infeasible() -> Iterator[ContinualProgram]:
        program = ContinualProgram()
        program.add_resource("r", lower=1.0, upper=math.inf)
        program.add_request("q", [1.0], {"r": 1.0}, upper=2.0)
        yield program
        program.update_resources("r", lower=3.0)
        yield program

    with pytest.raises(SolverError, match="bad, round 1: the optimum cannot be certified: infeasible"):
        write_sequence("bad", named(infeasible()), tmp_path / "bad", 0)
    assert not (tmp_path / "bad/sequence.json").exists()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["sia-quic", "out"], "did you mean sia-quick?"),
        (["sia-quick", "out", "--rounds", "0"], "greater than or equal to 1"),
        (["sia-quick"], "Missing argument 'FOLDER'"),
    ],
)
def test_wrong_arguments(arguments: list[str], message: str, tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.chdir(tmp_path)
    assert message in words(invoke("bench", "export", *arguments, code=2))
    assert not (tmp_path / "out").exists()


def test_a_folder_with_files_and_no_folder(tmp_path: Path) -> None:
    (tmp_path / "old").write_text("")
    for folder in (tmp_path, tmp_path / "old"):
        assert "not an empty folder" in words(invoke("bench", "export", "sia-quick", folder, code=2))


def test_the_page_names_every_key(tmp_path: Path) -> None:
    page = PAGE.read_text()
    written("sia-quick", tmp_path / "one", 2)
    header = json.loads((tmp_path / "one/sequence.json").read_text())
    for key in {*header, *lines(tmp_path / "one")[0], *header["optimum"]}:
        assert f"`{key}`" in page, key
