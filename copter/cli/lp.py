"""`copter bench lp`: a folder of linear programs through the default and the own solver alone."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from copter.cli.console import errors, save_json, seconds, table
from copter.cli.options import JsonPath, positive

_EXAMPLES = """\b
Examples:
  copter bench lp netlib --limit 10 --out netlib.md
  copter bench lp models --json models.json
"""


def register(run: typer.Typer, bench: typer.Typer) -> None:
    """Add the commands of this module."""
    bench.command("lp", epilog=_EXAMPLES)(lp)


def lp(
    folder: Annotated[
        Path,
        typer.Argument(
            exists=True,
            file_okay=False,
            metavar="FOLDER",
            help="MPS and LP files, plain or gzipped, and npz files with the arguments of linprog.",
        ),
    ],
    limit: Annotated[
        float, typer.Option(callback=positive, help="Seconds that each way has for a program.")
    ] = 10.0,
    out: Annotated[Path | None, typer.Option(help="Write the table to this Markdown file.")] = None,
    json_path: JsonPath = None,
) -> None:
    """Solve every linear program of a folder by the default, by copter alone, and by HiGHS for the truth.

    \f

    Parameters
    ----------
    folder : Path
    limit : float
        Seconds that each way has for a program.
    out, json_path : Path, optional
        Files for the table and for the JSON document; of the second, ``-`` is standard output.

    Raises
    ------
    typer.BadParameter
        No program is in the folder.
    """  # noqa: D301
    from copter.bench.lp import files_in, markdown, measure, summary
    from copter.bench.machine import machine

    paths = files_in(folder)
    if not paths:
        raise typer.BadParameter(f"{folder} has no MPS, LP or npz file", param_hint="FOLDER")
    records = measure(paths, limit, lambda line: errors().print(line, markup=False))
    totals = summary(records)
    if out is not None:
        out.parent.mkdir(parents=True, exist_ok=True)
        out.write_text(markdown(records))
    if json_path is not None:
        settings = {"limit": limit, "programs": len(records)}
        save_json(
            {"machine": machine(), "settings": settings, "records": records, "summary": totals}, json_path
        )
        if str(json_path) == "-":
            return
    _print(records, totals)


def _print(records: Sequence[Mapping[str, Any]], totals: Mapping[str, Mapping[str, Any]]) -> None:
    table(
        "Linear programs: status as HiGHS has it, and the time it took",
        ("program", "HiGHS", "", *totals),
        (
            (
                record["name"],
                record["highs"]["status"],
                seconds(record["highs"]["seconds"]),
                *(
                    ("" if record[way]["right"] else f"{record[way]['status']}, ")
                    + seconds(record[way]["seconds"])
                    for way in totals
                ),
            )
            for record in records
        ),
        text_columns=2,
    )
    table(
        "Right within the limit",
        ("way", "optimal", "infeasible", "unbounded", "wrong"),
        (
            (
                way,
                *(f"{one[kind]} of {one[f'of_{kind}']}" for kind in ("optimal", "infeasible", "unbounded")),
                str(one["wrong"]),
            )
            for way, one in totals.items()
        ),
    )
