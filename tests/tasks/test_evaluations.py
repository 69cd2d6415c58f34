"""Evaluations give the same rows here, in processes and on Ray, and POP the same answers on its actors."""

import csv
import sys

import pytest

from copter.bench.reproduction import Effort
from copter.cli.main import main
from copter.tasks.processes import Processes
from copter.tasks.tasks import Here
from support.commands import invoke
from support.sample_tasks import reproduce

SMALL = "--trace philly --jobs 8 --max-hours 3 --policy".split()
WAYS = {"here": [], "processes": ["--processes", "2"], "ray": ["--ray"]}
#: Fields of records that are seconds, or follow from them.
TIMED = ("t_", "policy_", "edit_", "solve_", "rounding_", "accept_", "store_", "certify_")
TIMED += ("calibration_", "parallel_")


def untimed(row):
    own = {name: value for name, value in row.items() if not name.startswith(TIMED)}
    if "edit_seconds" in row:  # of a round of a solver; in other rows `seconds` is simulated time
        del own["seconds"]
    return own


def rows(path):
    with open(path, newline="") as file:
        return [untimed(row) for row in csv.DictReader(file)]


@pytest.mark.cluster
@pytest.mark.parametrize("policies", ["srtf,tiresias", pytest.param("srtf,sia", marks=pytest.mark.long)])
def test_runs_write_the_same_rows_wherever_they_are_played(local_ray, tmp_path, policies):
    for way, words in WAYS.items():
        invoke("run", "cluster", *SMALL, policies, "--out", str(tmp_path / way), *words)
    for name in ("rounds.csv", "jobs.csv", "allocations.csv"):
        here = rows(tmp_path / "here" / name)
        assert len({(row["policy"], row["seed"]) for row in here}) == 2
        assert rows(tmp_path / "processes" / name) == here
        assert rows(tmp_path / "ray" / name) == here


def test_a_failing_run_is_named(tmp_path, monkeypatch, capsys):
    workload = tmp_path / "jobs.csv"
    workload.write_text("name,time,application\na,0,no-such-model\n")
    words = ["copter", "run", "cluster", "--trace", str(workload), "--processes", "1", "--json"]
    monkeypatch.setattr(sys, "argv", words)
    with pytest.raises(SystemExit) as end:
        main()
    assert end.value.code == 1
    said = " ".join(capsys.readouterr().err.split())
    assert "jobs.csv" in said and "in sia, seed 0" in said


@pytest.mark.parametrize("words", [["--ray", "nowhere", "--json"], ["--ray", "--processes", "2"]])
def test_what_is_no_place_is_a_usage_error(words):
    invoke("run", "cluster", *words, code=2)


def test_without_ray_the_extra_is_named(monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, "ray", None)
    monkeypatch.delitem(sys.modules, "copter.tasks.on_ray", raising=False)
    monkeypatch.setattr(sys, "argv", ["copter", "run", "cluster", "--ray", "--json"])
    with pytest.raises(SystemExit) as end:
        main()
    assert end.value.code == 1
    assert "python -m pip install '.[ray]'" in " ".join(capsys.readouterr().err.split())


@pytest.mark.cluster
def test_reproductions_play_the_same_and_say_the_same(on_ray):
    cases, found, said = [("static", 1), ("dynamic", 2)], [], []
    for spread in (Here(), Processes(2), on_ray):
        lines = []
        effort = Effort(seeds=3, seed=5, quick=True, say=lines.append, spread=spread)
        found.append(effort.each(reproduce, cases))
        said.append(sorted(lines))
    assert found[0] == found[1] == found[2] and len(found[0]) == 2
    assert said[0] == said[1] == said[2] == ["dynamic: 3 samples from 5 on", "static: 3 samples from 5 on"]
