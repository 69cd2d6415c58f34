"""Watching rounds: how long the passes of a solve take, and what goes to the places of a spread program."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from cProfile import Profile
from dataclasses import dataclass
from time import perf_counter
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from copter.bench.course import Course
from copter.bench.round_model import Network, Observation
from copter.bench.settings import SolverSettings
from copter.proof.pricing import price
from copter.solvers.base import Solver
from copter.solvers.wrapper import Wrapper
from copter.store.edit_log import Edit, size_of
from copter.store.lent import Lent
from copter.store.part_store import PartStore
from copter.store.places import Places
from copter.store.where import Part, Task

if TYPE_CHECKING:
    from copter.program.program import ContinualProgram
    from copter.solution import Solution
    from copter.store.store import ConstraintStore

_REPEATS = 30
_CONTENT = 1 << 25
"""Bytes by which the bandwidth is measured."""


class Watched(Wrapper):
    """A solver of whose last solve is known what the passes took."""

    def __init__(self, inner: Solver) -> None:
        super().__init__(inner)
        self.passes, self.pass_seconds = 0, 0.0
        self.last: Solution | None = None

    def solve(
        self, program: ContinualProgram, *, deadline: float | None = None, raise_error: bool = False
    ) -> Solution:
        """The other's answer.

        Parameters
        ----------
        deadline : float, optional
            Seconds.
        """
        profile = Profile()
        profile.enable()
        try:
            self.last = self.inner.solve(program, deadline=deadline, raise_error=raise_error)
        finally:
            profile.disable()
        passes = [entry for entry in profile.getstats() if entry.code is price.__code__]
        self.passes = sum(entry.callcount for entry in passes)
        self.pass_seconds = sum(entry.totaltime for entry in passes)
        return self.last

    def observed(self, program: ContinualProgram, seconds: float, places: Metered | None) -> Observation:
        """The round that has just ended.

        Parameters
        ----------
        seconds : float
            Of editing, solving and rounding.
        places : Metered, optional
            Where its columns are, if they are spread; counted since :meth:`Metered.begin`.
        """
        last = self.last
        assert last is not None and last.pricing is not None
        far = self.pass_seconds if places is None else places.seconds
        return Observation(
            columns=program.n_variables,
            requests=len(program),
            rows=program.n_rows,
            candidates=last.pricing.slot.size,
            steps=last.iterations,
            passes=self.passes,
            tasks=self.passes if places is None else places.calls * places.parts,
            calls=0 if places is None else places.calls,
            nbytes=0 if places is None else places.nbytes,
            driver=seconds - far,
            far=far,
        )


@dataclass(frozen=True)
class _Given(SolverSettings):
    """Settings of a solver that is there already."""

    solver: Solver | None = None

    def make(self) -> Solver:
        """Return it."""
        assert self.solver is not None
        return self.solver


def observations(course: Course, solver: Watched, left_out: int) -> Iterator[Observation]:
    """Play a course; its rounds but the first ones."""
    play = course.play(_Given(solver.name, solver=solver))
    for record in play.records:
        assert play.program is not None
        if record["round"] >= left_out:
            yield solver.observed(play.program, record["t_total"], None)


class Metered:
    """Places whose calls, bytes and seconds are counted."""

    def __init__(self, places: Places) -> None:
        self.places, self.parts = places, places.parts
        self.begin()

    def begin(self) -> None:
        """Count from here."""
        self.calls = self.nbytes = 0
        self.seconds = 0.0

    def send(self, edits: list[Edit]) -> None:
        """See :class:`copter.store.places.Places`."""
        begin = perf_counter()
        self.places.send(edits)
        self.seconds += perf_counter() - begin
        self.nbytes += sum(edit.nbytes for edit in edits)

    def each(self, task: Task, common: tuple[Any, ...], own: Sequence[tuple[Any, ...]] | None) -> list[Any]:
        """See :class:`copter.store.places.Places`.

        Parameters
        ----------
        own : sequence of tuples, optional
        """
        begin = perf_counter()
        found = self.places.each(task, common, own)
        self.seconds += perf_counter() - begin
        self.calls += 1
        self.nbytes += size_of(common) + size_of(own) + size_of(found)
        return found

    def one(self, number: int, task: Task, *arguments: Any) -> Any:
        """See :class:`copter.store.places.Places`."""
        begin = perf_counter()
        found = self.places.one(number, task, *arguments)
        self.seconds += perf_counter() - begin
        self.calls += 1
        self.nbytes += size_of(arguments) + size_of(found)
        return found

    def lend(self, pieces: Sequence[Any]) -> Lent | None:
        """See :class:`copter.store.places.Places`."""
        return self.places.lend(pieces)

    def restore(self, stores: list[PartStore]) -> None:
        """See :class:`copter.store.places.Places`."""
        self.places.restore(stores)

    def told(self) -> dict[str, float]:
        """See :class:`copter.store.places.Places`."""
        return self.places.told()

    def close(self) -> None:
        """See :class:`copter.store.places.Places`."""
        self.places.close()


def round_trip(store: ConstraintStore) -> tuple[float, float]:
    """Seconds of a round trip to all places without content, and bytes a second with much of it.

    Parameters
    ----------
    store : ConstraintStore
        Spread.
    """
    content = np.zeros(_CONTENT // 8 // store.parts)
    own = [(content,)] * store.parts

    def timed(repeats: int, *arguments: Any) -> float:
        times = []
        for _ in range(repeats):
            begin = perf_counter()
            store.each(_returned, own=list(arguments) or None)
            times.append(perf_counter() - begin)
        return float(np.median(times))

    timed(3), timed(1, *own)
    empty, full = timed(_REPEATS), timed(_REPEATS // 5, *own)
    return empty, 2 * _CONTENT / max(full - empty, 1e-9)


def network_of(trips: Sequence[tuple[int, float, float]]) -> Network:
    """What round trips to some numbers of places say of the network.

    Parameters
    ----------
    trips : sequence of (places, seconds, bytes a second)
        Of at least two numbers.
    """
    places, seconds = (np.array([trip[k] for trip in trips]) for k in (0, 1))
    each, latency = np.polyfit(places, seconds, 1)
    least = float(seconds.min())
    return Network(max(float(latency), 0.1 * least), max(float(each), 0.0), min(trip[2] for trip in trips))


def _returned(part: Part, content: NDArray[np.float64] | None = None) -> NDArray[np.float64] | None:
    """What it is given."""
    return content
