"""Choice between the proximal-point method and HiGHS' simplex from a kept basis, by measured times.

The proximal-point method is faster if few resources bind or few requests change. If many resources bind, a
few simplex iterations from the last basis may be faster. A solver with ``engine="fastest"`` measures which is
faster, for programs of 1,000 to 200,000 columns in this process: when a warm round of the proximal-point
method took longer than :data:`WORTH`, a HiGHS model is made, and the next rounds are solved by dual and by
primal simplex. From then on the engine with the least time in its last rounds solves the program; the other
engines are tried again after 16, 64, 256, ... rounds. :class:`Choice` has the measured seconds, which
determine the next engine.

The first optimum of a model may take many rounds' time. The search for it may take as long as the program's
cold rounds, usually one, and half of its warm rounds together, but in one round at most 20 times as long as
the proximal-point method. A search that is cut short goes on from its basis when the time of all rounds has
grown by a quarter; a search that has to begin again waits until that time has doubled. If the proximal-point
method misses the deadline, simplex gets most of each round. ``Solution.details["engine"]`` names the engine
of a round that reads all columns.

The answers of all engines are certified in the same way. A trial ends after 1.5 times the best engine's time
plus 10 ms, and the best engine continues the round. If the best engine is simplex and has no certified
optimum within its limit either, the proximal-point method solves the round.
"""

from __future__ import annotations

import logging
import math
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from copter.clock import Clock, Interrupted
from copter.compile.kernels import compile_seconds
from copter.errors import SolverError
from copter.solution import Status
from copter.solvers.proximal.accept import accept
from copter.solvers.proximal.full_pass import FullPass
from copter.solvers.proximal.incremental import few_edits
from copter.solvers.proximal.loop import by_steps
from copter.solvers.proximal.run import End, Engine, SolveContext

if TYPE_CHECKING:
    from copter.program.program import ContinualProgram
    from copter.solvers.highs_kept import KeptModel
    from copter.store.allocation import SparseX

log = logging.getLogger("copter")

WORTH = 3e-3
"""Seconds of a round below which no other engine is tried: little can be saved."""
_LEAST_COLUMNS, _MOST_COLUMNS = 1_000, 200_000
"""Numbers of columns between which simplex is tried; a model of a larger program would double the memory."""
_KEPT = 3
"""The expected time of an engine is the least of this number of last rounds, to ignore other load."""
_PATIENCE, _LEAST = 1.5, 0.01
"""A trial may take this many times the best engine's time, plus these seconds."""
_INVESTED = 0.5
"""Share of the time of all warm rounds that the first optimum of a model may take."""
_GROWN, _DOUBLED = 1.25, 2.0
"""Factors on the time of all rounds after which the search for a first optimum goes on, or begins again."""
_MOST_OF_A_ROUND = 0.8
"""Share of the time until the deadline that the best engine may take, so that its answer can be certified."""
_SECONDS_A_COLUMN = 1e-6
"""Least seconds for making a model, by column."""
_RUNAWAY = 20.0
"""The best engine may take this many times its usual time before the proximal-point method takes over; in a
round a search for a first optimum may take this many times that method's usual time.
"""
_FIRST_WAIT, _LONGER = 16, 4
"""Rounds until a slower engine is tried again, and the factor on this number after each such trial."""
TIMED = (Engine.PROXIMAL, Engine.DUAL, Engine.PRIMAL)
"""Engines chosen by measured times; the size of a program decides about the other, `Engine.SMALL`."""
_SIMPLEX = {Engine.DUAL: "dual", Engine.PRIMAL: "primal"}


@dataclass(frozen=True)
class Record:
    """Measured rounds of an engine: `seconds` of the last ones, `wait`: rounds until the next trial."""

    seconds: tuple[float, ...] = ()
    losses: int = 0
    wait: int = 0

    @property
    def cost(self) -> float:
        """Seconds that a round is expected to take; infinite if unknown."""
        return min(self.seconds, default=math.inf)

    def lost(self) -> Record:
        """Return the record after a trial in which another engine was faster."""
        return replace(self, losses=self.losses + 1, wait=_FIRST_WAIT * _LONGER**self.losses)


