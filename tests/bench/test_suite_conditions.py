"""A folder of results goes on only under the conditions that it began with, and says how to do it again."""

import json
import shlex
from dataclasses import fields, replace

import pytest

from copter.bench import suite
from copter.bench.conditions import contents, rerun
from copter.bench.suite import Suite, SuiteSettings
from copter.cli.suite import SuiteOptions
from copter.errors import CopterError
from support.sample_suite import sample

SETTINGS = SuiteSettings("quick", 3, limit=0.25, seconds=1.5, seed=7, rounds=4)


@pytest.fixture
def folders(tmp_path):
    """Two folders of inputs with the same files, and one with other contents of the same length."""
    made = [tmp_path / name for name in ("one", "same", "other")]
    for folder, text in zip(made, ("abc", "abc", "abd"), strict=True):
        (folder / "deep").mkdir(parents=True)
        (folder / "deep" / "net.graphml").write_text(text)
    return made


def test_a_folder_is_told_by_what_is_in_it(folders):
    one, same, other = map(contents, folders)
    assert one == same != other and "/" not in one
    (folders[1] / "deep" / "net.graphml").rename(folders[1] / "net.graphml")
    assert contents(folders[1]) != one


def test_other_conditions_do_not_go_on(folders, tmp_path, monkeypatch):
    monkeypatch.setattr(suite, "all_cases", lambda *given: [])
    out, (one, same, other) = tmp_path / "out", folders
    Suite(out, replace(SETTINGS, data=one)).run()
    Suite(out, replace(SETTINGS, data=same))
    for wrong, said in ((replace(SETTINGS, data=other), "data 1 files"), (SETTINGS, "not False")):
        with pytest.raises(CopterError, match=said):
            Suite(out, wrong)
    path = out / "suite.json"
    document = json.loads(path.read_text())
    machine = document["machine"]
    for changed, said in (
        ({"version": "0.0.9"}, "version 0.0.9, not"),
        ({"machine": machine | {"processor": "Abacus"}}, "processor Abacus, not"),
        ({"machine": machine | {"versions": machine["versions"] | {"numpy": "1.0"}}}, "numpy 1.0, not"),
    ):
        path.write_text(json.dumps(document | changed))
        with pytest.raises(CopterError, match=said):
            Suite(out, replace(SETTINGS, data=one))


def test_the_command_of_a_line_has_every_setting(folders, tmp_path):
    settings = replace(SETTINGS, data=folders[0], solvers=("copter", "glop"))
    suite = replace(sample(), settings=json.loads(json.dumps(settings.stated())))
    words = shlex.split(rerun(suite, "sia-64"))
    given = dict(zip(words[3::2], words[4::2], strict=True))
    assert words[:3] == ["copter", "bench", "all"] and str(tmp_path) not in " ".join(words)
    assert given == {
        "--profile": "quick",
        "--only": "sia-64",
        "--threads": "3",
        "--time-limit": "0.25",
        "--budget": "1.5",
        "--seed": "7",
        "--rounds": "4",
        "--solvers": "copter,glop",
        "--data": "NETWORKS",
        "--out": "runs/sia-64",
    }
    again = SuiteOptions(
        out=tmp_path,
        profile="quick",
        seed=7,
        rounds=4,
        limit=0.25,
        budget=1.5,
        threads=3,
        solvers="copter,glop",
    ).suite_settings()
    assert replace(again, data=settings.data) == settings
    stated = set(suite.settings) - {"profile", "lps"}
    assert (
        stated == {one.name for one in fields(SuiteSettings)} - {"profile", "lps"}
        and len(given) == len(stated) + 3
    )
