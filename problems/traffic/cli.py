"""`copter run traffic` and `copter bench traffic`: flows of a network, round by round."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter
from typing import TYPE_CHECKING, Annotated, Any, TypeAlias

import typer

from copter.cli.console import errors, print_json, progress, seconds
from copter.cli.options import (
    Deadline,
    Isolate,
    JsonFlag,
    JsonPath,
    Seed,
    Threads,
    Tolerance,
    positive,
    solver_option,
    solvers_option,
)
from copter.cli.solvers import split_solvers

if TYPE_CHECKING:
    from copter.problems.traffic.course import Instance, TrafficCourse

METHODS = ("lp-top", "pop-K", "shortest")
CHANGES = ("independent", "source", "global", "permute", "failures", "sequence")
MODELS = ("gravity", "poisson", "poisson-flat", "bimodal")

_RUN_EXAMPLES = """\b
Examples:
  copter run traffic --topology Kdl.graphml --matrix gravity --demands 20000 --out runs/kdl
  copter run traffic --topology B4.json --matrix b4_real_tm.npz --objective min-mlu --rounds 36
  copter run traffic --topology topozoo/Abilene --change failures --json
"""
_BENCH_EXAMPLES = """\b
Examples:
  copter bench traffic --topology Kdl.graphml --demands 20000 --solvers copter,highs-hot,pdlp,pop-16,lp-top
  copter bench traffic --topology Kdl.graphml --matrix poisson --change failures --seed 7 --json kdl.json
