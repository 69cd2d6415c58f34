"""Rounds: loop that plays the rounds of a domain, with a deadline and a journal.

A round has four parts. Events become edits. The solver solves the program until the deadline minus the
expected time of rounding. The domain makes an answer from the solution. The answer takes effect. If the
answer would be late or does not exist, the round falls back to the last answer, repaired by the domain. The
record of the round has the reason.

The deadline is the deadline of the whole round. It is on the clock of this thread (:mod:`copter.clock`), so
that a solver called by a shim, for example branch and bound, uses the remaining time.
"""

from __future__ import annotations

import asyncio
import copy
import math
import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from os import PathLike
from typing import Any, NamedTuple

import numpy as np

from copter.clock import Clock, Interrupted, current, running
from copter.errors import (
    ConcurrentUseError,
    CopterError,
    DomainError,
    NoAllocationError,
    SettingError,
    UnplacedError,
)
from copter.keywords import Checked
from copter.metrics import Metrics
from copter.program.sense import in_sense
from copter.proof.whole import answer_gap
from copter.rounds.domain import Domain
from copter.rounds.journal import RoundJournal
from copter.rounds.record import Path, RoundRecord, Seconds, figure_of
from copter.solution import Solution
from copter.solvers.base import Solver, takes_start
from copter.solvers.registry import make_solver
from copter.solvers.settings import as_limit

_NEEDED = ("program", "apply", "round", "fallback", "accept")
_UNKNOWN_SHARE = 0.1
"""Fraction of the deadline that is reserved for rounding until the first rounding has been timed."""
_MOST_SHARE = 0.5
"""Largest fraction of the deadline that is reserved for rounding."""
_WARM_UP_ROUNDS = 3
"""Number of rounds that :meth:`Rounds.warm_up` plays."""


class _Made(NamedTuple):
    """Answer of a round, its source, and the time at which the solver ended."""

    answer: Any
    path: Path
    late: bool
    reason: str
    solution: Any
    solved: float


