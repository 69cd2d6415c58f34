"""Checks of domains: rounds with random events and with injected failures.

A run plays rounds of a new domain with events that the domain itself draws (:meth:`Domain.events`). After
each round it checks the protocol of :class:`copter.rounds.domain.Domain`:

======================== ===================================================================================
feasible                 no answer exceeds a resource or the total of a request, computed from the program's
                         arrays
bound                    the solver's bound is below, and the objectives of solution and answer are above, the
                         optimum that HiGHS finds for a new copy of the program, within the tolerance
unchanged                ``round``, ``fallback``, ``figures`` and ``events`` change nothing
late                     a round whose solver or rounding uses up the deadline, or that has no allocation,
                         falls back to a feasible answer
error                    an exception in ``round`` or ``accept`` leaves the domain unchanged; so does the
                         rejection of a repeated event, or of an event with an invalid number
raised                   a round raises no other error
restart                  a domain that continues from the journal has the same program and the same fallback,
                         and can play more rounds
======================== ===================================================================================

For a failure, the run searches for a smaller one: it leaves out events as long as the same check fails.

The run applies events with invalid numbers to copies of the domain, which takes most of its time. At most
:data:`_DAMAGED` of the possible copies of an event are tried.
"""

from __future__ import annotations

import copy
import math
import pickle
import tempfile
from collections import Counter
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass, replace
from pathlib import Path
from time import monotonic
from typing import Any, TypeAlias
from unittest.mock import patch

import numpy as np

import copter.clock
from copter.errors import CopterError, DomainError, NoAllocationError
from copter.program.program import ContinualProgram
from copter.program.sense import in_sense
from copter.rounds.named import fresh
from copter.rounds.record import RoundRecord
from copter.rounds.rounds import Rounds, drawn_events
from copter.solution import Allocation
from copter.solvers.base import Solver
from copter.solvers.registry import make_solver

_FEASIBLE = 1e-6
"""Tolerance of resources, relative to the larger of the bound and 1."""
_TOLERANCE = 1e-5
"""Tolerance of the solver, and relative tolerance of its bound and objective."""
_SHRINKING = 200
"""Largest number of runs that search for a smaller failure."""
_DAMAGED = 16
"""Largest number of invalid copies of an event."""
_EXTRA = 0.25
"""Share of the time limit that the search for a smaller failure may use in any case."""
_LONG = 1e6
"""Seconds by which a clock is advanced to make a round late."""


class CheckFailedError(CopterError, AssertionError):
    """A domain failed a check; play `rounds` to reproduce the failure.

    Attributes
    ----------
    check : str
        Name of the check.
    why : str
        Description of the failure.
    rounds : list of lists of events
        Events of each round of the smallest failing sequence that was found. The last round fails.
    """

    def __init__(self, check: str, why: str, rounds: Sequence[Sequence[Any]] = ()) -> None:
        self.check, self.why, self.rounds = check, why, [list(each) for each in rounds]
        super().__init__(check, why, self.rounds)

    def __str__(self) -> str:
        lines = [f"{self.check}: {self.why}"]
        lines += [f"  round {k}: {', '.join(map(repr, each)) or '-'}" for k, each in enumerate(self.rounds)]
        return "\n".join(lines)


@dataclass(frozen=True)
class _Step:
    """Round of a run: its events and its kind, one of :data:`KINDS`."""

    events: tuple[Any, ...]
    kind: str


KINDS = ("plain", "late solver", "late rounding", "no allocation", "broken round", "broken accept", "restart")
"""Kinds of checked rounds; all of them also apply invalid events."""


Progress: TypeAlias = Callable[[int, str], None]
"""Function that gets the number of rounds played so far, and a text that says what is done next."""


