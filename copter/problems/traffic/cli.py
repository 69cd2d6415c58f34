"""`copter run traffic` and `copter bench traffic`: flows of a network, round by round."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Annotated, ClassVar, TypeAlias, TypeVar, cast

import typer

from copter.cli.command import BenchOptions, CommandOptions, OverActors, RunOptions, Solving
from copter.cli.console import errors, progress, seconds
from copter.cli.options import Tolerance, one_of, positive, solver_option, solvers_option
from copter.cli.solvers import Names, check_known
from copter.problems.traffic import CHANGES, MAX_MIN, METHODS, MODELS, OBJECTIVES, PATH_KINDS, PathKind

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from copter.problems.traffic.course import Instance, TrafficCourse
    from copter.problems.traffic.topology import Topology

_OTHER_NAMES = {"flat-poisson": "poisson-flat"}
_OBJECTIVES = (*OBJECTIVES, MAX_MIN)


def _changes(value: str | None) -> str | None:
    for name in [] if value is None else value.split(","):
        check_known(name, CHANGES, "change")
    return value


def _demands(value: str) -> str:
    if value != "all" and not (value.isdecimal() and int(value) > 0):
        raise typer.BadParameter(f"{value!r}: must be all or a positive number of demands")
    return value


def _matrix(value: str) -> str:
    value = _OTHER_NAMES.get(value, value)
    if value not in MODELS and not Path(value).is_file():
        raise typer.BadParameter(f"{value!r}: must be one of {', '.join(MODELS)} or a file")
    return value


_Change: TypeAlias = Annotated[
    str | None,
    typer.Option(
        callback=_changes,
        help="Changes: independent, source, global (+-10%), permute, single (one demand), failures "
        "(5 lines down), sequence (the matrices of a file); or several of these, separated by commas. "
        "Default: independent, or sequence if the file has several matrices.",
    ),
]
_Rounds: TypeAlias = Annotated[
    int, typer.Option(min=1, help="Number of rounds (of each kind of change); the first one is a cold start.")
]


@dataclass(frozen=True, kw_only=True)
class _NetworkOptions(CommandOptions):
    """Options of a network, its demands, their paths, and changes from round to round."""

    topology: Annotated[
        str,
        typer.Option("--topology", help="File (.graphml, .json), or a topohub name such as topozoo/Abilene."),
    ]
    matrix: Annotated[
        str,
        typer.Option(
            "--matrix", callback=_matrix, help=f"{', '.join(MODELS)}, or a file (.npy, .npz, .csv)."
        ),
    ] = "gravity"
    scale: Annotated[
        float,
        typer.Option(callback=positive, help="Factor on the demands of a model; not used for a file."),
    ] = 16.0
    capacity: Annotated[
        float | None,
        typer.Option(
            callback=positive, help="Capacity of every link; default: that of the topology, or 1000."
        ),
    ] = None
    demands: Annotated[
        str,
        typer.Option(
            callback=_demands, help="all, or the number of random pairs; they share the volume of all."
        ),
    ] = "all"
    paths: Annotated[int, typer.Option(min=1, help="Largest number of paths per pair.")] = 4
    path_kind: Annotated[
        str, typer.Option(callback=one_of(PATH_KINDS, "kind of paths"), help=f"{' or '.join(PATH_KINDS)}.")
    ] = "edge-disjoint"
    objective: Annotated[
        str,
        typer.Option(
            "--objective", callback=one_of(_OBJECTIVES, "objective"), help=f"{' or '.join(_OBJECTIVES)}."
        ),
    ] = "max-flow"
    rounds: _Rounds = 10
    change: _Change = None


@dataclass(frozen=True, kw_only=True)
class TrafficRunOptions(_NetworkOptions, Solving, RunOptions):
    """Find the flows of a network round by round while its demands drift or its links fail."""

    examples: ClassVar[str] = """\b
Examples:
  copter run traffic --topology Kdl.graphml --matrix gravity --demands 20000 --out runs/kdl
  copter run traffic --topology B4.json --matrix b4_real_tm.npz --objective min-mlu --rounds 36
  copter run traffic --topology topozoo/Abilene --change failures --json
  copter run traffic --topology topozoo/Abilene --objective max-min --rounds 12
