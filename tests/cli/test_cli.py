"""The command line: what it prints, what it refuses, and with which exit code."""

import csv
import json
import subprocess
import sys

import pytest

from copter.cli.main import main
from support.commands import invoke, words

SUMMARY = {"average_jct_hours", "p99_jct_hours", "makespan_hours", "jobs_completed", "restarts_per_job"}
SUMMARY |= {"utilisation", "policy_p50_s", "policy_p99_s", "gap_max"}
TINY = ["run", "sia", "--gpus", "64", "--jobs-per-day", "240", "--hours", "0.5", "--max-hours", "0.6"]


@pytest.mark.parametrize("group", [(), ("run",), ("bench",)])
def test_a_command_without_arguments_prints_its_help(group, capsys, monkeypatch):
    from copter.__main__ import main

    monkeypatch.setattr("sys.argv", ["copter", *group])
    with pytest.raises(SystemExit):
        main()
    assert "Usage: " in "".join(capsys.readouterr())


@pytest.fixture
def copter(monkeypatch, capfd):
    """The command as a user runs it, in this process: exit code, standard output and standard error."""

    def run(*arguments):
        monkeypatch.setattr(sys, "argv", ["copter", *map(str, arguments)])
        capfd.readouterr()
        with pytest.raises(SystemExit) as ended:
            main()
        return (ended.value.code or 0, *capfd.readouterr())

    return run


HEAVY = {"numpy", "numba", "scipy", "highspy", "ortools", "pandas", "matplotlib", "cvxpy", "rich"}


@pytest.mark.parametrize("arguments", [["--help"], ["run", "sia", "--help"], ["solvers", "--json"]])
def test_help_imports_nothing_heavy(arguments, tmp_path):
    """Help answers at once because it waits for no solver's import."""
    command = [sys.executable, "-X", "importtime", "-m", "copter.cli.main", *arguments]
    result = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path)
    assert result.returncode == 0 and result.stdout
    imported = {line.rpartition("|")[2].strip().partition(".")[0] for line in result.stderr.splitlines()}
    assert {"copter", "typer"} <= imported
    assert not imported & HEAVY


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["run", "sia", "--solver", "coptr"], "did you mean copter?"),
        (["run", "sia", "--solver", "zzz"], "highs-hot"),
        (["run", "sia", "--workload", "nowhere.csv"], "nowhere.csv is not a file"),
        (["run", "sia", "--workload", __file__], "--profiles: must be given with --workload"),
        (["run", "sia", "--profiles", "."], "--workload: must be given with --profiles"),
        (["run", "sia", "--profiles", __file__], "must be the folder with the"),
        (
            ["run", "sia", "--workload", __file__, "--profiles", ".", "--jobs-per-day", "9"],
            "is for generated jobs only",
        ),
        (["run", "sia", "--gpus", "-3"], "--gpus"),
        (["run", "sia", "--hours", "-1"], "must be greater than 0"),
        (["run", "sia", "--tolerance", "2"], "above 0 and below 1"),
        (["bench", "sia", "--solvers", "copter,higs-hot"], "did you mean highs-hot"),
        (["bench", "sia", "--solvers", ","], "at least one solver"),
        (["--log-level", "loud", "solvers"], "debug, info, warning or error"),
        (["run", "mars"], "mars"),
    ],
)
def test_wrong_arguments_exit_with_2_and_say_what_to_do(arguments, said):
    result = invoke(*arguments, code=2)
    assert said in words(result)


def test_json_is_one_object_and_nothing_else_on_standard_output(tmp_path):
    """In a process of its own, where also what a library prints would be seen."""
    command = [sys.executable, "-m", "copter.cli.main", *TINY, "--seed", "3", "--json"]
    result = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, check=True)
    summary = json.loads(result.stdout)["policies"]
    assert set(summary["sia"]) >= SUMMARY and "fcfs" in summary
    assert summary["sia"]["gap_max"] <= 1e-4
    assert list(tmp_path.iterdir()) == []  # a folder is written only if one is named


def test_run_folder_holds_the_whole_run(copter, tmp_path):
    folder = tmp_path / "run"
    code, out, _ = copter(*TINY, "--out", folder)
    assert code == 0 and "average JCT" in out
    names = {path.name for path in folder.iterdir()}
    assert names == {
        "README.txt",
        "report.html",
        "config.json",
        "versions.json",
        "rounds.csv",
        "jobs.csv",
        "allocations.csv",
        "summary.json",
    }
    config = json.loads((folder / "config.json").read_text())
    assert config["seed"] == 0 and "--jobs-per-day 240" in config["command"]
    with (folder / "rounds.csv").open() as file:
        rounds = [row for row in csv.DictReader(file) if row["policy"] == "sia"]
    assert len(rounds) == json.loads((folder / "summary.json").read_text())["policies"]["sia"]["rounds"]
    assert {"running", "gpus", "solve_seconds", "gap", "churn"} <= set(rounds[0])
    with (folder / "jobs.csv").open() as file:
        assert len([row for row in csv.DictReader(file) if row["policy"] == "sia"]) == 5


def test_a_document_is_printed_or_in_a_file(copter, tmp_path):
    assert "copter" in json.loads(copter("solvers", "--json")[1])
    path = tmp_path / "new" / "solvers.json"
    assert "Solvers" in copter("solvers", "--json", path)[1] and "copter" in json.loads(path.read_text())
    assert "none.mps is not a file" in copter("solve", "--json", tmp_path / "none.mps")[2]