def check_domain(
    make: Callable[[], Any],
    *,
    rounds: int = 100,
    seed: int = 0,
    solver: str = "copter",
    seconds: float | None = None,
    progress: Progress = lambda played, now: None,
) -> Counter[str]:
    """Play random rounds of a domain and check the protocol.

    Parameters
    ----------
    make : callable
        Class, or function without arguments, that makes a new domain.
    rounds, seed : int
        Number of rounds, and seed of the events and of the kinds of rounds.
    solver : str
        Name that `copter solvers` lists.
    seconds : float, optional
        Time limit in seconds, None for no limit. After it, no round begins, and the present round tries no
        more invalid events. The search for a smaller failure may then take another quarter of the limit.
    progress : callable, optional
        Function that is called before each round, with the number of rounds played so far and a text.

    Returns
    -------
    Counter of str
        Number of rounds of each kind, and of checks.

    Raises
    ------
    CheckFailedError
        If a check fails. The error has the smallest failing sequence of events that was found.
    DomainError
        If the domain has no ``events``, or its answers cannot be checked.
    """
    steps: list[_Step] = []
    limit = _Limit(math.inf if seconds is None else seconds)
    try:
        return _Run(make, solver, seed, limit).play_random(rounds, steps, progress)
    except CheckFailedError as failed:
        limit.extend(_EXTRA)
        played, check = len(steps) - 1, failed.check

        def tell(tried: int, left: int) -> None:
            progress(played, f"{check} failed; smaller failures tried: {tried}, events left: {left}")

        raise _smallest(failed, steps, lambda: _Run(make, solver, seed, limit), limit, tell) from failed


class _Limit:
    """Time limit, in seconds from now, that does not use the clock of the rounds."""

    def __init__(self, seconds: float) -> None:
        self.seconds, self._until = seconds, monotonic() + seconds

    def over(self) -> bool:
        """Return whether the time is up."""
        return monotonic() >= self._until

    def extend(self, share: float) -> None:
        """Leave at least a share of the time limit from now on."""
        self._until = max(self._until, monotonic() + share * self.seconds)