@dataclass(frozen=True)
class Choice:
    """Measured seconds of the engines, from which the engine of the next round follows."""

    records: dict[Engine, Record] = field(default_factory=lambda: dict.fromkeys(TIMED, Record()))

    @property
    def best(self) -> Engine:
        """The engine with the least expected time."""
        return min(TIMED, key=lambda each: self.records[each].cost)

    def engine(self) -> Engine:
        """Return the engine of the next round."""
        best, proximal = self.best, self.records[Engine.PROXIMAL]
        if not proximal.seconds or (best is Engine.PROXIMAL and proximal.cost < WORTH):
            return Engine.PROXIMAL
        due = [each for each in TIMED if each is not best and not self.records[each].wait]
        return due[0] if due else best

    def limit(self, engine: Engine) -> float:
        """Return the seconds that the engine may take."""
        cost = self.records[self.best].cost
        return _LEAST + (_RUNAWAY if engine is self.best else _PATIENCE) * cost

    def after(self, engine: Engine, seconds: float) -> Choice:
        """Return the choice after a round of an engine; infinite seconds if it had no answer."""
        records = {each: replace(one, wait=max(0, one.wait - 1)) for each, one in self.records.items()}
        mine = records[engine]
        known = mine.seconds if seconds < math.inf else ()
        records[engine] = replace(mine, seconds=(*known, seconds)[-_KEPT:])
        after = Choice(records)
        slower = {engine, self.best} - {after.best}
        for each in slower:  # it is tried again later, the later the more often it was slower
            records[each] = records[each].lost()
        return after


class EngineTimes:
    """Times of the engines of one solver, the choice by them, and HiGHS' model of the program.

    There are two choices, for rounds with few edited requests and for others, because an engine may be the
    best in one kind of round only.  A copy keeps the choices and makes a model of its own.

    Attributes
    ----------
    has_model : bool
        True if HiGHS has a model of the program with the optimal basis of an earlier round. A model without
        such a basis is still on its way to a first optimum.
    """

    def __init__(self, choices: dict[bool, Choice] | None = None) -> None:
        self._choices = {few: Choice() for few in (False, True)} if choices is None else choices
        self._few = False
        # Seconds of the program's rounds, of the cold ones among them, those at which the search for a first
        # optimum goes on, and its own.
        self._spent = self._cold = self._enough = self._invested = 0.0
        self._late = False  # True if the proximal-point method missed the last deadline
        self._cut = False  # True if the deadline left less than the limit of the last simplex run
        self._failures: list[Engine] = []  # of the present round
        self.has_model = False
        self._program: ContinualProgram | None = None
        self._model: KeptModel | None = None

    def __reduce__(self) -> tuple[type[EngineTimes], tuple[dict[bool, Choice]]]:
        return EngineTimes, (dict(self._choices),)

    def next(self, run: SolveContext, few: bool) -> Engine:
        """Return the engine of a round that reads all columns; `few`: few requests were edited."""
        self._begin(run.program, few)
        fits = _LEAST_COLUMNS <= run.program.store.n_variables <= _MOST_COLUMNS
        ready = self.has_model or self._late or self._spent > self._enough
        engine = (
            self._choices[few].engine()
            if run.begin.how.warm and run.simplex_can and fits and ready
            else Engine.PROXIMAL
        )
        return engine if self.has_model or engine is Engine.PROXIMAL else Engine.DUAL

    def patience(self, engine: Engine) -> float:
        """Return the seconds for a trial of the proximal-point method; infinite if it is not on trial."""
        choice = self._choices[self._few]
        trial = engine is Engine.PROXIMAL and self.has_model and choice.best is not engine
        return choice.limit(engine) if trial else math.inf

    def other(self, failed: Engine) -> Engine:
        """Return the engine that continues a round in which a simplex engine failed."""
        best = self._choices[self._few].best
        return best if self.has_model and best is not failed else Engine.PROXIMAL

    def _begin(self, program: ContinualProgram, few: bool) -> None:
        self._few, self._failures = few, []
        if self._program is program:
            return
        if self._program is not None:
            self._choices = {each: Choice() for each in self._choices}
        self._program, self._model, self.has_model = program, None, False
        self._spent = self._cold = self._enough = self._invested = 0.0
        self._late = False

    def point(self, run: SolveContext, engine: Engine) -> tuple[SparseX, NDArray[np.float64]] | None:
        """Return the optimum of a simplex engine, to be certified; None without one within its limit.

        The first runs of a model start near an allocation and prices of an earlier round.
        """
        from copter.models.highs import STRATEGIES
        from copter.solvers.highs_kept import KeptModel, basis_near, simplex_options

        clock, trial = run.budget.clock, engine is not self._choices[self._few].best
        choice = self._choices[self._few]
        usual = choice.records[Engine.PROXIMAL].cost
        allowed = self._cold + _INVESTED * (self._spent - self._cold)
        search = min(allowed - self._invested, _LEAST + _RUNAWAY * usual)
        limit = choice.limit(engine) if self.has_model else search
        left = clock.left() * (_MOST_OF_A_ROUND if self._late or not trial else 0.5)
        self._cut = left < limit
        limit = left if self._late else min(limit, left)
        until, begin = Clock(limit, parent=clock), clock()
        model, self._model = self._model, None  # a model whose run was abandoned cannot be used again
        try:
            if model is None:
                if limit < _SECONDS_A_COLUMN * run.program.store.n_variables:
                    return None
                options = simplex_options(run.budget.tolerance, "dual")
                model = KeptModel(run.program, run.options.threads or 1, options)
                model.highs.setBasis(basis_near(run.program, run.begin.x, run.begin.y))
            else:
                model.push()
            basis = model.highs.getBasis() if self.has_model and trial else None
            model.highs.set_option("simplex_strategy", STRATEGIES[_SIMPLEX[engine]])
            model.highs.run_hot(until)
        except Interrupted:
            clock.check()
            return None
        except SolverError as error:
            log.debug("    simplex cannot solve this round: %s", error or "other units")
            return None
        self._model = model
        if not self.has_model:
            self._invested += clock() - begin
        run.simplex_iterations += model.highs.iterations()[0]
        if model.highs.outcome()[0] is Status.OPTIMAL:
            return model.point()
        if basis is not None:  # the best engine continues from the last optimum
            model.highs.setBasis(basis)
        return None

    def failed(self, engine: Engine) -> None:
        """Remember that an engine had no certified optimum, unless the deadline cut its run short."""
        if not self.has_model:
            self._enough = (_DOUBLED if self._model is None else _GROWN) * self._spent
            if self._model is None:
                self._invested = 0.0
            return
        self.has_model = self._model is not None
        if engine is Engine.PROXIMAL or not self._cut:
            self._failures.append(engine)

    def began(self, seconds: float) -> None:
        """Record the seconds of a cold round."""
        self._spent += seconds
        self._cold += seconds

    def solved(self, engine: Engine, seconds: float, *, late: bool = False) -> None:
        """Record the seconds of a warm round, and the engines that failed in it.

        `late`: the round missed its deadline, and would have taken longer. The round in which a model has its
        first optimum does not count.
        """
        for each in self._failures:
            self._note(each, math.inf)
        if engine is Engine.PROXIMAL:
            self._spent += seconds
            self._late = late
        elif not self.has_model:
            self.has_model, self._invested = True, 0.0
            return
        self._note(engine, seconds)

    def _note(self, engine: Engine, seconds: float) -> None:
        self._choices[self._few] = self._choices[self._few].after(engine, seconds)
        unused = all(each.engine() is Engine.PROXIMAL for each in self._choices.values())
        if engine is Engine.PROXIMAL and self.has_model and unused:
            self._model, self.has_model = None, False

    def solved_few(self, program: ContinualProgram, seconds: float) -> None:
        """Record the seconds of a round that read active requests only."""
        self._begin(program, few=True)
        self.solved(Engine.PROXIMAL, seconds)


