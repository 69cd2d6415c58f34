"""Write docs/scale.md from docs/benchmarks/scale.json, of `copter bench model --json`.

python docs/benchmarks/scale.py
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from build import machine, seconds

HERE = Path(__file__).parent
PAGE = HERE.parent / "scale.md"

INTRODUCTION = """# How large a round can be

Written by `make benchmarks` from `docs/benchmarks/scale.json`, which `make measure` writes: do not edit.
What is measured is labelled so; everything else is predicted by the model below. The command:

```sh
copter bench model --json docs/benchmarks/scale.json
```

## The model

A warm round with n columns, q requests, c candidates (the columns that steps work on), r steps of
Newton's method, P passes over all columns and k places of w threads each takes

    driver    d0 + d1 q + d2 r c + d3 n
    columns   (e0 A + e1 P n / w) / k
    network   C (l0 + l1 k) + B / b

seconds. The driver edits, steps, certifies and rounds. The columns' part are A tasks (calls times parts) and
the passes; a store in this process has one place, no network, and A = P. C is the number of round trips, B
the bytes that go out and come back, l0 + l1 k what a round trip to k places takes whatever is in it, b the
bandwidth. So the overhead of a program on actors is its round trips, its bytes, and its tasks.

The coefficients d and e are fitted to rounds of some sizes, and checked on rounds of others.
"""


def page() -> str:
    """The text of docs/scale.md."""
    document = json.loads((HERE / "scale.json").read_text())
    found, measured = document["settings"], document["measured"]
    sizes = ", ".join(f"{jobs:,} jobs on {gpus:,} GPUs" for gpus, jobs in found["fit"])
    parts = [
        INTRODUCTION,
        "## Coefficients\n",
        f"Measured on {measured['on']} with Sia of {sizes}; the load of the machine was "
        f"{measured['load_before']} before. {machine(document['machine'])}.\n",
        *coefficients(document),
        "\n## The check\n",
        "Measured and predicted medians of warm rounds, of sizes that nothing was fitted to. *Parts* are in\n"
        "this process; actors are on this machine, and share its processors with the driver.\n",
        *checks(document),
        verdict(document),
        *overheads(document),
        "\n## Predicted\n",
        *predictions(document),
    ]
    return "\n".join(parts) + "\n"


def coefficients(document: dict[str, Any]) -> list[str]:
    """A column for each kind of program."""
    models = document["models"]
    names = {"here": "Sia, one process", "spread": "Sia, spread", "traffic": "traffic, one process"}
    kinds = [kind for kind in names if kind in models]
    lines = [
        "| | " + " | ".join(names[kind] for kind in kinds) + " |",
        "| --- |" + " ---: |" * len(kinds),
    ]
    rows = (
        ("driver, a round: d0", "driver", 0),
        ("driver, a request: d1", "driver", 1),
        ("driver, a candidate and step: d2", "driver", 2),
        ("driver, a column: d3", "driver", 3),
        ("a task: e0", "columns", 0),
        ("a column and pass, one thread: e1", "columns", 1),
    )
    for name, key, place in rows:
        lines.append(f"| {name} | " + " | ".join(duration(models[k][key][place]) for k in kinds) + " |")
    counts = (
        ("candidates a request", "candidates"),
        ("steps a round", "steps"),
        ("passes a round", "passes"),
        ("round trips a round", "calls"),
    )
    for name, key in counts:
        lines.append(f"| {name} | " + " | ".join(f"{models[kind][key]:.3g}" for kind in kinds) + " |")
    fixed, request, column = models["spread"]["nbytes"]
    lines.append(f"\nBytes a round, spread: {fixed:,.0f} + {request:,.0f} a request + {column:.2g} a column.")
    network, memory = document["network"], document["memory"]
    if network:
        lines.append(
            f"Ray on this machine: a round trip takes {duration(network['latency'])} and "
            f"{duration(network['each'])} an actor; {network['bandwidth'] / 1e9:.2g} GB a second. "
            f"An actor holds {memory['a_column']:.3g} bytes a column; the largest of "
            f"{document['settings']['actors']} had {memory['largest_share']:.1%} of all."
        )
    return lines


def checks(document: dict[str, Any]) -> list[str]:
    """A line for each size and kind."""
    names = {"here": "Sia, one process", "parts": "Sia, parts", "traffic": "traffic, one process"}
    lines = [
        "| program | columns | requests | measured | predicted | ratio | round trips | kB |",
        "| --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: |",
    ]
    for kind, found in document["checks"].items():
        for each in found:
            name = names.get(kind) or f"Sia, {each['places']} actors"
            lines.append(
                f"| {name} | {each['columns']:,} | {each['requests']:,} | {seconds(each['measured'])} "
                f"| {seconds(each['predicted']['round'])} | {each['ratio']:.2f} | {each['calls']:.0f} "
                f"| {each['bytes'] / 1e3:,.0f} |"
            )
    return lines


def verdict(document: dict[str, Any]) -> str:
    """How far the predictions are off."""
    ratios = [each["ratio"] for found in document["checks"].values() for each in found]
    close = sum(abs(ratio - 1.0) <= 0.25 for ratio in ratios)
    return (
        f"\n{close} of {len(ratios)} predictions are within 25% of what was measured; the ratios are from "
        f"{min(ratios):.2f} to {max(ratios):.2f}. What follows is no better than that."
    )


def overheads(document: dict[str, Any]) -> list[str]:
    """How much longer rounds with actors took than those of one process, and what of it is predicted."""
    alone = {each["columns"]: each for each in document["checks"]["here"]}
    lines = []
    for each in document["checks"].get("actors", ()):
        here = alone.get(each["columns"])
        if here is not None:
            more = each["measured"] - here["measured"]
            wanted = each["predicted"]["round"] - here["predicted"]["round"]
            network = each["predicted"]["network"]
            lines.append(
                f"- {each['columns']:,} columns: a round with {each['places']} actors took {1e3 * more:.1f} "
                f"ms more than in one process; predicted are {1e3 * wanted:.1f} ms, {1e3 * network:.1f} of "
                f"them for {each['calls']:.0f} round trips and their bytes"
            )
    return ["", *lines] if lines else []


def predictions(document: dict[str, Any]) -> list[str]:
    """A line for each size, number of nodes and network."""
    found = document["predictions"]
    if not found:
        return ["Without Ray nothing was measured that this could be predicted by."]
    lines = [
        f"Nodes of {found[0]['threads']} threads as fast as this machine's, an actor each; a round trip\n"
        "takes what Ray took here and the network's latency. Requests have columns of their own, and each\n"
        "round 2% of them are new. Nothing of this table was measured.\n",
        "| columns | requests | nodes | network | round | driver | columns' | network's | a node holds |",
        "| ---: | ---: | ---: | --- | ---: | ---: | ---: | ---: | ---: |",
    ]
    for each in found:
        parts = (seconds(each["predicted"][key]) for key in ("round", "driver", "columns", "network"))
        lines.append(
            f"| {each['columns']:.0e} | {each['requests']:,} | {each['nodes']:,} | {each['network']} "
            f"| {' | '.join(parts)} | {each['bytes_a_node'] / 1e9:.3g} GB |"
        )
    return lines


def duration(value: float) -> str:
    """Three digits and a unit, from picoseconds on."""
    for unit, size in (("s", 1.0), ("ms", 1e-3), ("µs", 1e-6), ("ns", 1e-9), ("ps", 1e-12)):
        if value >= size:
            return f"{value / size:.3g} {unit}"
    return "0"


if __name__ == "__main__":
    PAGE.write_text(page())