class _Run:
    """Run of checked rounds of a new domain."""

    def __init__(self, make: Callable[[], Any], solver: str, seed: int, limit: _Limit) -> None:
        self.make, self.seed, self.limit, self.counts = make, seed, limit, Counter[str]()
        self.domain = fresh(make)
        self.solver: Solver = make_solver(solver, tolerance=_TOLERANCE)
        self.rounds = Rounds(self.domain, self.solver)

    def play_random(self, rounds: int, steps: list[_Step], progress: Progress) -> Counter[str]:
        """Play rounds with random events until the time is up, and append them to ``steps``."""
        rng = np.random.default_rng(self.seed)
        for number in range(rounds):
            if number and self.limit.over():
                break
            before = _state_of(self.domain)
            events = drawn_events(self.domain, rng)
            if _state_of(self.domain) != before:
                raise CheckFailedError("unchanged", "events changed the domain")
            kind = KINDS[number % len(KINDS)] if number < len(KINDS) else str(rng.choice(KINDS))
            steps.append(_Step(events, kind))
            size = "" if self.domain.program is None else f", requests: {len(self.domain.program)}"
            progress(number, f"{kind} round (events: {len(events)}{size})")
            self.play(steps[-1])
        return self.counts

    def play(self, step: _Step) -> None:
        """Play a round and check it."""
        try:
            for event in step.events:
                self.domain.apply(event)
                self.counts["events"] += 1
                self._refused(event)
            getattr(self.domain, "prepare", lambda: None)()
            self._check_feasible(self.domain, self.domain.fallback(), "fallback")
            record = _PLAYS[step.kind](self)
            self._check_answer(record)
            self._check_bound(record)
        except (CheckFailedError, DomainError):
            raise
        except Exception as error:
            raise CheckFailedError("raised", f"{type(error).__name__}: {error}") from error
        self.counts[step.kind] += 1

    # ---- kinds of rounds -------------------------------------------------------------------------

    def plain(self) -> RoundRecord:
        """Play a round without a failure."""
        return self.rounds.play()

    def late(self, which: str) -> RoundRecord:
        """Play a round in which the solver or the rounding exceeds the deadline."""
        clock = _Moved()
        slow = _Slow(self.domain, which, clock)
        late = Rounds(slow, self.solver, time_limit=1.0)
        with patch.object(copter.clock, "perf_counter", clock):
            record = late.play()
        if record.path != "fallback" or not record.late or not record.reason:
            raise CheckFailedError("late", f"a round whose {which} was late returned {record.row()}")
        self.counts["late"] += 1
        return record

    def missed(self) -> RoundRecord:
        """Play a round without an allocation."""
        record = Rounds(_Missed(self.domain), self.solver).play()
        if record.path != "fallback" or record.late:
            raise CheckFailedError("late", f"a round without an allocation returned {record.row()}")
        self.counts["late"] += 1
        return record

    def broken(self, method: str) -> RoundRecord:
        """Play a round in which a method raises an error, and then the same round again."""
        before = _state_of(self.domain, prepared=True)
        broken = Rounds(_Broken(self.domain, method), self.solver)
        try:
            broken.play()
        except _Fault:
            pass
        else:
            raise CheckFailedError("error", f"an error in {method} was not raised to the caller")
        if _state_of(self.domain, prepared=True) != before:
            raise CheckFailedError("error", f"an error in {method} changed the domain")
        self.counts["error"] += 1
        return self.rounds.play()

    def restarted(self) -> RoundRecord:
        """Play a round with a journal, and continue from the journal with a new domain."""
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder, "rounds.sqlite")
            with Rounds(self.domain, self.solver, journal=path) as written:
                record = written.play()
            self._check_answer(record)
            other = self.make()
            with Rounds(other, self.solver.name, journal=path) as read:
                if _program_of(self.domain) != _program_of(other) or read.number != 1:
                    raise CheckFailedError("restart", "the program differs after the restart")
                if _figures(self.domain) != _figures(other):
                    raise CheckFailedError("restart", "the fallback differs after the restart")
                again = read.play()
            self._check_answer(again, other)
        return self.rounds.play()

    # ---- checks ----------------------------------------------------------------------------------

    def _refused(self, event: Any) -> None:
        """Apply events that may be invalid: the same event again, and the event with invalid numbers.

        A rejected event must not change the domain.
        """
        copied, before = None, b""
        for other in (event, *_spread([*_damaged(event)], _DAMAGED)):
            if self.limit.over():
                return
            if copied is None:
                copied = copy.deepcopy(self.domain)
                before = _state_of(copied)
            try:
                copied.apply(other)
            except Exception as error:
                self.counts["refused"] += 1
                if _state_of(copied) != before:
                    why = f"event {other!r} was rejected ({error}) and changed the domain"
                    raise CheckFailedError("error", why) from error
            else:
                copied = None  # this event was applied, so the next one needs another copy

    def _check_answer(self, record: RoundRecord, domain: Any = None) -> None:
        """Check that an answer and the next fallback are feasible, and that checking changes nothing."""
        domain = self.domain if domain is None else domain
        before = _state_of(domain)
        for answer, path in ((record.answer, record.path), (domain.fallback(), "fallback")):
            self._check_feasible(domain, answer, path)
            if hasattr(domain, "figures"):
                dict(domain.figures(answer))
        if _state_of(domain) != before:
            raise CheckFailedError("unchanged", "fallback, violations or figures changed the domain")

    def _check_feasible(self, domain: Any, answer: Any, path: str) -> None:
        for wrong in violations(domain, answer):
            raise CheckFailedError("feasible", f"{path}: {wrong}")
        self.counts["feasible"] += 1

    def _check_bound(self, record: RoundRecord) -> None:
        """Compare bound and objective of the solver with the optimum of HiGHS for a copy of the program."""
        program, solution = self.domain.program, record.solution
        if solution is None or program is None or not solution.found or len(program) == 0:
            return
        if solution.clock != program.store.clock:
            return  # accept edited the program
        if program.store.terms:
            return  # HiGHS does not support convex terms
        exact = make_solver("highs-hot").solve(rebuilt(program))
        if str(exact.status) != "optimal":
            return
        found, best = solution.certificate, exact.certificate.objective  # costs, in both senses
        size = max(1.0, abs(best), solution.gap_denominator)
        stated = record.path == "solved" and callable(getattr(self.domain, "objective", None))
        if stated and (best - in_sense(record.objective, program.sense)) / size > _TOLERANCE:
            why = f"the answer has the objective {record.objective!r}, but the optimum is {exact.objective!r}"
            raise CheckFailedError("bound", why)
        below = (found.bound - best) / size
        above = (best - found.objective) / size
        if below > _TOLERANCE or (above > _TOLERANCE and solution.primal_residual <= _TOLERANCE * 1e-3):
            own = f"bound {solution.bound!r}, objective {solution.objective!r}"
            raise CheckFailedError("bound", f"{own}, but the optimum of HiGHS is {exact.objective!r}")
        if str(solution.status) == "optimal" and found.objective - best > 2 * _TOLERANCE * size:
            why = f"optimal at {solution.objective!r}, but the optimum of HiGHS is {exact.objective!r}"
            raise CheckFailedError("bound", why)
        self.counts["bound"] += 1