"""


def register(run: typer.Typer, bench: typer.Typer) -> None:
    """Add the commands of this domain."""
    run.command("traffic", epilog=_RUN_EXAMPLES)(run_traffic)
    bench.command("traffic", epilog=_BENCH_EXAMPLES)(bench_traffic)


def _one_of(*names: str) -> Callable[[str | None], str | None]:
    def check(value: str | None) -> str | None:
        if value is not None and value not in names:
            raise typer.BadParameter(f"{value!r} is not one of {', '.join(names)}")
        return value

    return check


def _changes(value: str | None) -> str | None:
    for name in [] if value is None else value.split(","):
        _one_of(*CHANGES)(name)
    return value


def _demands(value: str) -> str:
    if value != "all" and not (value.isdecimal() and int(value) > 0):
        raise typer.BadParameter(f"{value!r} is neither all nor a number of demands greater than 0")
    return value


def _matrix(value: str) -> str:
    value = {"flat-poisson": "poisson-flat"}.get(value, value)
    if value not in MODELS and not Path(value).is_file():
        raise typer.BadParameter(f"{value!r} is neither one of {', '.join(MODELS)} nor a file")
    return value


Network: TypeAlias = Annotated[
    str, typer.Option("--topology", help="File (.graphml, .json), or a name of topohub, as topozoo/Abilene.")
]
MatrixSource: TypeAlias = Annotated[
    str,
    typer.Option("--matrix", callback=_matrix, help=f"{', '.join(MODELS)}, or a file (.npy, .npz, .csv)."),
]
Scale: TypeAlias = Annotated[
    float, typer.Option(callback=positive, help="Factor on the demands of a model; a file is taken as it is.")
]
Capacity: TypeAlias = Annotated[
    float | None,
    typer.Option(
        callback=positive, help="Capacity of every link; the topology's own, or 1000, if not given."
    ),
]
Demands: TypeAlias = Annotated[
    str, typer.Option(callback=_demands, help="all, or how many pairs to draw; they share the volume of all.")
]
Paths: TypeAlias = Annotated[int, typer.Option(min=1, help="Paths a pair, at most.")]
PathKind: TypeAlias = Annotated[
    str, typer.Option(callback=_one_of("edge-disjoint", "shortest"), help="edge-disjoint or shortest.")
]
Goal: TypeAlias = Annotated[
    str, typer.Option("--objective", callback=_one_of("max-flow", "min-mlu"), help="max-flow or min-mlu.")
]
Rounds: TypeAlias = Annotated[
    int, typer.Option(min=1, help="Rounds (of each kind of change); the first one starts from nothing.")
]
Change: TypeAlias = Annotated[
    str | None,
    typer.Option(
        callback=_changes,
        help="What changes: independent, source, global (+-10%), permute, failures (5 lines down), sequence "
        "(the matrices of a file); or several by commas, one after the other. independent, or sequence "
        "if the file has several, if not given.",
    ),
]


def run_traffic(
    topology: Network,
    matrix: MatrixSource = "gravity",
    scale: Scale = 16.0,
    capacity: Capacity = None,
    demands: Demands = "all",
    paths: Paths = 4,
    path_kind: PathKind = "edge-disjoint",
    objective: Goal = "max-flow",
    rounds: Rounds = 10,
    change: Change = None,
    solver: Annotated[str, solver_option(METHODS)] = "copter",
    tolerance: Tolerance = 1e-4,
    deadline: Deadline = None,
    threads: Threads = None,
    seed: Seed = 0,
    out: Annotated[
        Path | None, typer.Option(help="Run folder; runs/traffic-<time>, or with --json none, if not given.")
    ] = None,
    as_json: JsonFlag = False,
) -> None:
    """Decide the flows of a network round by round while its demands drift or its links fail."""
    settings: dict[str, Any] = {
        "topology": topology,
        "matrix": matrix,
        "scale": scale,
        "capacity": capacity,
        "demands": demands,
        "paths": paths,
        "path_kind": path_kind,
        "objective": objective,
        "rounds": rounds,
        "change": change,
        "solver": solver,
        "tolerance": tolerance,
        "deadline": deadline,
        "threads": threads,
        "seed": seed,
    }
    instance = _instance(settings, quiet=as_json)
    from copter.bench.rounds import SolverSettings
    from copter.problems.traffic.report import TrafficRun

    chosen = SolverSettings(solver, tolerance, deadline, threads)
    path = out if out is not None or as_json else _default_folder()
    with TemporaryDirectory(prefix="copter-traffic-") as folder:
        course = _course(Path(folder), instance, settings)
        command = [Path(sys.argv[0]).name, *sys.argv[1:]]
        with TrafficRun(course, instance, chosen, path, command, settings) as run:
            errors().print(f"preparing {solver} (the first run ever compiles its kernels)")
            run.warm_up()
            _follow(run, course.n_rounds, quiet=as_json)
            summary = {"solver": solver, **run.finish()}
    if as_json:
        print_json(summary)
        return
    run.print_summary()
    errors().print(f"Run folder: {path}")


def _default_folder() -> Path:
    from copter.cli.runfolder import default_path

    return default_path("traffic")


def _follow(run: Any, rounds: int, quiet: bool) -> None:
    bar = progress("{task.fields[value]}", "solve {task.fields[solve]}", quiet=quiet)
    with bar:
        task = bar.add_task("rounds", total=rounds, value="", solve="-")
        for record in run.rounds():
            value = f"{run.course.measure} {record[run.course.measure]:.6g}"
            bar.update(task, advance=1, value=value, solve=seconds(record["t_solve"]))


def bench_traffic(
    topology: Network,
    matrix: MatrixSource = "gravity",
    scale: Scale = 16.0,
    capacity: Capacity = None,
    demands: Demands = "all",
    paths: Paths = 4,
    path_kind: PathKind = "edge-disjoint",
    objective: Goal = "max-flow",
    rounds: Rounds = 5,
    change: Change = None,
    solvers: Annotated[str, solvers_option(METHODS)] = "copter,highs-hot,pop-16,lp-top,shortest",
    json_path: JsonPath = None,
    tolerance: Tolerance = 1e-4,
    deadline: Deadline = None,
    threads: Threads = None,
    seed: Seed = 0,
    isolate: Isolate = True,
) -> None:
    """Measure solvers on the same rounds of a network: time, feasible flow, share of the best bound."""
    settings: dict[str, Any] = {
        "topology": topology,
        "matrix": matrix,
        "scale": scale,
        "capacity": capacity,
        "demands": demands,
        "paths": paths,
        "path_kind": path_kind,
        "objective": objective,
        "rounds": rounds,
        "change": change,
        "solvers": split_solvers(solvers),
        "tolerance": tolerance,
        "mip_gap": 1e-3,
        "deadline": deadline,
        "threads": threads,
        "seed": seed,
        "isolate": isolate,
    }
    instance = _instance(settings)
    from copter.cli.bench_report import measure_all, report

    with TemporaryDirectory(prefix="copter-bench-") as folder:
        course = _course(Path(folder), instance, settings)
        title = (
            f"{instance.topology.name}, {instance.paths.n_pairs:,} demands, {matrix}, {settings['change']}"
        )
        del instance  # solvers in this process are weighed without it
        measured, failures = measure_all(course, settings)
    report(f"{objective}: {title}", course, settings, measured, failures, json_path)


def _instance(settings: dict[str, Any], quiet: bool = False) -> Instance:
    """Read or draw the demands and find their paths; settles what changes from round to round."""
    from copter.problems.traffic import load_topology, make_matrix, read_matrices
    from copter.problems.traffic.course import make_instance

    matrix, seed = settings["matrix"], settings["seed"]
    network = load_topology(settings["topology"], capacity=settings["capacity"])
    if matrix in MODELS:
        name = {"poisson-flat": "flat-poisson"}.get(matrix, matrix)
        matrices = make_matrix(name, network, seed=seed, scale=settings["scale"])[None]
    else:
        matrices = read_matrices(matrix, network)
    if settings["change"] is None:
        settings["change"] = "sequence" if len(matrices) > 1 else "independent"
    if "sequence" in settings["change"].split(",") and len(matrices) == 1:
        raise typer.BadParameter("needs a matrix file with several matrices", param_hint="--change")
    begin = perf_counter()
    bar = progress(quiet=quiet)
    with bar:
        task = bar.add_task("paths of pairs", total=None)
        instance = make_instance(
            network,
            matrices,
            demands=None if settings["demands"] == "all" else int(settings["demands"]),
            k=settings["paths"],
            kind=settings["path_kind"],
            seed=seed,
            threads=settings["threads"],
            progress=lambda done, total: bar.update(task, completed=done, total=total),
        )
        bar.update(task, completed=instance.paths.n_pairs, total=instance.paths.n_pairs)
    size = f"{network.n_nodes} nodes, {network.n_links} links, {instance.paths.n_pairs:,} demands"
    took = seconds(perf_counter() - begin)
    errors().print(f"{network.name}: {size}, {instance.paths.n_paths:,} paths in {took}")
    if not instance.paths.n_pairs:
        raise typer.BadParameter("there is no demand at all", param_hint="--matrix")
    return instance


def _course(folder: Path, instance: Instance, settings: Mapping[str, Any]) -> TrafficCourse:
    from copter.problems.traffic.course import prepare, split_for

    return prepare(
        folder,
        instance,
        settings["objective"],
        rounds=settings["rounds"],
        changes=settings["change"].split(","),
        seed=settings["seed"],
        split=split_for(settings["matrix"]),
    )
