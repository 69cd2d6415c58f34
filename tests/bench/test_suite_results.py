"""The folder of a suite: what is written is what is read, strictly and at once."""

import json
import math
from dataclasses import replace

import pytest

from copter.bench.result_files import LineResult, SolverResult, SuiteResult, load_suite
from copter.errors import FileError
from support.sample_suite import save


def record(number, **more):
    return {"solver": "copter", "round": number, "seconds": 0.125, "certified": True, **more}


@pytest.fixture
def suite():
    solver = SolverResult(
        "copter",
        "copter",
        2,
        "measured",
        records=[record(0, gap=math.nan, objective=-1.23456789012345e6), record(1, gap=2.5e-7)],
        peak_memory_mb=80.5,
        stopping={"tolerance": 1e-6},
    )
    line = LineResult(
        "sia-64", "sia", "Sia", "copter bench sia", 1e-4, 2, 2, 1, 60.0, {"columns": 740.0}, "a checker"
    )
    line = replace(line, order=("copter", "glop"), solvers={"copter": solver})
    return SuiteResult(
        "quick", "0.1", {"cores": 2}, {"threads": 2}, "2026-01-01", 3.5, ("sia-64", "lp"), {"sia-64": line}
    )


def test_what_is_read_is_what_was_written(tmp_path, suite):
    save(tmp_path, suite)
    found = load_suite(tmp_path)
    assert not found.complete
    ours = found.lines["sia-64"].solvers["copter"]
    first, second = ours.records
    assert math.isnan(first["gap"]) and math.isnan(second["objective"])
    assert first["objective"] == -1.23456789012345e6 and second["gap"] == 2.5e-7
    assert math.isnan(ours.compile_seconds) and ours.peak_memory_mb == 80.5
    same = replace(ours, records=[], compile_seconds=0.0, seconds=0.0)
    line = replace(found.lines["sia-64"], solvers={"copter": same})
    wanted = suite.lines["sia-64"]
    assert line == replace(
        wanted,
        solvers={"copter": replace(wanted.solvers["copter"], records=[], compile_seconds=0.0, seconds=0.0)},
    )
    assert replace(found, lines={}) == replace(suite, lines={})


def test_the_files_are_strict_json(tmp_path, suite):
    save(tmp_path, suite)

    def refuse(constant):
        raise AssertionError(constant)

    files = list(tmp_path.rglob("*.json"))
    assert len(files) == 3 == sum(1 for path in tmp_path.rglob("*") if path.is_file())
    for path in files:
        json.loads(path.read_text(), parse_constant=refuse)


def test_a_folder_that_is_none_is_named(tmp_path, suite):
    with pytest.raises(FileError, match="must contain suite.json"):
        load_suite(tmp_path)
    save(tmp_path, suite)
    (tmp_path / "lines" / "sia-64" / "copter.json").write_text('{"solver": "copter"}')
    with pytest.raises(FileError, match="copter.json"):
        load_suite(tmp_path)
