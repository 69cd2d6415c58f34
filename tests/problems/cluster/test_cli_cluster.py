"""`copter run cluster` and `copter bench cluster` as a user types them."""

import json
import re

import pytest
from typer.testing import CliRunner

from copter.cli.main import app

KEYS = (
    "average_jct_hours p50_jct_hours p99_jct_hours makespan_hours gpu_hours_per_job restarts_per_job "
    "worst_ftf unfair_fraction utilisation policy_p50_s policy_p99_s jobs_completed"
).split()
SMALL = ["--cluster", "heterogeneous-64", "--trace", "philly", "--jobs", "16"]


@pytest.fixture
def copter():
    def run(*words, code=0):
        result = CliRunner().invoke(app, list(words), catch_exceptions=False)
        assert result.exit_code == code, result.output
        return result

    return run


def test_json_has_every_figure_with_its_spread(copter):
    result = copter("run", "cluster", *SMALL, "--policy", "srtf,gavel", "--seeds", "2", "--json")
    policies = json.loads(result.stdout)["policies"]
    assert list(policies) == ["srtf", "gavel"]
    for one in policies.values():
        for key in KEYS:
            assert one[key] is not None and one[f"{key}_std"] >= 0
        assert one["jobs_completed"] > 0
        assert 0 < one["p50_jct_hours"] <= one["p99_jct_hours"] <= one["makespan_hours"]


def test_the_same_seed_gives_the_same_folder(copter, tmp_path):
    for name in ("a", "b"):
        copter("run", "cluster", *SMALL, "--policy", "sia", "--out", str(tmp_path / name))
    for name in ("jobs.csv", "allocations.csv"):
        assert (tmp_path / "a" / name).read_bytes() == (tmp_path / "b" / name).read_bytes()


def test_the_report_is_one_page_that_needs_nothing_else(copter, tmp_path):
    copter("run", "cluster", *SMALL, "--policy", "srtf,tiresias", "--out", str(tmp_path / "run"))
    page = (tmp_path / "run" / "report.html").read_text()
    assert "<svg" in page and "data:image/png;base64," in page and "tiresias" in page
    assert not re.findall(r'(?:src|href)="(?!data:|#)', page)
    assert "report.html" in (tmp_path / "run" / "README.txt").read_text()


def test_a_sweep_has_a_row_for_each_value_and_policy(copter):
    words = ["--policy", "srtf,srsf", "--sweep", "jobs", "--values", "8,16", "--json", "-"]
    results = json.loads(copter("bench", "cluster", *words).stdout)["results"]
    assert [(one["value"], one["policy"]) for one in results] == [
        (8, "srtf"),
        (8, "srsf"),
        (16, "srtf"),
        (16, "srsf"),
    ]


def test_settings_of_a_policy_are_set_and_unknown_ones_named(copter):
    copter("run", "cluster", *SMALL, "--policy", "sia", "--set", "sia.p=-1", "--json")
    result = CliRunner().invoke(app, ["run", "cluster", *SMALL, "--policy", "sia", "--set", "sia.nonsense=1"])
    assert result.exit_code != 0 and "nonsense" in str(result.exception or result.output)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--policy", "nobody"], "nobody"),
        (["--cluster", "nowhere"], "nowhere"),
        (["--trace", "nothing"], "nothing"),
        (["--estimator", "crystal-ball"], "crystal-ball"),
        (["--set", "sia"], "POLICY.SETTING=VALUE"),
    ],
)
def test_a_wrong_word_is_named(words, said):
    result = CliRunner().invoke(app, ["run", "cluster", *words, "--json"])
    assert result.exit_code != 0
    assert said in result.output + str(result.exception)