class Rounds(Checked):
    """Loop that plays the rounds of a domain.

    Parameters
    ----------
    domain : Domain
        Model that implements :class:`copter.Domain`.
    solver : str or Solver
        Name that `copter solvers` lists, or a new solver.
    time_limit : float, optional
        Seconds of a whole round. None for no limit.
    journal : path-like, optional
        SQLite file from which the rounds continue after a restart. If the file has a state, it replaces the
        state of the domain. The file is read by pickle, which can run code, so open only files that you
        trust.
    metrics : bool or Metrics
        True, or a Metrics, to count every round in :attr:`metrics`.

    Attributes
    ----------
    number : int
        Number of rounds accepted so far.
    events : int
        Number of events applied so far, including events of the round that is not accepted yet. After a
        restart, send the event with this number next, counted from 0.
    answer : object
        Answer that was accepted last; None before the first round.

    Raises
    ------
    DomainError
        If a member of the protocol is missing.
    SettingError
        If the solver or the deadline is invalid.
    FileError
        If the journal is damaged, or not a journal of rounds.

    Examples
    --------
    >>> from copter import ContinualProgram, Rounds
    >>> class Cores:
    ...     def __init__(self):
    ...         self.program, self.given = ContinualProgram(), {}
    ...         self.program.add_resource("core", upper=4)
    ...     def apply(self, event):
    ...         job, value = event
    ...         self.program.add_request(job, [-value], {"core": 1}, total=3)
    ...     def round(self, solution):
    ...         return {job: float(solution.x[job][0]) for job in self.program.request_ids}
    ...     def fallback(self):
    ...         return self.given
    ...     def accept(self, answer):
    ...         self.given = answer
    >>> rounds = Rounds(Cores())
    >>> record = rounds.play(("web", 2.0), ("batch", 1.0))
    >>> record.path, {job: round(cores) for job, cores in record.answer.items()}
    ('solved', {'web': 3, 'batch': 1})
    """

    def __init__(
        self,
        domain: Domain,
        solver: str | Solver = "copter",
        *,
        time_limit: float | None = None,
        journal: str | PathLike[str] | None = None,
        metrics: bool | Metrics = False,
    ) -> None:
        if isinstance(domain, type):
            raise DomainError(f"Rounds needs an instance of {domain.__name__} and not the class itself")
        for name in _NEEDED:
            if not hasattr(domain, name):
                raise DomainError(f"{type(domain).__name__} must have {name}; see copter.Domain")
        if not isinstance(solver, str) and not hasattr(solver, "solve"):
            raise SettingError("Rounds", "solver", solver, "must be the name of a solver, or a solver")
        self.domain = domain
        self.solver = make_solver(solver) if isinstance(solver, str) else solver
        self.time_limit = time_limit
        self.metrics = (Metrics() if metrics is True else metrics) or None
        self.number = self.events = 0
        self.answer: Any = None
        self._pending = 0
        self._rounding, self._falling_back, self._overrun = _Expected(), _Expected(), _Expected()
        self._busy = threading.Lock()
        self._waiting: list[tuple[tuple[Any, ...], asyncio.Future[RoundRecord]]] = []
        self._under_way: asyncio.Task[None] | None = None
        self._journal: RoundJournal | None = None
        if journal is not None:
            self._journal = RoundJournal(journal)
            try:
                self._resume(self._journal)
            except BaseException:
                self._journal.close()
                raise

    def __repr__(self) -> str:
        limit = "no deadline" if self.time_limit is None else f"{self.time_limit:g} s a round"
        return f"<Rounds of {type(self.domain).__name__}: {self.number} accepted, {limit}>"

    @property
    def time_limit(self) -> float | None:
        """Seconds of a whole round; None for no limit. It can be changed between rounds."""
        return self._time_limit

    @time_limit.setter
    def time_limit(self, value: float | None) -> None:
        try:
            self._time_limit = None if value is None else as_limit(value)
        except ValueError as error:
            raise SettingError("Rounds", "time_limit", value, str(error)) from None

    def __enter__(self) -> Rounds:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the journal, which has all accepted rounds."""
        if self._journal is not None:
            self._journal.close()

    def warm_up(self) -> None:
        """Compile or load the code that rounds need, so that the first round does not spend time on it.

        The method plays three rounds on a copy of the domain, with random events if the domain has
        ``events``. Without ``events``, call it after the domain has requests.
        """
        self.solver.warm_up()
        trial: Any = copy.deepcopy(self.domain)
        rounds, rng = Rounds(trial, copy.deepcopy(self.solver)), np.random.default_rng(0)
        for _ in range(_WARM_UP_ROUNDS):
            rounds.play(*(drawn_events(trial, rng) if hasattr(trial, "events") else ()))
            trial.fallback()

    # ---- a round ---------------------------------------------------------------------------------

    def play(self, *events: Any) -> RoundRecord:
        """Play a round: apply events, find an answer by the deadline, and let it take effect.

        Parameters
        ----------
        *events
            Arguments of the domain's ``apply``. If a round ended with an error, its events are part of the
            next round.

        Returns
        -------
        RoundRecord

        Raises
        ------
        ConcurrentUseError
            If another thread plays a round.
        DomainError
            If ``round`` or ``fallback`` edited the program.
        Exception
            Any error of the domain. If ``apply`` raises it, the events before the invalid one are applied, no
            round is played, and a note of the error names the event. If ``round``, ``fallback`` or ``accept``
            raises it, all events are applied, and the next call plays the round again.
        """
        with self._alone():
            clock = Clock(self._time_limit, parent=current())
            self._apply(events)
            return self._finish(clock)

    async def play_async(self, *events: Any) -> RoundRecord:
        """Play a round in a thread; events that arrive during a round count for the next round.

        All calls during a round share the next round and its record. An invalid event raises its error in
        the call that has the event; the other calls continue.

        Parameters
        ----------
        *events
            Arguments of the domain's ``apply``.

        Returns
        -------
        RoundRecord
        """
        done: asyncio.Future[RoundRecord] = asyncio.get_running_loop().create_future()
        self._waiting.append((events, done))
        if self._under_way is None:
            self._under_way = asyncio.ensure_future(self._play_waiting())
        return await done

    async def _play_waiting(self) -> None:
        """Play rounds in a thread until no call waits for a round."""
        try:
            while self._waiting:
                calls, self._waiting = self._waiting, []
                await asyncio.to_thread(self._play_for, calls, asyncio.get_running_loop())
        finally:
            self._under_way = None

    def _play_for(
        self,
        calls: list[tuple[tuple[Any, ...], asyncio.Future[RoundRecord]]],
        loop: asyncio.AbstractEventLoop,
    ) -> None:
        """Play one round for several calls, and give each its record or its error."""
        served = []
        try:
            with self._alone():
                clock = Clock(self._time_limit)
                for events, done in calls:
                    try:
                        self._apply(events)
                        served.append(done)
                    except Exception as error:
                        loop.call_soon_threadsafe(_settle, done, None, error)
                if served:
                    record = self._finish(clock)
                    for done in served:
                        loop.call_soon_threadsafe(_settle, done, record, None)
        except BaseException as error:
            for _, done in calls:
                loop.call_soon_threadsafe(_settle, done, None, error)
            if not isinstance(error, Exception):
                raise

    def _apply(self, events: tuple[Any, ...]) -> None:
        """Apply events, and write the applied events to the journal."""
        applied, written = 0, []
        try:
            for event in events:
                if self._journal is not None:
                    written.append(self._journal.pack(event))
                self.domain.apply(event)
                applied += 1
        except Exception as error:
            error.add_note(f"event number {applied} (from 0) of {len(events)}: {events[applied]!r}")
            raise
        finally:
            self._pending += applied
            self.events += applied
            if self._journal is not None and applied:
                self._journal.add_events(self.number, written[:applied])

    def _finish(self, clock: Clock) -> RoundRecord:
        """Make an answer, let it take effect, and return the record of the round."""
        with running(clock):
            with clock.patient():
                self._prepare()
                self._start()
            edited = clock()
            made = self._made(clock)
            rounded = clock()
            written = b"" if self._journal is None else self._journal.pack(made.answer)
            with clock.patient():
                figures = dict(getattr(self.domain, "figures", lambda answer: {})(made.answer))
                quality = self._quality(made)
                self.domain.accept(made.answer)
        number, self.number = self.number, self.number + 1
        events, self._pending = self._pending, 0
        self.answer = made.answer
        if self._journal is not None and self._journal.add_answer(number, written):
            self._journal.begin(self.number, self._state())
        seconds = Seconds(edited, made.solved - edited, rounded - made.solved, clock() - rounded)
        solution = _solution_of(made.solution)
        record = RoundRecord(
            number=number,
            edited=events,
            seconds=seconds,
            answer=made.answer,
            bound=quality["bound"],
            gap=quality["gap"],
            late=made.late,
            path=made.path,
            reason=made.reason,
            figures=figures,
            solution=solution,
            objective=quality["objective"],
        )
        if self.metrics is not None:
            name = type(self.domain).__name__
            self.metrics.observe_round(name, made.path, late=made.late, seconds=seconds.total)
            if solution is not None:
                self.metrics.observe(solution, domain=name)
        return record

    def _made(self, clock: Clock) -> _Made:
        """Make the answer of a round, from a solution or as a fallback."""
        solution, solved, late = None, clock(), False
        begun = not clock.over()
        try:
            if not begun:
                raise Interrupted(clock.why())
            solution = self._solve(clock)
            solved = clock()
            if clock.over(self._rounding.seconds):
                self._rounding.fade()  # rounding may have been slow only once
                late, reason = True, _late("the solver", clock)
            else:
                answer = self._unedited("round", solution)
                self._rounding.learn(clock() - solved)
                if not clock.over():
                    return _Made(answer, "solved", False, _why(solution), solution, solved)
                late, reason = True, _late("rounding", clock)
        except Interrupted:
            part = "rounding" if solution is not None else "the solver" if begun else "edits"
            late, reason = True, _late(part, clock)
        except (NoAllocationError, UnplacedError) as none:
            late = clock.over() or getattr(none, "status", "") == "deadline"
            reason = str(none)
        begin = clock()
        with clock.patient():
            answer = self._unedited("fallback")
        self._falling_back.learn(clock() - begin)
        return _Made(answer, "fallback", late, reason, solution, begin if solution is None else solved)

    def _prepare(self) -> None:
        """Call the domain's ``prepare``, if it has one."""
        getattr(self.domain, "prepare", lambda: None)()

    def _start(self) -> None:
        """Give the solver the start that the domain provides, if there is one."""
        start = getattr(self.domain, "start", None)
        if start is not None and takes_start(self.solver):
            begin = start()
            if begin is not None:
                self.solver.start_from(self._program, *begin)

    def _solve(self, clock: Clock) -> Any:
        """Solve the program by a deadline that leaves time for rounding or for the fallback."""
        wanted = max(self._rounding.seconds, self._falling_back.seconds)
        if not (self._rounding.known or math.isinf(clock.deadline)):
            wanted = max(wanted, _UNKNOWN_SHARE * clock.deadline)
        left = clock.left(min(wanted + 2.0 * self._overrun.seconds, _MOST_SHARE * clock.deadline))
        time_limit = None if math.isinf(left) else left
        own, begin = getattr(self.domain, "solve", None), clock()
        if own is None:
            solution = self.solver.solve(self._program, time_limit=time_limit)
        else:
            with running(Clock(time_limit, parent=clock)):
                solution = own(self.solver)
        if time_limit is not None:
            self._overrun.learn(max(0.0, clock() - begin - time_limit))
        return solution

    def _quality(self, made: _Made) -> dict[str, float]:
        """Return the objective, the bound and the gap of an answer that is not accepted yet."""
        found = {name: figure_of(made.answer, name) for name in ("objective", "bound", "gap")}
        solution = made.solution if isinstance(made.solution, Solution) else None
        stated = callable(getattr(self.domain, "objective", None))
        if solution is not None and math.isnan(found["bound"]) and (stated or made.path == "solved"):
            found["bound"] = solution.bound
        if stated:
            found["objective"] = value = float(self._unedited("objective", made.answer))
            gap = None if solution is None else answer_gap(solution, in_sense(value, solution.sense))
            found["gap"] = math.nan if gap is None else gap
        return found

    def _unedited(self, method: str, *given: Any) -> Any:
        """Call a method of the domain that must not edit the program."""
        program = self._program
        before = None if program is None else program.store.clock
        try:
            return getattr(self.domain, method)(*given)
        finally:
            if program is not None and program.store.clock != before:
                name = f"{type(self.domain).__name__}.{method}"
                raise DomainError(f"{name} edited the program; only apply, prepare and accept may edit it")

    @property
    def _program(self) -> Any:
        """Program of the domain, or None."""
        return self.domain.program

    @contextmanager
    def _alone(self) -> Iterator[None]:
        if not self._busy.acquire(blocking=False):
            raise ConcurrentUseError("another round is running; use play_async to queue events")
        try:
            yield
        finally:
            self._busy.release()

    # ---- restarts --------------------------------------------------------------------------------

    def _state(self) -> dict[str, Any]:
        """Return the state from which a restart continues."""
        kept: Any = None
        program = self._program
        if program is not None and hasattr(self.solver, "save_state"):
            try:
                kept = self.solver.kind, self.solver.save_state(program)
            except CopterError:  # this solver has no state that can be written
                kept = None
        return {"domain": self.domain, "answer": self.answer, "events": self.events, "solver": kept}

    def _resume(self, journal: RoundJournal) -> None:
        """Restore the state and replay the entries of the journal, or write a first state."""
        found = journal.state()
        if found is None:
            journal.begin(0, self._state())
            return
        self.number, state = found
        _take_over(self.domain, state["domain"])
        self.answer, self.events = state["answer"], state["events"]
        if state["solver"] is not None and state["solver"][0] == self.solver.kind:
            self.solver.load_state(self._program, state["solver"][1])
        try:
            for kind, content in journal.since():
                self._replay(kind, content)
        except Exception as error:
            error.add_note(f"while round {self.number} of {journal.path} was replayed")
            raise

    def _replay(self, kind: str, content: Any) -> None:
        """Replay an entry of the journal."""
        if kind == "event":
            self.domain.apply(content)
            self._pending += 1
            self.events += 1
            return
        self._prepare()
        self.domain.accept(content)
        self.answer, self._pending = content, 0
        self.number += 1