_PLAYS: Mapping[str, Callable[[_Run], RoundRecord]] = {
    "plain": _Run.plain,
    "late solver": lambda run: run.late("solve"),
    "late rounding": lambda run: run.late("round"),
    "no allocation": _Run.missed,
    "broken round": lambda run: run.broken("round"),
    "broken accept": lambda run: run.broken("accept"),
    "restart": _Run.restarted,
}


# ---- injected failures -----------------------------------------------------------------------------


class _Fault(Exception):
    """Error that a check injects into a domain."""


class _Wrapped:
    """Domain whose methods can be replaced by a subclass."""

    def __init__(self, domain: Any) -> None:
        self._domain = domain

    def __getattr__(self, name: str) -> Any:
        if name == "_domain":
            raise AttributeError(name)
        return getattr(self._domain, name)


class _Moved:
    """Clock that stands still until it is advanced."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


class _Slow(_Wrapped):
    """Domain with a method that takes too long, according to a given clock."""

    def __init__(self, domain: Any, which: str, clock: _Moved) -> None:
        super().__init__(domain)
        self._which, self._clock = which, clock

    def solve(self, solver: Solver) -> Any:
        own = getattr(self._domain, "solve", None)
        found = own(solver) if own else solver.solve(self._domain.program)
        if self._which == "solve":
            self._clock.now += _LONG
        return found

    def round(self, solution: Any) -> Any:
        answer = self._domain.round(solution)
        self._clock.now += _LONG
        return answer


class _Missed(_Wrapped):
    """Domain whose solution has no allocation."""

    def round(self, solution: Any) -> Any:
        raise NoAllocationError("infeasible", "injected by a check")


class _Broken(_Wrapped):
    """Domain with a method that raises an error; ``round`` raises it after its work, ``accept`` before."""

    def __init__(self, domain: Any, method: str) -> None:
        super().__init__(domain)
        self._method = method

    def round(self, solution: Any) -> Any:
        answer = self._domain.round(solution)
        if self._method == "round":
            raise _Fault
        return answer

    def accept(self, answer: Any) -> None:
        if self._method == "accept":
            raise _Fault
        self._domain.accept(answer)


# ---- domains and their answers -----------------------------------------------------------------------


def violations(domain: Any, answer: Any) -> Iterator[str]:
    """Yield descriptions of the constraints that an answer violates.

    If the domain has a method ``violations``, this method computes them. Otherwise they are computed from the
    program. The answer then has an attribute ``x`` (amounts of columns by request) or ``choice`` (a column,
    or None, by request), or is itself a mapping of request id to a column, to amounts by column, or to an
    array. For a request with one column, the mapping can have the amount of this column as a float.
    """
    own = getattr(domain, "violations", None)
    if own is not None:
        yield from own(answer)
        return
    program: ContinualProgram = domain.program
    yield from overdrawn(program, amounts_of(program, answer), getattr(answer, "short", None))


def overdrawn(
    program: ContinualProgram,
    amounts: Mapping[Hashable, Mapping[int, float]],
    short: Mapping[Hashable, float] | None = None,
) -> Iterator[str]:
    """Yield descriptions of the resources and requests that amounts of columns exceed.

    Lower bounds are checked only if `short` is given: the amounts by which resources may miss them.
    """
    used: dict[Hashable, float] = dict.fromkeys(program.resource_ids, 0.0)
    for request, columns in amounts.items():
        if request not in program:
            if columns:
                yield f"request {request!r} has {dict(columns)} and is not in the program"
            continue
        one = program.requests[request]
        total = math.fsum(columns.values())
        if one.total is not None and total > one.total * (1 + _FEASIBLE) + _FEASIBLE:
            yield f"request {request!r} has {total:g} in total, and at most {one.total:g} is allowed"
        upper = one.upper
        for column, amount in columns.items():
            if not 0 <= column < upper.size:
                yield f"request {request!r} has no column {column}"
            elif not -_FEASIBLE <= amount <= upper[column] * (1 + _FEASIBLE) + _FEASIBLE:
                yield f"request {request!r}: {amount:g} of column {column} is out of bounds"
        for resource, (at, value) in one.usage.items():
            used[resource] += math.fsum(
                v * columns.get(k, 0.0) for k, v in zip(at.tolist(), value, strict=True)
            )
    bounds = program.resources[:]
    for resource, lower, upper in zip(bounds.ids, bounds.lower.tolist(), bounds.upper.tolist(), strict=True):
        if used[resource] > upper + _FEASIBLE * max(1.0, abs(upper)):
            yield f"resource {resource!r}: {used[resource]:g} is used, and at most {upper:g} is allowed"
        lacks = lower - used[resource]
        if short is not None and lacks > short.get(resource, 0.0) + _FEASIBLE * max(1.0, abs(lower)):
            yield f"resource {resource!r}: {used[resource]:g} is used, and at least {lower:g} is needed"


def amounts_of(program: ContinualProgram, answer: Any) -> dict[Hashable, dict[int, float]]:
    """Return the amounts by request and column number."""
    found = getattr(answer, "x", None)
    found = getattr(answer, "choice", answer) if found is None else found
    if isinstance(found, Allocation):
        found = {request: found[request] for request in found}
    if not isinstance(found, Mapping):
        why = "has neither x nor choice and is not a mapping; the domain must have violations(answer)"
        raise DomainError(f"an answer of type {type(answer).__name__} {why}")
    return {request: _by_number(program, request, own) for request, own in found.items()}


def _by_number(program: ContinualProgram, request: Hashable, own: Any) -> dict[int, float]:
    """Return the amounts of one request by column number; the number of an unknown column is -1."""
    if own is None:
        return {}
    if isinstance(own, np.ndarray):
        return {int(k): float(own[k]) for k in np.flatnonzero(own)}
    there: Sequence[Hashable] = program.requests[request].columns if request in program else ()
    if isinstance(own, float) and len(there) == 1:
        own = {there[0]: own}
    pairs = own.items() if isinstance(own, Mapping) else [(own, 1.0)]
    number = {name: k for k, name in enumerate(there)}
    return {number.get(column, -1): float(amount) for column, amount in pairs if amount}


def rebuilt(program: ContinualProgram) -> ContinualProgram:
    """Return a new program with the same content, built by bulk edits."""
    new = ContinualProgram(sense=program.sense)
    new.add_resources(**vars(program.resources[:]))
    if len(program):
        new.add_requests(**vars(program.requests[:]))
    return new


def _program_of(domain: Any) -> bytes:
    """Return the content of a domain's program as bytes, without starts."""
    program = domain.program
    if program is None:
        return b""
    resources, requests = vars(program.resources[:]).copy(), vars(program.requests[:]).copy()
    usage = requests.pop("usage")
    del requests["starts"]  # a solve removes them
    content = [*resources.values(), usage.data, usage.indices, usage.indptr, *requests.values()]
    return pickle.dumps([each.tobytes() if isinstance(each, np.ndarray) else repr(each) for each in content])


