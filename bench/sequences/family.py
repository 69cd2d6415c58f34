"""Families: sequences of LPs by name, from generators of general LPs, programs, recordings and domains.

A family is a generator of :class:`~copter.bench.sequences.program.SequenceProgram`: it yields the program
when the edits of a round are complete, and gets the :class:`Optimum` of the round, on which later rounds may
depend. The entry-point group ``copter.sequences`` names functions without arguments that return families.
"""

from __future__ import annotations

import inspect
import itertools
import re
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, get_args

import numpy as np

from copter.bench.recording import Replayer, read_rounds
from copter.bench.sequences.program import SequenceProgram
from copter.errors import DomainError, UnsupportedError, choices
from copter.installed import installed
from copter.rounds.named import domain_named, fresh
from copter.rounds.rounds import Rounds, drawn_events
from copter.store.changes import FlatModel
from copter.store.compiled import compile_program

if TYPE_CHECKING:
    from copter.program.program import ContinualProgram
    from copter.rounds.domain import Domain

_GROUP = "copter.sequences"
Kind: TypeAlias = Literal["columns", "costs", "sides", "rows"]
"""Kind of change: columns that arrive and leave, costs, sides of rows (capacities), rows that come and go."""
KINDS: tuple[Kind, ...] = get_args(Kind)


@dataclass(frozen=True)
class Optimum:
    """Certified optimum of a round.

    Attributes
    ----------
    objective : float
        Objective of the point `x`.
    bound : float
        Lower bound on the optimum, computed from the program and the prices `y`.
    gap : float
        ``abs(objective - bound) / max(1, abs(objective))``.
    violation : float
        Largest violation of a row by the point, relative to the larger of 1 and the violated side. The point
        is within the bounds of the columns.
    x : mapping of str to float
        Values of the columns by name; a column that is missing has the value 0.
    y : mapping of str to float
        Prices of the rows by name, positive for an upper side; a row that is missing has the price 0.
    """

    objective: float
    bound: float
    gap: float
    violation: float
    x: Mapping[str, float]
    y: Mapping[str, float]


SequenceRounds: TypeAlias = Generator[SequenceProgram, Optimum, None]
"""Rounds of a family: programs are yielded, optima are sent."""


@dataclass(frozen=True)
class Family:
    """Family of LPs.

    Attributes
    ----------
    name : str
        Name of its folder.
    description : str
        Sentence about the program and about the changes of a round.
    kinds : sequence of {"columns", "costs", "sides", "rows"}
        Kinds of changes.
    make : callable
        Function from a seed to the rounds. The same seed gives the same rounds.
    """

    name: str
    description: str
    kinds: Sequence[Kind]
    make: Callable[[int], SequenceRounds]


def families() -> dict[str, Family]:
    """Return the families of all installed packages by name, in alphabetical order."""
    found: list[Family] = []
    for entry in installed(_GROUP).values():
        found.extend(entry.load()())
    return {family.name: family for family in sorted(found, key=lambda family: family.name)}


def family_named(name: str) -> Family:
    """Return a family by its name, by the path of a recording, or by ``module:Name`` of a domain.

    Raises
    ------
    UnsupportedError
        There is no such family; the message has the most similar name.
    DomainNameError
        There is no such domain.
    """
    known = families()
    if name in known:
        return known[name]
    if ":" in name:
        return family_of_domain(name)
    if Path(name).is_file():
        return family_of_recording(Path(name))
    raise UnsupportedError(f"no family is called {name!r}: {choices(name, known)}")


def family_of_recording(path: Path) -> Family:
    """Return the family of the rounds in a file of :class:`copter.bench.recording.Recorder`."""

    def programs() -> Iterator[ContinualProgram]:
        replayer = Replayer()
        for edits in read_rounds(path):
            for edit in edits:
                replayer.apply(edit)
            yield replayer.program

    return Family(_plain(path.stem), f"Recording {path.name}.", (), lambda _: rounds_of_programs(programs()))


def family_of_domain(name: str) -> Family:
    """Return the family of random rounds of a domain, ``module:Name`` or ``file.py:Name``."""
    make = domain_named(name)

    def rounds(seed: int) -> SequenceRounds:
        domain = fresh(make)
        if not hasattr(domain, "events") or domain.program is None:
            raise DomainError(f"{name} must have a program and a method events for an export")
        rng = np.random.default_rng(seed)
        return rounds_of_programs(played(domain, (drawn_events(domain, rng) for _ in itertools.count())))

    summary = (inspect.getdoc(make) or name).splitlines()[0]
    return Family(_plain(name.rpartition(":")[2]), summary, (), rounds)


