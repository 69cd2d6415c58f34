"""The commands: `copter run serving` and `copter bench serving`."""

from dataclasses import dataclass
from functools import partial
from typing import Annotated

import typer

from copter.cli.command import BenchOptions, Options, Solving, command
from copter.cli.options import JsonFlag, SolverName

Models = Annotated[int, typer.Option(min=10, help="Models in each round.")]
Rounds = Annotated[int, typer.Option(min=1, help="Rounds; the first one starts from nothing.")]


def register(run, bench):
    """Add the commands of this domain."""
    run.command("serving")(command(ServingRun, run_serving))
    bench.command("serving")(command(ServingBench, bench_serving))


@dataclass(frozen=True, kw_only=True)
class ServingRun(Solving, Options):
    """Place models on machines, round by round."""

    models: Models = 100
    rounds: Rounds = 5
    solver: SolverName = "copter"
    as_json: JsonFlag = False


def run_serving(options):
    """Play the rounds with one solver, and say what they came to."""
    from copter.cli.console import print_json, table
    from serving.course import ServingCourse

    course = ServingCourse(options.models, options.rounds, options.seed)
    records = list(course.play(options.solver_settings(options.solver)).records)
    if options.as_json:
        print_json({"settings": options.settings(), "rounds": records})
        return
    rows = [(str(one["round"]), one["status"], f"{one['served']:.0%}") for one in records]
    table("Serving", ("round", "status", "served"), rows, text_columns=2)


@dataclass(frozen=True, kw_only=True)
class ServingBench(BenchOptions):
    """Measure solvers on rounds in which loads move, and models come and go."""

    models: Models = 1000
    rounds: Rounds = 5


def bench_serving(options):
    """Measure them, and print the tables or the document."""
    from copter.bench.case import Case, as_it_is
    from copter.cli.bench import bench
    from serving.course import ServingCourse

    course = ServingCourse(options.models, options.rounds, options.seed)
    bench(Case("serving", "serving", "Serving", partial(as_it_is, course)), options)
