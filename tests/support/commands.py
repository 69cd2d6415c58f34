"""The commands of copter, in this process."""

from __future__ import annotations

from click.testing import Result
from typer.testing import CliRunner

from copter.cli.main import app


def invoke(*arguments: object, code: int = 0) -> Result:
    """Run a command that ends with an exit code."""
    result = CliRunner().invoke(app, list(map(str, arguments)))
    assert result.exit_code == code, (result.output, result.exception)
    return result


def words(result: Result) -> str:
    """All that was printed, without line breaks and frames."""
    return " ".join(result.output.replace("│", " ").split())
