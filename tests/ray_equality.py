"""Programs on actors beside the same in one process: python tests/ray_equality.py [--help].

Rounds of Sia, of a network and of Shockwave's relaxation, in this process and on 2 and 4 actors: the largest
relative difference of objectives and bounds, milliseconds of the warm rounds, round trips to the actors, and
how much of the columns each actor holds.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from itertools import islice
from pathlib import Path
from time import perf_counter
from typing import NamedTuple

import numpy as np
from rich.console import Console
from rich.table import Table

import copter.ray.on_actors
from copter import ContinualProgram, make_solver
from copter.bench.settings import SolverSettings
from copter.problems.shockwave.course import _busy_rounds
from copter.problems.shockwave.program import RelaxationProgram
from copter.problems.shockwave.window import build_window
from copter.problems.sia.steady import SteadyReplay
from copter.problems.traffic.course import make_instance, prepare
from copter.problems.traffic.matrices import make_matrix
from copter.problems.traffic.topology import load_topology
from copter.ray import RayProgram

SAME = 1e-9


class Round(NamedTuple):
    """A round: what was proven, and what it took."""

    objective: float
    bound: float
    milliseconds: float


class Trips:
    """Counts the round trips to actors."""

    def __init__(self) -> None:
        self.count = 0
        self._ask = copter.ray.on_actors.answers

    def __enter__(self) -> Trips:
        def counted(*arguments, **more):  # type: ignore[no-untyped-def]
            self.count += 1
            return self._ask(*arguments, **more)

        copter.ray.on_actors.answers = counted
        return self

    def __exit__(self, *_: object) -> None:
        copter.ray.on_actors.answers = self._ask


def sia(program: ContinualProgram, gpus: int, jobs: int, rounds: int) -> Iterator[Round]:
    """Rounds of Sia with as many jobs in each."""
    replay = SteadyReplay(gpus, jobs, rounds, make_solver("copter"), seed=0, program=program, costs="own")
    for _ in islice(replay.simulator.run(), rounds):
        last = replay.scheduler.last
        seconds = last.edit_seconds + last.solve_seconds + last.shim_seconds
        yield Round(last.solution.objective, last.solution.bound, 1e3 * seconds)


def traffic(program: ContinualProgram, network: str, demands: int, rounds: int) -> Iterator[Round]:
    """Most flow through a network while demands drift."""
    topology = load_topology(network, capacity=1000.0)
    matrices = make_matrix("gravity", topology, seed=0, scale=16.0)[None]
    instance = make_instance(topology, matrices, demands=demands, seed=0)
    with tempfile.TemporaryDirectory() as folder:
        course = prepare(
            Path(folder), instance, "max-flow", rounds=rounds, changes=("independent",), seed=0, split=0.0
        )
        for record in course.play(_Given("copter", program)).records:
            yield Round(record["objective"], record["bound"], 1e3 * record["t_total"])


class _Given(SolverSettings):
    """Settings of a solver whose program is given."""

    def __init__(self, name: str, given: ContinualProgram) -> None:
        super().__init__(name, tolerance=1e-4)
        object.__setattr__(self, "given", given)

    def program(self) -> ContinualProgram:
        return self.given  # type: ignore[attr-defined]


def shockwave(program: ContinualProgram, jobs: int, rounds: int) -> Iterator[Round]:
    """Relaxations of the plans of a cluster that stays as busy."""
    solve = RelaxationProgram(program=program)
    for now in islice(_busy_rounds(jobs, max(8, jobs // 4), seed=0), rounds):
        begin = perf_counter()
        relaxed = solve(build_window(now))
        yield Round(relaxed.objective, relaxed.bound, 1e3 * (perf_counter() - begin))


def difference(ours: list[Round], theirs: list[Round]) -> float:
    """Largest difference of objectives and bounds, relative to them."""
    a, b = (np.array([each[:2] for each in rounds]) for rounds in (ours, theirs))
    return float((abs(a - b) / np.maximum(abs(b), 1e-300)).max())


def main() -> int:
    """Run all; 1 if an answer on actors is another than in one process."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--gpus", type=int, default=10_240)
    parser.add_argument("--jobs", type=int, default=1_000)
    parser.add_argument("--network", default="gabriel/150/0", help="of topohub, or a file")
    parser.add_argument("--demands", type=int, default=20_000)
    parser.add_argument("--plans", type=int, default=500, help="jobs of Shockwave's relaxation")
    parser.add_argument("--rounds", type=int, default=6)
    parser.add_argument("--actors", type=int, nargs="*", default=[2, 4])
    parser.add_argument("--only", default="sia,traffic,shockwave")
    given = parser.parse_args()
    families: dict[str, Callable[[ContinualProgram], Iterator[Round]]] = {
        "sia": lambda program: sia(program, given.gpus, given.jobs, given.rounds),
        "traffic": lambda program: traffic(program, given.network, given.demands, given.rounds),
        "shockwave": lambda program: shockwave(program, given.plans, given.rounds),
    }
    table = Table("program", "columns", "actors", "difference", "warm ms", "trips", "shares of the columns")
    wrong = 0
    for name in given.only.split(","):
        here = ContinualProgram()
        truth = list(families[name](here))
        columns = here.n_variables
        table.add_row(name, f"{columns:,}", "-", "-", f"{_warm(truth):.1f}", "-", "-")
        for actors in given.actors:
            with ExitStack() as stack:
                program, trips = stack.enter_context(RayProgram(actors)), stack.enter_context(Trips())
                counts, found = [], []
                for each in families[name](program):
                    found.append(each)
                    counts.append(trips.count)
                held = np.array([each["bytes"] for each in program.memory()], float)
            apart = difference(found, truth)
            wrong += not apart <= SAME
            shares = " ".join(f"{share:.3f}" for share in held / held.sum())
            a_round = f"{np.median(np.diff(counts)):.0f}"
            table.add_row(name, "", str(actors), f"{apart:.1e}", f"{_warm(found):.1f}", a_round, shares)
    Console(width=120).print(table)
    return int(wrong > 0)


def _warm(rounds: list[Round]) -> float:
    return float(np.median([each.milliseconds for each in rounds[1:]]))


if __name__ == "__main__":
    sys.exit(main())
