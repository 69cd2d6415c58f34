"""Commands made of dataclasses: their options, their defaults, and what a document says of them."""

import dataclasses
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import pytest
import typer
from typer.testing import CliRunner

from copter.cli.command import BenchOptions, RunOptions, Solving, command
from copter.cli.options import Tolerance
from copter.cli.solvers import Names


@dataclass(frozen=True, kw_only=True)
class Baking(Solving, RunOptions):
    """Bake bread."""

    flour: Annotated[Path | None, typer.Option(help="Where the flour is.")] = None
    loaves: Annotated[int, typer.Option(min=1)]
    tolerance: Tolerance = 1e-2

    def __post_init__(self):
        if self.loaves == 13:
            raise typer.BadParameter("brings bad luck", param_hint="--loaves")


def bake(*arguments, options=Baking):
    """Options that a command gets, and what it prints."""
    got, app = [], typer.Typer(rich_markup_mode=None)
    app.command("bake")(command(options, got.append))
    return got, CliRunner().invoke(app, list(arguments))


def test_fields_are_options_with_their_defaults():
    got, result = bake("--loaves", "3", "--flour", "mill", "--seed", "5", "--json")
    assert result.exit_code == 0
    assert got == [Baking(loaves=3, flour=Path("mill"), seed=5, as_json=True)]
    with pytest.raises(dataclasses.FrozenInstanceError):
        got[0].loaves = 4


def test_settings_are_what_is_computed_from_and_not_where_it_is_written():
    settings = Baking(loaves=2, flour=Path("mill"), out=Path("here")).settings()
    assert settings == {
        "flour": "mill",
        "loaves": 2,
        "tolerance": 1e-2,
        "mip_gap": 1e-3,
        "deadline": None,
        "threads": None,
        "seed": 0,
    }
    assert list(settings)[:3] == ["flour", "loaves", "tolerance"]  # a command's own first
    assert BenchOptions(solvers=Names(("a", "b"))).settings()["solvers"] == ["a", "b"]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ([], "--loaves"),
        (["--loaves", "0"], "--loaves"),
        (["--loaves", "13"], "brings bad luck"),
        (["--loaves", "1", "--tolerance", "7"], "above 0 and below 1"),
    ],
)
def test_what_is_wrong_is_a_usage_error(arguments, said):
    got, result = bake(*arguments)
    assert result.exit_code == 2 and said in result.output and not got


def test_names_come_from_a_list_each_once():
    got, _ = bake("--solvers", "highs-hot, copter,,highs-hot", "--no-isolate", options=BenchOptions)
    assert got[0].solvers == ("highs-hot", "copter") and str(got[0].solvers) == "highs-hot,copter"
    assert not got[0].isolate
    got, result = bake("--solvers", "copter,coptr", options=BenchOptions)
    assert result.exit_code == 2 and "did you mean copter?" in result.output