"""

    solver: Annotated[str, solver_option(METHODS)] = "copter"
    tolerance: Tolerance = 1e-4

    def execute(self) -> None:
        """Play the rounds."""
        options, course = _prepare(self, quiet=self.quiet)
        from copter.problems.traffic.report import run_traffic

        run_traffic(course, options.solver_settings(self.solver), options)


@dataclass(frozen=True, kw_only=True)
class TrafficBenchOptions(_NetworkOptions, OverActors, BenchOptions):
    """Measure solvers on the same rounds of a network: time, feasible flow, share of the best bound."""

    examples: ClassVar[str] = """\b
Examples:
  copter bench traffic --topology Kdl.graphml --demands 20000 --solvers copter,highs-hot,pdlp,pop-16,lp-top
  copter bench traffic --topology Kdl.graphml --matrix poisson --change failures --seed 7 --json kdl.json
"""

    rounds: _Rounds = 5
    solvers: Annotated[Names, solvers_option(METHODS)] = Names(
        ("copter", "highs-hot", "pop-16", "lp-top", "shortest")
    )
    tolerance: Tolerance = 1e-4

    def execute(self) -> None:
        """Measure the solvers."""
        options, course = _prepare(self)
        from copter.bench.case import Case, as_it_is
        from copter.cli.bench import bench

        size = f"{course.instance.topology.name}, {course.instance.paths.n_pairs:,} demands"
        title = f"{self.objective}: {size}, {self.matrix}, {options.change}"
        bench(Case("traffic", "traffic", title, partial(as_it_is, course)), options)


_Chosen = TypeVar("_Chosen", TrafficRunOptions, TrafficBenchOptions)


def _prepare(options: _Chosen, *, quiet: bool = False) -> tuple[_Chosen, TrafficCourse]:
    """Read or draw the demands and find their paths; return the options with the changes, and the course."""
    from copter.problems.traffic import load_topology
    from copter.problems.traffic.baselines import is_method, split_for
    from copter.problems.traffic.course import course_of

    names = options.solvers if isinstance(options, TrafficBenchOptions) else (options.solver,)
    method = next(filter(is_method, names), None)
    if options.objective == MAX_MIN and method is not None:
        raise typer.BadParameter(f"{method}: must be a solver of linear programs for max-min")
    network = load_topology(options.topology, capacity=options.capacity)
    matrices = _matrices(options, network)
    change = options.change or ("sequence" if len(matrices) > 1 else "independent")
    if "sequence" in change.split(",") and len(matrices) == 1:
        raise typer.BadParameter(
            "sequence needs several matrices: give a file that has them", param_hint="--change"
        )
    instance = _instance(options, network, matrices, quiet)
    if not instance.paths.n_pairs:
        raise typer.BadParameter("must have at least one demand", param_hint="--matrix")
    course = course_of(
        instance,
        options.objective,
        rounds=options.rounds,
        changes=change.split(","),
        seed=options.seed,
        split=split_for(options.matrix),
    )
    return replace(options, change=change), course


def _matrices(options: _NetworkOptions, network: Topology) -> NDArray:
    from copter.problems.traffic import make_matrix, read_matrices

    if options.matrix in MODELS:
        return make_matrix(options.matrix, network, seed=options.seed, scale=options.scale)[None]
    return read_matrices(options.matrix, network)


def _instance(options: _Chosen, network: Topology, matrices: NDArray, quiet: bool) -> Instance:
    from copter.problems.traffic.course import make_instance

    begin = perf_counter()
    bar = progress(quiet=quiet)
    with bar:
        task = bar.add_task("paths of pairs", total=None)
        instance = make_instance(
            network,
            matrices,
            demands=None if options.demands == "all" else int(options.demands),
            k=options.paths,
            kind=cast(PathKind, options.path_kind),
            seed=options.seed,
            threads=options.threads,
            progress=lambda done, total: bar.update(task, completed=done, total=total),
        )
        bar.update(task, completed=instance.paths.n_pairs, total=instance.paths.n_pairs)
    size = f"{network.n_nodes} nodes, {network.n_links} links, {instance.paths.n_pairs:,} demands"
    took = seconds(perf_counter() - begin)
    errors().print(f"{network.name}: {size}, {instance.paths.n_paths:,} paths in {took}")
    return instance


COMMANDS = {"run traffic": TrafficRunOptions, "bench traffic": TrafficBenchOptions}