def _plain(name: str) -> str:
    """Return a name for a folder: lower-case letters, digits and hyphens."""
    return re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-") or "family"


def played(domain: Domain, events: Iterable[Iterable[Any]]) -> Iterator[ContinualProgram]:
    """Yield the program of a domain when the edits of a round are complete; copter then plays the round.

    Parameters
    ----------
    domain : Domain
        A domain with a program.
    events : iterable of iterables
        Events of each round.
    """
    rounds = Rounds(domain)
    for of_round in events:
        for event in of_round:
            rounds.domain.apply(event)
        if hasattr(domain, "prepare"):
            domain.prepare()
        assert domain.program is not None
        yield domain.program
        rounds.play()


def rounds_of_programs(programs: Iterable[ContinualProgram]) -> SequenceRounds:
    """Yield the rounds of one program, which is in the state of a round whenever `programs` yields it."""
    mirror: Mirror | None = None
    for program in programs:
        if mirror is None:
            mirror = Mirror(program)
        else:
            mirror.update()
        yield mirror.program


class Mirror:
    """A :class:`SequenceProgram` that follows a program of requests and resources.

    Attributes
    ----------
    program : SequenceProgram
        State of the program at the last :meth:`update`.
    """

    def __init__(self, program: ContinualProgram) -> None:
        self.program = SequenceProgram()
        first = compile_program(program)
        sides = zip(first.row_lower.tolist(), first.row_upper.tolist(), strict=True)
        self._rows = [self.program.add_row(*each) for each in sides]
        self._columns: list[str] = []
        self._add_columns(first.c, first.upper, first.A.indptr, first.A.indices, first.A.data)
        self._flat = FlatModel(program)

    def update(self) -> None:
        """Apply the edits since the last call."""
        changes, own = self._flat.changes(), self.program
        for name in _pop(self._columns, changes.deleted_columns):
            own.remove_column(name)
        for name in _pop(self._rows, changes.deleted_rows):
            own.remove_row(name)
        for at, cost in zip(changes.cost_columns.tolist(), changes.costs.tolist(), strict=True):
            own.set_cost(self._columns[at], cost)
        for at, upper in zip(changes.bound_columns.tolist(), changes.upper.tolist(), strict=True):
            own.set_bounds(self._columns[at], 0.0, upper)
        sides = changes.side_rows.tolist(), changes.row_lower.tolist(), changes.row_upper.tolist()
        for at, lower, upper in zip(*sides, strict=True):
            own.set_sides(self._rows[at], lower, upper)
        new = changes.new_rows
        ends = np.append(new.starts[1:], new.values.size).tolist() if new.starts.size else []
        for lower, upper, begin, end in zip(
            new.lower.tolist(), new.upper.tolist(), new.starts.tolist(), ends, strict=True
        ):
            of_row = (self._columns[at] for at in new.columns[begin:end].tolist())
            entries = dict(zip(of_row, new.values[begin:end].tolist(), strict=True))
            self._rows.append(own.add_row(lower, upper, entries))
        added = changes.new_columns
        pointer = np.append(added.starts, added.values.size)
        self._add_columns(added.costs, added.upper, pointer, added.rows, added.values)

    def _add_columns(
        self,
        costs: np.ndarray,
        upper: np.ndarray,
        pointer: np.ndarray,
        rows: np.ndarray,
        values: np.ndarray,
    ) -> None:
        """Append columns with their entries as in CSC."""
        names, coefficients, ends = self._rows, values.tolist(), pointer.tolist()
        at = rows.tolist()
        for j, (cost, most) in enumerate(zip(costs.tolist(), upper.tolist(), strict=True)):
            entries = {names[at[k]]: coefficients[k] for k in range(ends[j], ends[j + 1])}
            self._columns.append(self.program.add_column(cost, most, entries))


def _pop(names: list[str], positions: np.ndarray) -> list[str]:
    """Remove the names in some positions from a list, and return them."""
    gone = [names[at] for at in positions.tolist()]
    for at in reversed(positions.tolist()):
        del names[at]
    return gone
