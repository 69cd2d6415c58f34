"""`copter bench updates`: what an edit costs against building the same matrix again."""

from __future__ import annotations

from typing import Annotated

import typer

from copter.cli.console import errors, save_json, seconds, table
from copter.cli.options import JsonPath, Seed

_SMALLEST = 1000


_EXAMPLES = """\b
Examples:
  copter bench updates
  copter bench updates --sizes 100000,1000000 --json updates.json
"""


def register(run: typer.Typer, bench: typer.Typer) -> None:
    """Add the commands of this module."""
    bench.command("updates", epilog=_EXAMPLES)(updates)


def updates(
    sizes: Annotated[
        str, typer.Option(help="Numbers of columns, separated by commas.")
    ] = "100000,300000,1000000,3000000,10000000",
    json_path: JsonPath = None,
    seed: Seed = 0,
) -> None:
    """Time edits of 1% of the requests against building the CSR of all of them with scipy.

    \f

    Parameters
    ----------
    sizes : str
        Numbers of columns, separated by commas.
    json_path : Path, optional
        For the JSON document; ``-`` is standard output.
    seed : int
    """  # noqa: D301
    columns = _sizes(sizes)
    from copter.bench.machine import machine
    from copter.bench.updates import RATIOS, measure_updates

    records = measure_updates(columns, seed, lambda size: errors().print(f"measuring {size:,} columns"))
    document = {
        "machine": machine(),
        "settings": {"sizes": columns, "seed": seed},
        "records": records,
        "summary": {
            **{f"smallest_{ratio}": min(record[ratio] for record in records) for ratio in RATIOS},
            "per_edit_largest_over_smallest_size": records[-1]["t_per_edit"] / records[0]["t_per_edit"],
        },
    }
    if json_path is not None:
        save_json(document, json_path)
        if str(json_path) == "-":
            return
    table(
        "1% of the requests edited in place, against scipy building the CSR of all requests",
        (
            "columns",
            "nonzeros",
            "edits",
            "on a template",
            "costs",
            "own columns",
            "one edit",
            "COO to CSR",
            "CSC to CSR",
            "COO / template, costs, own",
            "CSC / template, costs, own",
        ),
        (
            (
                f"{record['n_variables']:,}",
                f"{record['nnz']:,}",
                str(record["edits"]),
                seconds(record["t_edit"]),
                seconds(record["t_edit_costs"]),
                seconds(record["t_edit_own"]),
                seconds(record["t_per_edit"]),
                seconds(record["t_csr_rebuild"]),
                seconds(record["t_csr_from_csc"]),
                *(
                    ", ".join(f"{record[ratio]:.3g}x" for ratio in RATIOS if ratio.startswith(build))
                    for build in ("rebuild", "csc")
                ),
            )
            for record in records
        ),
    )


def _sizes(text: str) -> list[int]:
    sizes = []
    for part in text.split(","):
        try:
            size = int(part.strip().replace("_", ""))
        except ValueError:
            raise typer.BadParameter(
                f"{part.strip()!r} is no whole number; give sizes like 100000,1000000", param_hint="--sizes"
            ) from None
        if size < _SMALLEST:
            raise typer.BadParameter(
                f"{size} is too small: use at least {_SMALLEST} columns", param_hint="--sizes"
            )
        sizes.append(size)
    return sorted(sizes)