class _Expected:
    """Expected time of a part of a round, in seconds, from the rounds so far."""

    def __init__(self) -> None:
        self.seconds, self.known = 0.0, False

    def learn(self, seconds: float) -> None:
        """Add a measurement: a longer time replaces the expected time, a shorter time is averaged with it."""
        self.seconds = max(seconds, 0.5 * (seconds + self.seconds))
        self.known = True

    def fade(self) -> None:
        """Halve the expected time, so that a part that was slow once is tried again."""
        self.seconds *= 0.5


def drawn_events(domain: Any, rng: np.random.Generator) -> tuple[Any, ...]:
    """Return random events of one more round from a domain; raise DomainError if it has no ``events``."""
    if not hasattr(domain, "events"):
        raise DomainError(f"{type(domain).__name__} must have events(rng), which returns random events")
    events = domain.events(rng)
    if not isinstance(events, Iterable):
        why = "must return an iterable of events, which may be empty"
        raise DomainError(f"{type(domain).__name__}.events returned {events!r}; it {why}")
    return tuple(events)


def _late(what: str, clock: Clock) -> str:
    return f"{what} left no time: {clock():.3g} s of {clock.deadline:.3g} s had passed"


def _solution_of(solved: Any) -> Solution | None:
    """Return the solution in the result of a domain's own ``solve``; None if the result has none."""
    solution = solved if isinstance(solved, Solution) else getattr(solved, "solution", None)
    return solution if isinstance(solution, Solution) else None


def _why(solution: Any) -> str:
    return f"{solution.status}: {solution.reason}" if isinstance(solution, Solution) else ""


def _settle(done: asyncio.Future[RoundRecord], record: Any, error: BaseException | None) -> None:
    if not done.done():
        if error is None:
            done.set_result(record)
        else:
            done.set_exception(error)


def _take_over(domain: Any, read: Any) -> None:
    """Replace the state of a domain with the state of a domain that was read."""
    if type(domain) is not type(read):
        why = f"the journal has a {type(read).__name__}, but the domain is a {type(domain).__name__}"
        raise DomainError(why)
    state = read.__getstate__()
    if hasattr(domain, "__setstate__"):
        domain.__setstate__(state)
    else:
        vars(domain).clear()
        vars(domain).update(state)
