"""Rounds recorded once as deltas, so that every solver sees exactly the same edits.

A recording is a file of pickled deltas ``(verb, arguments)`` with a mark at the end of each round.  It is
read delta by delta, at most one of them in memory: a replay's peak memory is the program's and the
solver's.
"""

from __future__ import annotations

import functools
import importlib
import inspect
import pickle
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Any, BinaryIO, Self

from copter.bench.course import Course, Play, Record, solve_round
from copter.program import VERBS, ContinualProgram, Template

if TYPE_CHECKING:
    from copter.bench.rounds import SolverSettings
    from copter.solution import Solution
    from copter.solvers.base import Solver

Delta = tuple[str, dict[str, Any]]


@dataclass(frozen=True)
class TemplateRef:
    """Stands for the `index`-th template that a recording adds."""

    index: int


class Recorder:
    """Writes the deltas of a :class:`RecordingProgram`, round by round.

    Parameters
    ----------
    path : Path
        File to write; overwritten.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.rounds = 0
        self._file: BinaryIO = path.open("wb")

    def write(self, delta: Delta) -> None:
        """Append one delta to the round under way."""
        pickle.dump(delta, self._file, protocol=pickle.HIGHEST_PROTOCOL)

    def end_round(self) -> None:
        """Close the round: a solve belongs here."""
        pickle.dump(None, self._file, protocol=pickle.HIGHEST_PROTOCOL)
        self.rounds += 1

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self._file.close()


class RecordingProgram(ContinualProgram):
    """A program that also writes every verb it is given, with its arguments, to a recorder."""

    def __init__(self, recorder: Recorder) -> None:
        super().__init__()
        self._recorder = recorder
        self._inside = False
        self._template_index: dict[int, int] = {}
        self._template_count = 0

    def _record(self, verb: str, arguments: dict[str, Any]) -> None:
        self._recorder.write((verb, {name: self._symbolic(value) for name, value in arguments.items()}))

    def _symbolic(self, value: Any) -> Any:
        return TemplateRef(self._template_index[value.slot]) if isinstance(value, Template) else value


def _recorded(verb: str) -> Callable[..., Any]:
    original = getattr(ContinualProgram, verb)
    signature = inspect.signature(original)

    @functools.wraps(original)
    def run(self: RecordingProgram, *args: Any, **kwargs: Any) -> Any:
        if self._inside:  # one verb in terms of another: the outer one is the delta
            return original(self, *args, **kwargs)
        arguments = dict(signature.bind(self, *args, **kwargs).arguments)
        del arguments["self"]
        self._inside = True
        try:
            result = original(self, *args, **kwargs)
        finally:
            self._inside = False
        self._record(verb, arguments)
        if isinstance(result, Template):
            self._template_index[result.slot] = self._template_count
            self._template_count += 1
        return result

    return run


for _verb in VERBS:
    setattr(RecordingProgram, _verb, _recorded(_verb))


def read_rounds(path: Path, rounds: int | None = None) -> Iterator[Iterator[Delta]]:
    """Iterate over the rounds of a recording, each an iterator over its deltas, to be exhausted before
    the next round is asked for.

    Parameters
    ----------
    path : Path
        A file written by :class:`Recorder`.
    rounds : int, optional
        Stop after this many.
    """
    with path.open("rb") as file:
        done = 0
        while file.peek(1) and (rounds is None or done < rounds):
            yield iter(functools.partial(pickle.load, file), None)
            done += 1


class Replayer:
    """Applies recorded deltas to a program of its own.

    Attributes
    ----------
    program : ContinualProgram
    """

    def __init__(self) -> None:
        self.program = ContinualProgram()
        self._templates: list[Template] = []

    def apply(self, delta: Delta) -> None:
        """Apply one delta."""
        verb, arguments = delta
        resolved = {name: self._resolve(value) for name, value in arguments.items()}
        result = getattr(self.program, verb)(**resolved)
        if isinstance(result, Template):
            self._templates.append(result)

    def _resolve(self, value: Any) -> Any:
        return self._templates[value.index] if isinstance(value, TemplateRef) else value


@dataclass(frozen=True)
class Recorded(Course):
    """Recorded rounds to measure, and what belongs to them.

    Attributes
    ----------
    rounds, warm_up : Path
        The recording, and a small one of the same kind that is run first, untimed.
    shim : str
        ``module:name`` of a class without arguments whose ``round(program, solution)`` returns an object with
        `objective`, `gap` and `seconds`.
    """

    rounds: Path
    warm_up: Path
    shim: str

    def small(self) -> Recorded:
        """Return the recording to warm up with."""
        return Recorded(self.warm_up, self.warm_up, self.shim)

    def play(self, settings: SolverSettings) -> Play:
        """Replay the recording through a solver."""
        solver, replayer = settings.make(), Replayer()
        return Play(self._records(solver, replayer), solver.stopping(), replayer.program)

    def _records(self, solver: Solver, replayer: Replayer) -> Iterator[Record]:
        module, _, name = self.shim.partition(":")
        shim = getattr(importlib.import_module(module), name)()

        def finish(solution: Solution) -> Record:
            if not solution.found:
                return {}
            rounded = shim.round(replayer.program, solution)
            return {"integral_objective": rounded.objective, "integral_gap": rounded.gap}

        for number, deltas in enumerate(read_rounds(self.rounds)):
            t_store = 0.0
            for delta in deltas:
                begin = perf_counter()
                replayer.apply(delta)
                t_store += perf_counter() - begin
            yield solve_round(number, replayer.program, solver, t_store, finish)
