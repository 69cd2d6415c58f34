"""The run folder: what it holds, what it refuses, and what an interrupted run leaves behind."""

import csv
import json

import pytest

from copter.cli.plots import over_time
from copter.cli.runfolder import RunFolder, RunFolderError


def make(path, **how):
    return RunFolder.create(path, "A run", ["copter", "run", "sia", "--out", "a b"], {"seed": 7}, **how)


def test_readme_explains_every_file_and_column(tmp_path):
    with make(tmp_path) as folder:
        folder.write_rows("jobs.csv", {"name": "the job's name"}, [{"name": "a"}], "a row per job")
        folder.write_json("summary.json", {"gap": float("nan")}, "the figures")
        folder.save_figure(
            "queue.png", over_time([0, 1], {"a": [1, 2], "b": [2, 1]}, "jobs", "Queue"), "queue length"
        )
    readme = (tmp_path / "README.txt").read_text()
    for path in tmp_path.iterdir():
        assert path.name == "README.txt" or path.name in readme
    assert "name: the job's name" in readme
    assert "INCOMPLETE" not in readme
    assert json.loads((tmp_path / "summary.json").read_text()) == {"gap": None}


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
    with make(tmp_path) as folder:
        rows = folder.rows(
            "rounds.csv", {"round": "number of the round", "queue": "jobs without GPUs"}, "a row per round"
        )
        rows.write({"round": 0, "queue": 3})
        with (tmp_path / "rounds.csv").open() as file:
            assert list(csv.DictReader(file)) == [{"round": "0", "queue": "3"}]