def by_fastest(run: SolveContext, times: EngineTimes) -> End:
    """Return the end by the engine that was fastest in earlier rounds; others continue if it fails."""
    few = run.stay_active is None or (
        run.stay_active is FullPass.WAITING and few_edits(run.program, run.state, run.options)
    )
    clock, engine = run.budget.clock, times.next(run, few)
    limit = times.patience(engine)
    while True:
        begin, compiled = clock(), compile_seconds()
        if engine is Engine.PROXIMAL:
            end = _by_steps_within(run, limit)
        else:
            end = _by_simplex(run, times, engine)
        if end is not None:
            break
        times.failed(engine)
        engine, limit = times.other(engine), math.inf
    run.engine, late = engine, end.status is Status.DEADLINE
    seconds = clock() - begin - (compile_seconds() - compiled)
    if not run.begin.how.warm:
        times.began(seconds)
    elif late or end.status is Status.OPTIMAL:
        times.solved(engine, seconds, late=late)
    return end


def _by_simplex(run: SolveContext, times: EngineTimes, engine: Engine) -> End | None:
    """Return the end by a simplex engine; None without a certified optimum within its limit."""
    point = times.point(run, engine)
    end = None if point is None else accept(run, run.certify(*point))
    return end if end is not None and end.status is Status.OPTIMAL else None


def _by_steps_within(run: SolveContext, seconds: float) -> End | None:
    """Return the end of the method; None if these seconds, which may be infinite, end before the deadline."""
    if seconds == math.inf:
        return by_steps(run)
    with run.budget.at_most(seconds):
        end = by_steps(run)
    return None if end.status is Status.DEADLINE and not run.budget.clock.over() else end
