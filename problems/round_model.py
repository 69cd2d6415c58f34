"""`copter bench model`: the model of a round (:mod:`copter.bench.round_model`), fitted to Sia and to traffic.

Sizes to fit by and sizes to check by are different ones.  The spread program is fitted with its parts in this
process, and checked with actors on Ray, whose network is measured apart.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from datetime import UTC, datetime
from itertools import islice
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer

from copter.cli.console import errors, save_json, seconds, table
from copter.cli.options import JsonPath, Seed

if TYPE_CHECKING:
    from copter.bench.round_model import Network, Observation, RoundModel
    from copter.program.program import ContinualProgram
    from copter.store.places import Places as StorePlaces

_EXAMPLES = """\b
Examples:
  copter bench model
  copter bench model --fit 512x100,2048x300 --check 1024x200 --actors 0 --json model.json
"""
_TOLERANCE = 1e-4
_LEFT_OUT = 2
"""Rounds: the first one is cold, and the second may be the first of its kind."""
_PARTS = 2
"""Of the spread program: as many as actors, which is what a program takes by itself."""
_NODE_THREADS = 16
_NETWORKS = {
    "10 Gbit/s, 0.5 ms": (5e-4, 10e9 / 8),
    "25 Gbit/s, 0.1 ms": (1e-4, 25e9 / 8),
}
"""Latency of the wire and bandwidth of what is predicted; what Ray adds to a call is measured."""
_LARGE = ((10**9, 10**5), (10**10, 10**6), (10**11, 10**6))
"""Columns and requests."""
_NODES = (10, 100, 1000)


class Size(NamedTuple):
    """GPUs, and jobs at any time."""

    gpus: int
    jobs: int


def register(run: typer.Typer, bench: typer.Typer) -> None:
    """Add the command of this module."""
    bench.command("model", epilog=_EXAMPLES)(model)


def model(
    fit: Annotated[
        str, typer.Option(help="Sizes to fit by, as GPUs x jobs.")
    ] = "1024x200,5120x200,5120x800,10240x300,10240x1200,20480x1000",
    check: Annotated[str, typer.Option(help="Sizes to check by.")] = "2560x400,7168x800,25600x3100",
    rounds: Annotated[int, typer.Option(min=3, help="Rounds of each; the first two do not count.")] = 12,
    topology: Annotated[
        str, typer.Option(help="Network of the traffic, a name of topohub; empty: no traffic.")
    ] = "gabriel/250/0",
    demands: Annotated[
        str, typer.Option(help="Demands to fit by, and after a slash those to check by.")
    ] = "5000,10000,20000/15000",
    actors: Annotated[int, typer.Option(min=0, help="Actors of the spread program; 0: no Ray.")] = 2,
    json_path: JsonPath = None,
    seed: Seed = 0,
) -> None:
    """Fit the model of a warm round to this machine, check it, and predict rounds of up to 1e11 columns.

    \f

    Parameters
    ----------
    fit, check : str
        Sizes, as 1024x200, separated by commas.
    rounds : int
    topology, demands : str
    actors : int
    json_path : Path, optional
        For the JSON document; ``-`` is standard output.
    seed : int
    """  # noqa: D301
    sizes, checks = _sizes(fit, "--fit"), _sizes(check, "--check")
    if len(sizes) < 2:
        raise typer.BadParameter("give at least two sizes", param_hint="--fit")
    numbers = _numbers(demands)
    document = measure(sizes, checks, rounds, actors, seed)
    if topology:
        add_traffic(document, topology, *numbers, rounds, seed)
    if json_path is not None:
        save_json(document, json_path)
        if str(json_path) == "-":
            return
    table(
        "A warm round: measured, and predicted from other sizes",
        ("where", "columns", "requests", "measured", "predicted", "predicted / measured"),
        (
            (
                f"{each['places']} actors" if kind == "actors" else kind,
                f"{each['columns']:,}",
                f"{each['requests']:,}",
                seconds(each["measured"]),
                seconds(each["predicted"]["round"]),
                f"{each['ratio']:.2f}",
            )
            for kind, checked in document["checks"].items()
            for each in checked
        ),
    )
    table(
        "Predicted rounds",
        ("columns", "nodes", "network", "round", "driver", "columns' part", "network's part", "a node holds"),
        (
            (
                f"{each['columns']:.0e}",
                str(each["nodes"]),
                each["network"],
                *(seconds(each["predicted"][part]) for part in ("round", "driver", "columns", "network")),
                f"{each['bytes_a_node'] / 1e9:.3g} GB",
            )
            for each in document["predictions"]
        ),
    )


def measure(sizes: list[Size], checks: list[Size], rounds: int, actors: int, seed: int) -> dict[str, Any]:
    """Fit, check and predict.

    Parameters
    ----------
    sizes, checks : list of Size
        To fit by, and to check by.

    Returns
    -------
    dict
        What is written as JSON.
    """
    from copter.bench.machine import machine
    from copter.bench.round_model import Places, RoundModel
    from copter.parallel import available_threads

    threads = available_threads()
    measured = {"on": datetime.now(UTC).strftime("%Y-%m-%d"), "load_before": round(os.getloadavg()[0], 2)}
    here = {size: list(_watched(size, rounds, seed, "here")) for size in (*sizes, *checks)}
    local = RoundModel.fit([each for size in sizes for each in here[size]], threads)
    apart = [each for size in sizes for each in _watched(size, rounds, seed, "parts")]
    spread = RoundModel.fit(apart, 1, _PARTS)
    found: dict[str, Any] = {
        "here": [local.checked(here[size], Places(1, threads)) for size in checks],
        "parts": [
            spread.checked(list(_watched(size, rounds, seed, "parts")), Places(1, 1), _PARTS)
            for size in checks
        ],
    }
    network, memory = None, dict[str, float]()
    if actors:
        network, memory, seen = _on_actors(checks, rounds, actors, seed)
        at = Places(actors, 1, network)
        found["actors"] = [spread.checked(each, at, actors) for each in seen]
    return {
        "machine": machine(),
        "measured": measured,
        "settings": {
            "fit": sizes,
            "check": checks,
            "rounds": rounds,
            "actors": actors,
            "seed": seed,
            "tolerance": _TOLERANCE,
            "parts": _PARTS,
            "threads": threads,
        },
        "models": {"here": local.as_dict(), "spread": spread.as_dict()},
        "network": None if network is None else network._asdict(),
        "memory": memory,
        "checks": found,
        "predictions": list(_predictions(spread, network, memory)),
    }


def add_traffic(
    document: dict[str, Any], topology: str, fit: list[int], check: list[int], rounds: int, seed: int
) -> None:
    """Fit and check the model on rounds of traffic, whose programs have a row a link and a demand.

    Parameters
    ----------
    document : dict
        Of :func:`measure`; it gets what is found.
    fit, check : list of int
        Demands.
    """
    from copter.bench.round_model import Places, RoundModel
    from copter.parallel import available_threads

    threads = available_threads()
    seen = {size: list(_traffic_rounds(topology, size, rounds, seed)) for size in (*fit, *check)}
    fitted = RoundModel.fit([each for size in fit for each in seen[size]], threads)
    document["settings"] |= {"topology": topology, "demands": {"fit": fit, "check": check}}
    document["models"]["traffic"] = fitted.as_dict()
    document["checks"]["traffic"] = [fitted.checked(seen[size], Places(1, threads)) for size in check]


def _traffic_rounds(topology: str, demands: int, rounds: int, seed: int) -> Iterator[Observation]:
    """Warm rounds of max-flow in which every demand moves by up to 10%."""
    from copter.bench.round_watch import Watched, observations
    from copter.problems.traffic import load_topology, make_matrix
    from copter.problems.traffic.course import make_instance, prepare
    from copter.solvers.registry import make_solver

    errors().print(f"{rounds} rounds, {demands} demands on {topology}")
    network = load_topology(topology, capacity=1000.0)
    matrices = make_matrix("gravity", network, seed=seed)[None]
    instance = make_instance(network, matrices, demands=demands, seed=seed)
    with TemporaryDirectory(prefix="copter-model-") as folder:
        course = prepare(
            Path(folder), instance, "max-flow", rounds=rounds, changes=("independent",), seed=seed, split=0.0
        )
        yield from observations(course, Watched(make_solver("copter", tolerance=_TOLERANCE)), _LEFT_OUT)


def _predictions(
    spread: RoundModel, network: Network | None, memory: dict[str, float]
) -> Iterator[dict[str, Any]]:
    """Rounds of sizes that this machine cannot hold; what Ray adds to a call is what it adds here."""
    from copter.bench.round_model import Network, Places

    if network is None:
        return
    for columns, requests in _LARGE:
        for nodes in _NODES:
            for name, (latency, bandwidth) in _NETWORKS.items():
                wire = Network(network.latency + latency, network.each, min(network.bandwidth, bandwidth))
                at = Places(nodes, _NODE_THREADS, wire)
                yield {
                    "columns": columns,
                    "requests": requests,
                    "nodes": nodes,
                    "threads": _NODE_THREADS,
                    "network": name,
                    "predicted": spread.predict(columns, requests, at, nodes),
                    "bytes_a_node": memory["a_column"] * columns / nodes,
                }


def _on_actors(
    sizes: list[Size], rounds: int, actors: int, seed: int
) -> tuple[Network, dict[str, float], list[list[Observation]]]:
    """The network of Ray on this machine, bytes of a column at an actor, and rounds with actors."""
    from copter.bench.round_watch import network_of, round_trip
    from copter.ray import RayProgram

    trips = []
    for number in (1, actors, 2 * actors):
        with RayProgram(number, num_cpus=1.0) as program:
            trips.append((number, *round_trip(program.store)))
    seen, memory = [], {}
    for size in sizes:
        with RayProgram(actors, num_cpus=1.0) as program:
            seen.append(list(_rounds(size, rounds, seed, program, program.store.places)))
            held = [each["bytes"] for each in program.memory()]
            memory = {"a_column": sum(held) / program.n_variables, "largest_share": max(held) / sum(held)}
    return network_of(trips), memory, seen


def _watched(size: Size, rounds: int, seed: int, where: str) -> Iterator[Observation]:
    """Warm rounds of a program that is in this process, in one part or in many."""
    from copter.program.program import ContinualProgram
    from copter.program.spread import SpreadProgram
    from copter.store.places import InProcess

    if where == "here":
        return _rounds(size, rounds, seed, ContinualProgram(), None)
    places = InProcess(_PARTS, "float64")
    return _rounds(size, rounds, seed, SpreadProgram(places), places)


def _rounds(
    size: Size, rounds: int, seed: int, program: ContinualProgram, places: StorePlaces | None
) -> Iterator[Observation]:
    """Warm rounds of a program that is empty."""
    from copter.bench.round_watch import Metered, Watched
    from copter.problems.sia.steady import SteadyReplay
    from copter.solvers.registry import make_solver
    from copter.store.spread import SpreadStore

    errors().print(f"{rounds} rounds, {size.jobs} jobs on {size.gpus} GPUs, {type(program).__name__}")
    threads = None if places is None else 1
    solver = Watched(make_solver("copter", tolerance=_TOLERANCE, threads=threads))
    metered = None
    if places is not None:
        assert isinstance(program.store, SpreadStore)
        program.store.places = metered = Metered(places)
    replay = SteadyReplay(size.gpus, size.jobs, rounds, solver, seed=seed, program=program)
    simulated = islice(replay.simulator.run(), rounds)
    for index in range(rounds):
        if metered is not None:
            metered.begin()
        if next(simulated, None) is None:
            return
        decided = replay.scheduler.last
        assert decided is not None
        if index >= _LEFT_OUT:
            spent = decided.edit_seconds + decided.solve_seconds + decided.shim_seconds
            yield solver.observed(program, spent, metered)


def _sizes(text: str, option: str) -> list[Size]:
    sizes = []
    for part in text.split(","):
        found = re.fullmatch(r"\s*([1-9]\d*)x([1-9]\d*)\s*", part)
        if found is None:
            raise typer.BadParameter(
                f"{part.strip()!r} is no size: give some like 1024x200", param_hint=option
            )
        sizes.append(Size(int(found[1]), int(found[2])))
    return sizes


def _numbers(text: str) -> tuple[list[int], list[int]]:
    fit, _, check = text.partition("/")
    try:
        found = [[int(part) for part in side.split(",")] for side in (fit, check)]
    except ValueError:
        raise typer.BadParameter(
            f"{text!r}: give numbers like 8000,16000/12000", param_hint="--demands"
        ) from None
    return found[0], found[1]