def _state_of(domain: Any, *, prepared: bool = False) -> bytes:
    """Return the state of a domain for comparison.

    The state consists of the program, the plain values and, unless ``prepared``, the revision of the store.
    """
    values = ((name, _plain(value)) for name, value in vars(domain).items())
    own = repr({name: value for name, value in values if value is not _OTHER})
    program = domain.program
    clock = None if program is None or prepared else program.store.clock
    return pickle.dumps((clock, own)) + _program_of(domain)


_OTHER = object()
"""Placeholder for a value that is not plain."""


def _plain(value: Any) -> Any:
    """Return a form of a value whose text is unique; _OTHER for None and for objects of other classes."""
    if isinstance(value, np.ndarray):
        return value.dtype.str, value.shape, value.tobytes()
    if isinstance(value, dict):
        parts = [_plain(part) for pair in value.items() for part in pair]
    elif type(value) in (list, tuple, set, frozenset):
        parts = [_plain(part) for part in value]
    else:
        known = isinstance(value, str | bytes | int | float | np.generic)
        return value if known else _OTHER
    return _OTHER if any(part is _OTHER for part in parts) else (type(value).__name__, parts)


def _figures(domain: Any) -> str:
    """Return the figures of a domain's fallback as text; empty if the domain has no ``figures``."""
    figures = getattr(domain, "figures", None)
    return "" if figures is None else repr(dict(figures(domain.fallback())))


