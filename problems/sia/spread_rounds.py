"""`copter bench spread`: rounds of one program in this process, in parts, and on Ray's actors, side by side.

Every program gets the same edits and gives the same answers; what differs is the time of a round, how often
the driver asks the parts for something, and how many bytes go there and back.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from itertools import islice
from statistics import median
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer

from copter.cli.console import errors, publish, seconds, table
from copter.cli.options import JsonPath, Seed

if TYPE_CHECKING:
    from copter.program.program import ContinualProgram
    from copter.store.edit import Edit
    from copter.store.executor import Task
    from copter.store.offloaded import Offloaded
    from copter.store.part_store import PartStore
    from copter.store.workers import Workers

_EXAMPLES = """\b
Examples:
  copter bench spread
  copter bench spread --sizes 1024x200 --actors 0 --json spread.json
"""
_TOLERANCE = 1e-4
_LEFT_OUT = 2
"""Rounds: the first one is cold, and the second may be the first of its kind."""
_PARTS = 2
"""Parts of the program whose parts are in this process."""


class Size(NamedTuple):
    """GPUs, and jobs at any time."""

    gpus: int
    jobs: int


class Metered:
    """Workers whose calls and bytes are counted."""

    def __init__(self, workers: Workers) -> None:
        self.workers, self.parts = workers, workers.parts
        self.calls = self.nbytes = 0

    def send(self, edits: list[Edit]) -> None:
        """See :class:`copter.store.workers.Workers`."""
        self.workers.send(edits)
        self.nbytes += sum(edit.nbytes for edit in edits)

    def each(self, task: Task, common: tuple[Any, ...], own: Sequence[tuple[Any, ...]] | None) -> list[Any]:
        """See :class:`copter.store.workers.Workers`."""
        found = self.workers.each(task, common, own)
        self._count(common, own, found)
        return found

    def one(self, number: int, task: Task, *arguments: Any) -> Any:
        """See :class:`copter.store.workers.Workers`."""
        found = self.workers.one(number, task, *arguments)
        self._count(arguments, found)
        return found

    def _count(self, *sent: Any) -> None:
        from copter.store.edit import size_of

        self.calls += 1
        self.nbytes += sum(map(size_of, sent))

    def offload(self, pieces: Sequence[Any]) -> Offloaded | None:
        """See :class:`copter.store.workers.Workers`."""
        return self.workers.offload(pieces)

    def restore(self, stores: list[PartStore]) -> None:
        """See :class:`copter.store.workers.Workers`."""
        self.workers.restore(stores)

    def diagnostics(self) -> dict[str, float]:
        """See :class:`copter.store.workers.Workers`."""
        return self.workers.diagnostics()

    def close(self) -> None:
        """See :class:`copter.store.workers.Workers`."""
        self.workers.close()


def register(run: typer.Typer, bench: typer.Typer) -> None:
    """Add the command of this module."""
    bench.command("spread", epilog=_EXAMPLES)(spread)


def spread(
    sizes: Annotated[
        str, typer.Option(help="Sizes, as GPUs x jobs.")
    ] = "2560x400,7168x800,10240x1200,25600x3100",
    rounds: Annotated[int, typer.Option(min=3, help="Rounds of each; the first two do not count.")] = 12,
    actors: Annotated[int, typer.Option(min=0, help="Actors of the program on Ray; 0: no Ray.")] = 2,
    json_path: JsonPath = None,
    seed: Seed = 0,
) -> None:
    """Measure warm Sia rounds of one program in this process, in parts, and on actors.

    \f

    Parameters
    ----------
    sizes : str
        As 1024x200, separated by commas.
    json_path : Path, optional
        For the JSON document; ``-`` is standard output.
    """  # noqa: D301
    document = measure(_sizes(sizes), rounds, actors, seed)
    publish(document, json_path, lambda: _show(document["programs"]))


def _show(programs: Sequence[dict[str, Any]]) -> None:
    table(
        "Warm rounds, medians",
        ("where", "columns", "requests", "round", "smallest", "largest", "round trips", "kB"),
        (
            (
                each["where"],
                f"{each['columns']:,}",
                f"{each['requests']:,}",
                *(seconds(each[key]) for key in ("seconds", "smallest", "largest")),
                f"{each['calls']:.0f}",
                f"{each['bytes'] / 1e3:,.0f}",
            )
            for each in programs
        ),
    )


def measure(sizes: list[Size], rounds: int, actors: int, seed: int) -> dict[str, Any]:
    """Play all sizes everywhere; returns what is written as JSON."""
    from copter.bench.machine import machine, moment

    measured = moment()
    where = ["one process", f"{_PARTS} parts", *([f"{actors} actors"] if actors else [])]
    return {
        "machine": machine(),
        "measured": measured,
        "settings": {
            "sizes": sizes,
            "rounds": rounds,
            "actors": actors,
            "seed": seed,
            "tolerance": _TOLERANCE,
        },
        "programs": [played(size, name, rounds, seed) for size in sizes for name in where],
    }


def played(size: Size, where: str, rounds: int, seed: int) -> dict[str, Any]:
    """Figures of the warm rounds of a program somewhere."""
    from copter.store.spread import SpreadStore

    errors().print(f"{rounds} rounds, {size.jobs} jobs on {size.gpus} GPUs, {where}")
    with _program(where) as program:
        metered = None
        if isinstance(program.store, SpreadStore):
            executor = program.store.executor
            executor.workers = metered = Metered(executor.workers)
        seen = list(_rounds(size, rounds, seed, program, metered))
        took = [each[0] for each in seen]
        return {
            "where": where,
            "columns": program.n_variables,
            "requests": len(program),
            "rounds": len(seen),
            "seconds": median(took),
            "smallest": min(took),
            "largest": max(took),
            "calls": median(each[1] for each in seen),
            "bytes": median(each[2] for each in seen),
        }


def _program(where: str) -> AbstractContextManager[ContinualProgram]:
    """An empty program that keeps its columns there."""
    from copter.program.program import ContinualProgram
    from copter.program.spread import SpreadProgram
    from copter.store.workers import InProcess

    if where.endswith("actors"):
        from copter.ray import RayProgram

        return RayProgram(int(where.split()[0]), num_cpus=1.0)
    if where.endswith("parts"):
        return nullcontext(SpreadProgram(InProcess(_PARTS, "float64")))
    return nullcontext(ContinualProgram())


def _rounds(
    size: Size, rounds: int, seed: int, program: ContinualProgram, metered: Metered | None
) -> Iterator[tuple[float, int, int]]:
    """(seconds, round trips, bytes) of each warm round: edits, solve, rounding."""
    from copter.problems.sia.steady import SteadyReplay
    from copter.solvers.registry import make_solver

    threads = None if metered is None else 1
    solver = make_solver("copter", tolerance=_TOLERANCE, threads=threads)
    replay = SteadyReplay(size.gpus, size.jobs, rounds, solver, seed=seed, program=program)
    for index, _ in enumerate(islice(replay.simulator.run(), rounds)):
        decided = replay.scheduler.last
        assert decided is not None
        calls, nbytes = (0, 0) if metered is None else (metered.calls, metered.nbytes)
        if index >= _LEFT_OUT:
            yield decided.edit_seconds + decided.solve_seconds + decided.shim_seconds, calls, nbytes
        if metered is not None:
            metered.calls = metered.nbytes = 0


def _sizes(text: str) -> list[Size]:
    sizes = []
    for part in text.split(","):
        found = re.fullmatch(r"\s*([1-9]\d*)x([1-9]\d*)\s*", part)
        if found is None:
            why = f"{part.strip()!r} is no size: give some like 1024x200"
            raise typer.BadParameter(why, param_hint="--sizes")
        sizes.append(Size(int(found[1]), int(found[2])))
    return sizes
