"""The run folder: what it holds, what it refuses, and what an interrupted run leaves behind."""

import csv
import json

import pytest

from copter.bench.report.model import Claim
from copter.cli.command import RunOptions
from copter.cli.plots import over_time
from copter.cli.run import Run
from copter.cli.runfolder import Rows, RunFolderError

FILES = {"jobs.csv": Rows("a row per job", {"name": "the job's name"}, "something else")}


def make(path, **how):
    return Run(RunOptions(out=path, **how), "jobs", "A <run>", FILES)


def test_readme_explains_every_file_and_column(tmp_path):
    queue = over_time("queue", [0, 1], {"a": [1, 2], "b": [2, 1]}, "jobs", "Queue")
    with make(tmp_path) as run:
        run.write("jobs.csv", {"name": "a", "age": 3})
        run.end({"gap": float("nan")}, [], lambda: [Claim("load", "Load", pictures=(queue,))])
    readme = (tmp_path / "README.txt").read_text()
    for path in tmp_path.iterdir():
        assert path.name == "README.txt" or path.name in readme
    assert "name: the job's name" in readme and "age: something else" in readme
    page = (tmp_path / "report.html").read_text()
    assert "<h1>A &lt;run&gt;</h1>" in page and '<figure id="queue">' in page
    assert "INCOMPLETE" not in readme
    assert json.loads((tmp_path / "summary.json").read_text())["gap"] is None


def test_an_interrupted_run_says_so(tmp_path):
    with pytest.raises(KeyboardInterrupt), make(tmp_path):
        raise KeyboardInterrupt
    assert "INCOMPLETE: the run ended early (KeyboardInterrupt)" in (tmp_path / "README.txt").read_text()


def test_an_earlier_run_is_replaced_by_force_and_other_content_never_is(tmp_path):
    with make(tmp_path / "run"):
        pass
    config = (tmp_path / "run" / "config.json").read_bytes()
    with pytest.raises(RunFolderError, match="contains an earlier run.*--force"):
        make(tmp_path / "run")
    assert (tmp_path / "run" / "config.json").read_bytes() == config
    with make(tmp_path / "run", force=True):
        pass
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.tex").touch()
    with pytest.raises(RunFolderError, match="contains other files than a run"):
        make(tmp_path / "mine", force=True)
    (tmp_path / "file").touch()
    with pytest.raises(RunFolderError, match="is a file"):
        make(tmp_path / "file")


def test_rows_are_on_disk_before_the_run_ends(tmp_path):
    with make(tmp_path) as run:
        run.write("jobs.csv", {"name": "a"})
        with (tmp_path / "jobs.csv").open() as file:
            assert list(csv.DictReader(file)) == [{"name": "a"}]