def _damaged(event: Any) -> Iterator[Any]:
    """Yield copies of an event in which one number is replaced by NaN or by a negative number."""
    if isinstance(event, float | int | np.number) and not isinstance(event, bool):
        yield from (math.nan, -1.0)
    elif isinstance(event, np.ndarray):
        if event.size and event.dtype.kind in "fi":
            for wrong in (math.nan, -1.0)[event.dtype.kind == "i" :]:
                other = event.copy()
                other.flat[0] = wrong
                yield other
    elif isinstance(event, tuple | list):
        for k in _spread(range(len(event)), _DAMAGED):
            for other in _damaged(event[k]):
                parts = [*event[:k], other, *event[k + 1 :]]
                yield type(event)(*parts) if hasattr(event, "_fields") else type(event)(parts)
    elif isinstance(event, dict):
        for name in _spread([*event], _DAMAGED):
            yield from ({**event, name: other} for other in _damaged(event[name]))
    elif is_dataclass(event) and not isinstance(event, type):
        for each in fields(event):
            for other in _damaged(getattr(event, each.name)):
                try:
                    yield replace(event, **{each.name: other})
                except Exception:
                    continue  # the class of the event rejects the value


def _spread(parts: Sequence[Any], most: int) -> Sequence[Any]:
    """Return at most `most` of the parts, evenly spread, at even and odd positions."""
    n = len(parts)
    if n <= most:
        return parts
    return [parts[k] for k in sorted({min(k * (n - 1) // (most - 1) | (k & 1), n - 1) for k in range(most)})]


# ---- a smaller failure -------------------------------------------------------------------------------


def _smallest(
    failed: CheckFailedError,
    steps: Sequence[_Step],
    new_run: Callable[[], _Run],
    limit: _Limit,
    tell: Callable[[int, int], None],
) -> CheckFailedError:
    """Return the failure of the same check with the fewest events that were found."""
    best, why, tried = list(steps), failed.why, 0

    def fails(some: list[_Step]) -> bool:
        """Return whether the same check fails in these rounds; if it does, they become the best ones."""
        nonlocal best, why, tried
        if not some or tried >= _SHRINKING or limit.over():
            return False
        tried += 1
        tell(tried, sum(len(step.events) for step in best))
        run = new_run()
        try:
            for step in some:
                run.play(step)
        except CheckFailedError as again:
            if again.check == failed.check:
                best, why = some, again.why
                return True
        except Exception:
            return False  # the other events are invalid without the events that were left out
        return False

    size = len(best)
    while size >= 1:
        at, smaller = 0, False
        while at < len(best):
            if fails(best[:at] + best[at + size :]):
                smaller = True
            else:
                at += size
        size = size if smaller and size == 1 else size // 2
    for k in range(len(best)):
        for event in best[k].events:
            rest = tuple(each for each in best[k].events if each is not event)
            fails([*best[:k], replace(best[k], events=rest), *best[k + 1 :]])
    kinds = f" (in a round of the kind {best[-1].kind!r})" if best else ""
    return CheckFailedError(failed.check, why + kinds, [step.events for step in best])
