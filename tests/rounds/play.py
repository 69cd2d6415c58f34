"""Rounds: edits, a solve on one of its paths, and judges; copies, files and exceptions in the middle."""

from __future__ import annotations

import copy
import pickle
import shutil
import tempfile
from collections import Counter
from collections.abc import Callable
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from copter import ContinualProgram, Journal, ProximalPoint, Status
from copter.clock import Clock
from copter.durable.soundness import check_program
from copter.errors import ConcurrentUseError
from copter.solvers.proximal.engines import solve as solve_from
from copter.solvers.proximal.run import SolveOptions
from copter.solvers.proximal.tuning import LazyTuning, ProximalTuning
from rounds.edits import Editor
from rounds.judges import judge, require
from rounds.kinds import Draw, Family
from rounds.mirror import Mirror
from rounds.reading import bits, claim, close, compare, compare_arrays, compare_bulk, same, values
from support.audit import Audited

SMALL = LazyTuning(
    requests_from=5,
    columns_from=5,
    most_touched=0.9,
    most_frozen=0.9,
    most_open=0.9,
    nearest_least=4,
    nearest_each=2,
    nearest=40,
    longest_pause=2,
)


FILES_LACK = ("reason",)
"""A saved state has no proof of the last answer: an unchanged round names the point of the warm start."""


class Boom(Exception):
    """Raised by a callback."""


@contextmanager
def ticking(step: float):
    """Every look at the clock of a solve takes ``step`` seconds."""
    import copter.clock as module

    now, before = [100.0], module.perf_counter

    def look() -> float:
        now[0] += step
        return now[0]

    module.perf_counter = look
    try:
        yield
    finally:
        module.perf_counter = before


class Game:
    """A program of a family, its mirror, its solver, and the answers that are held.

    Parameters
    ----------
    seed : int
    large : bool
        Whether it has a thousand requests and is solved with the usual settings.
    program : ContinualProgram, optional
        An empty one that keeps its columns elsewhere: no copies and files are made of it.
    """

    def __init__(
        self, seed: int, family: Family, counts: Counter, large: bool = False, program: Any = None
    ) -> None:
        self.seed, self.family, self.counts, self.large = seed, family, counts, large
        self.rng = np.random.default_rng([seed, large])
        self.draw = Draw(self.rng, family, large)
        terms = (
            not large and seed % 11 == 5 and not (family.signs or family.whole or family.name == "network")
        )
        self.far = program is not None
        if program is None:
            program = ContinualProgram(sense="max" if seed % 5 == 3 else "min")
        self.program = program
        self.mirror = Mirror()
        self.editor = Editor(self.draw, self.program, self.mirror, counts, terms)
        self.terms = terms
        self.cd = not large and seed % 13 == 7
        self.tolerance = 1e-5 if large else (1e-6, 1e-4, 1e-7)[seed % 3]
        self.solver, self.second = self.make(), self.make()
        self.second.tolerance *= 10
        self.held: list[tuple[Any, dict[str, Any], bool, int]] = []
        self.folder: Path | None = None
        self.number, self.recorded, self.optimal = 0, False, False
        self.editor.begin()

    def make(self) -> ProximalPoint:
        """A solver with the settings of this game."""
        settings: dict[str, Any] = {"tolerance": self.tolerance, "threads": 1 + self.seed % 2}
        if self.cd:
            settings["inner"] = "cd"
        if not self.large and self.seed % 9 != 4:  # those are too small for inactive requests
            lazy = replace(SMALL, rows=1) if self.seed % 2 else SMALL
            if self.family.fixed:
                lazy = replace(lazy, most_open=0.1)
            settings["tuning"] = replace(ProximalTuning(), lazy=lazy)
        if self.seed % 4 != 1:
            return ProximalPoint(**settings)
        solver = Audited(**settings)
        solver.every = 1 + self.seed % 3
        return solver

    def alike_solver(self) -> ProximalPoint:
        """A solver with the settings that the solver of this game has now."""
        solver = self.make()
        solver.tolerance, solver.threads = self.solver.tolerance, self.solver.threads
        return solver

    def count(self, what: str) -> None:
        """Count that something really happened."""
        self.counts[what] += 1

    # ---- rounds ----------------------------------------------------------------------------------

    def round(self) -> Any:
        """Make edits, perhaps something in the middle, and return the answer of a solve, which is judged."""
        rng = self.rng
        edits = int(rng.choice([0, 1, 1, 2, 3]))
        if self.number:
            for _ in range(edits):
                self.editor.any()
            if rng.random() < 0.03:
                self.editor.most()
                edits = len(self.mirror.requests)
        self.look()
        if rng.random() < 0.25 and self.number > 1:
            ways = self.ways
            ways[int(rng.integers(len(ways)))]()
        solution = self.solve(self.program, self.solver)
        self.judge(solution, self.solver.tolerance)
        self.counts_of(solution, edits)
        if self.family.whole and self.optimal:
            self.once_more(solution)
        self.hold(solution)
        if rng.random() < 0.1 and not self.recorded:
            self.write_into(solution)
        if rng.random() < 0.15:
            self.check_held()
        self.number += 1
        return solution

    def solve(self, program: Any, solver: Any, **options: Any) -> Any:
        """Answer of a solver, which takes the starts."""
        solution = solver.solve(program, **options)
        if program is self.program:
            self.started()
        return solution

    def started(self) -> None:
        """The starts were taken."""
        for request in self.mirror.requests.values():
            request.start = None

    def look(self) -> None:
        """Compare what the program says with the mirror."""
        ids = list(self.mirror.requests)
        if self.large or self.rng.random() < 0.8:
            ids = [ids[i] for i in self.rng.choice(len(ids), min(6, len(ids)), replace=False)]
        compare(self.program, self.mirror, ids)
        if not (self.large or self.far):
            check_program(self.program)
        if not (self.terms or self.large or self.far) and (self.rng.random() < 0.1 or self.family.whole):
            compare_arrays(self.program, self.mirror)
            self.count("read: to_arrays")
            twin = ContinualProgram(sense=self.program.sense)
            twin.add_resources(**vars(self.program.resources[:]))
            twin.add_requests(**vars(self.program.requests[:]))
            compare_bulk(twin, self.mirror)
            self.count("read: added again")

    def why(self, solution: Any) -> None:
        """Count why a solve read all columns."""
        why = solution.details.get("full_pass")
        if why is not None:
            self.count(f"full pass: {why.value}")

    def judge(self, solution: Any, tolerance: float) -> None:
        """Raise Wrong if the answer is."""
        self.why(solution)
        exactly = not self.large and self.rng.random() < 0.25
        done = judge(
            self.mirror,
            claim(solution),
            tolerance,
            exactly=exactly,
            by_highs=not self.large or self.rng.random() < 0.08,
        )
        self.counts.update(f"judge: {name}" for name in done)

    def counts_of(self, solution: Any, edits: int) -> None:
        """Count the path of a solve."""
        self.count(f"status: {solution.status}")
        active, why = solution.details.get("open_requests"), solution.details.get("full_pass")
        require((active is None) != (why is None), "one of the two says how", solution.details)
        inactive = getattr(self.solver._state, "inactive", None)
        if active is not None:
            self.count("path: fixed" if self.fixed(inactive) else "path: partial")
            self.count(f"path: partial, {self.solver.threads} threads")
        else:
            self.count("path: whole")
            if inactive is not None:
                self.count("path: inactive from now on")
        if self.cd:
            self.count("path: coordinate descent")
        if self.terms:
            self.count("path: convex terms")
        # A round without an optimum leaves no inactive requests to the next one.
        optimal, self.optimal = self.optimal, solution.status is Status.OPTIMAL
        if edits <= 3 and self.number > 2 and optimal and self.optimal:
            size = "large" if self.large else "small"
            few = active is not None and active < len(self.mirror.requests) / 10
            self.count(f"few changes, {size}, {self.family.name}")
            self.counts[f"few read, {size}, {self.family.name}"] += few

    @staticmethod
    def fixed(inactive: Any) -> bool:
        """Whether requests are fixed, not merely inactive."""
        return bool(getattr(inactive, "fixed", False))

    def once_more(self, solution: Any) -> None:
        """Nothing has changed: the solver has nothing to do, and says the same."""
        again = self.solve(self.program, self.solver)
        found = again.iterations, again.churn, again.warm_started
        require(found == (0, 0.0, True), "an answer again:", *found)
        large = [x.where(abs(x.value) > 1e-12) for x in (again.nonzeros, solution.nonzeros)]
        slots, columns, numbers = zip(*large, strict=True)
        require(np.array_equal(*slots) and np.array_equal(*columns) and close(*numbers, 1e-9), "other values")
        self.count("round: nothing to do")

    # ---- answers that are held -------------------------------------------------------------------

    def hold(self, solution: Any) -> None:
        """Keep an answer: put together now, or later from a copy that was put together now."""
        how = self.rng.random()
        if how < 0.4:
            self.held.append((solution, bits(solution), True, self.number))
            self.count("held: read at once")
        elif how < 0.7:
            expected = bits(copy.deepcopy(solution) if how < 0.55 else pickle.loads(pickle.dumps(solution)))
            self.held.append((solution, expected, True, self.number))
            self.count("held: only a copy was read")
        while len(self.held) > 12:
            self.held.pop(int(self.rng.integers(12)))

    def check_held(self) -> None:
        """Compare one or all held answers with what they were."""
        for solution, expected, _, number in self.held:
            same(bits(solution), expected, f"the answer of round {number}, held in round {self.number},")
            self.count("held: compared")

    def write_into(self, solution: Any) -> None:
        """Write into all arrays that an answer gives out; it is held no more."""
        self.held = [held for held in self.held if held[0] is not solution]
        arrays = [solution.y]
        if solution.found:
            arrays += [*solution.nonzeros, *solution.x.arrays()]
            for id in list(solution.x)[:5]:
                arrays += [values(solution.x[id]), *solution.x.nonzeros(id)]
        for array in arrays:
            if array.flags.writeable and array.size:
                array[:] = 77
        self.count("middle: wrote into an answer")

    # ---- in the middle ---------------------------------------------------------------------------

    @property
    def ways(self) -> list[Callable[[], None]]:
        """What can happen before a solve."""
        anywhere = [
            self.raise_in_callback,
            self.edit_in_callback,
            self.cancel,
            self.late,
            self.second_solver,
            self.look_closely,
        ]
        if self.far:
            return anywhere
        anywhere += [self.other_settings, self.start_given]
        return [
            *anywhere,
            self.deepcopy,
            self.pickle,
            self.copy,
            self.save,
            self.journal,
            self.twice,
            self.fresh,
        ]

    def alike(self, program: Any, solver: Any, what: str, stay: bool, without: tuple[str, ...] = ()) -> None:
        """A copy answers as the original; one of them goes on."""
        compare(program, self.mirror)
        mine, other = self.solver.solve(self.program), solver.solve(program)
        self.started()
        same(bits(mine), bits(other), what, without)
        if not stay:
            self.leave()
            self.program, self.solver, self.editor.program = program, solver, program
        self.count(f"middle: {what}")

    def leave(self) -> None:
        """Close a journal that goes on no more."""
        if self.folder is not None:
            if isinstance(self.program, Journal):
                self.program.close()
            shutil.rmtree(self.folder)
            self.folder = None

    def deepcopy(self) -> None:
        self.alike(*copy.deepcopy((self.program, self.solver)), "deepcopy", bool(self.rng.random() < 0.5))

    def pickle(self) -> None:
        self.alike(
            *pickle.loads(pickle.dumps((self.program, self.solver))), "pickle", bool(self.rng.random() < 0.5)
        )

    def copy(self) -> None:
        """A shallow copy of a program is a whole one; for the solver it is another program."""
        program = copy.copy(self.program)
        self.started()  # those of the one that is left are not taken
        self.leave()
        self.program = self.editor.program = program
        program.take_starts()
        self.count("middle: copy")

    def save(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            self.program.save(Path(folder) / "file", self.solver)
            solver = self.alike_solver()
            program = ContinualProgram.load(Path(folder) / "file", solver)
        self.alike(program, solver, "save and load", bool(self.rng.random() < 0.5), FILES_LACK)

    def journal(self) -> None:
        """Go on in a journal, or close the one that there is and open it again."""
        if self.folder is None:
            self.folder = Path(tempfile.mkdtemp())
            journal = Journal(self.folder, self.solver, program=self.program)
            self.program = self.editor.program = journal
            self.count("middle: journal begun")
            journal.commit()
            return
        twin = copy.deepcopy((self.program, self.solver))
        self.program.compact() if self.rng.random() < 0.3 else self.program.commit()
        self.program.close()
        self.solver = self.alike_solver()
        self.program = self.editor.program = Journal(self.folder, self.solver)
        compare(self.program, self.mirror)
        mine, other = self.solver.solve(self.program), twin[1].solve(twin[0])
        self.started()
        same(bits(mine), bits(other), "journal opened again", FILES_LACK)
        self.count("middle: journal opened again")

    def twice(self) -> None:
        """Go on from a state three times: the same bits, and the state stays."""
        state = self.solver._state
        pending, solver = self.program.take_starts(), self.solver
        starts = state.starts(self.program, pending)
        options = SolveOptions(solver.tolerance, solver.inner, threads=solver.threads, tuning=solver.tuning)
        answers = [solve_from(self.program, state, options, Clock(None), starts) for _ in range(2)]
        again = solve_from(*pickle.loads(pickle.dumps((self.program, state))), options, Clock(None), starts)
        first = bits(answers[0][0])
        for solution, _ in (answers[1], again):
            same(first, bits(solution), "twice")
        self.judge(answers[0][0], solver.tolerance)
        self.program.return_starts(pending)
        same(first, bits(self.solve(self.program, solver)), "the solver after twice")
        self.count("middle: twice")
        if "open_requests" in answers[0][0].details:
            self.count("middle: twice, partial")

    def fresh(self) -> None:
        """A solver that forgets what it knows."""
        self.solver.reset()
        self.count("middle: reset")

    def other_settings(self) -> None:
        """Another tolerance, or another number of threads, from now on."""
        self.solver.tolerance = float(self.rng.choice([1e-7, 1e-6, 1e-5, 1e-4, 1e-3]))
        self.solver.threads = int(self.rng.integers(1, 3))
        self.count("middle: other settings")

    def start_given(self) -> None:
        """Begin from an allocation and prices that are given: those of the last answer."""
        start = self.solver.start(self.program)
        if start is not None:
            self.solver.start_from(self.program, *start)
            self.count("middle: start given")

    def look_closely(self) -> None:
        """Compare all that the program says."""
        compare(self.program, self.mirror)
        self.count("middle: all was read")

    def second_solver(self) -> None:
        solution = self.solve(self.program, self.second)
        self.judge(solution, self.second.tolerance)
        self.count("middle: second solver")

    def at_call(self, action: Callable[[], None]) -> Any:
        """Solve, and do something in one of the first calls of the callback; None if it raised Boom."""
        call = int(self.rng.integers(1, 4))
        seen = [0]

        def callback(*_: Any) -> None:
            seen[0] += 1
            if seen[0] == call:
                action()

        self.solver.callback = callback
        try:
            solution = self.solver.solve(self.program)
        except Boom:
            return None
        finally:
            self.solver.callback = None
        self.started()
        return solution

    def raise_in_callback(self) -> None:
        def boom() -> None:
            raise Boom

        if self.at_call(boom) is None:
            self.count("middle: callback raised")
            self.look()

    def edit_in_callback(self) -> None:
        def edit() -> None:
            try:
                self.program.update_requests(list(self.mirror.requests), scales=2.0)
            except ConcurrentUseError:
                self.count("middle: edit in a callback")
            else:
                require(False, "an edit within a solve was accepted")

        self.judge(self.at_call(edit), self.solver.tolerance)

    def cancel(self) -> None:
        solution = self.at_call(self.solver.cancel)
        if solution.status == "cancelled":
            self.count("middle: cancelled")
        self.judge(solution, self.solver.tolerance)

    def late(self) -> None:
        time_limit = 1e-9 if self.rng.random() < 0.2 else 1e-3 * 10.0 ** self.rng.uniform(0.0, 2.5)
        with ticking(1e-3):
            solution = self.solve(self.program, self.solver, time_limit=time_limit)
        if solution.status == "deadline":
            self.count("middle: deadline")
        self.judge(solution, self.solver.tolerance)

    def end(self) -> None:
        """Compare what is still held."""
        self.check_held()
        self.leave()


def play(
    seed: int,
    family: Family,
    rounds: int,
    counts: Counter,
    large: bool = False,
    program: Any = None,
    answers: list[str] | None = None,
) -> None:
    """Play a game, and append all that each answer says to ``answers``; an error says which game it was."""
    game = Game(seed, family, counts, large, program)
    game.recorded = answers is not None
    try:
        for _ in range(rounds):
            solution = game.round()
            counts["rounds"] += 1
            if answers is not None:
                answers.append(repr(bits(solution)))
        game.end()
    except BaseException as error:
        error.add_note(f"seed {seed}, family {family.name!r}, round {game.number}, large={large}")
        raise
    finally:
        game.leave()


HAPPENINGS = (
    "edit: a row in the place of another",
    "edit: all requests removed",
    "edit: columns from a table",
    "edit: maximised",
    "edit: requests from a table",
    "edit: the same id again",
    "held: compared",
    "held: only a copy was read",
    "held: read at once",
    "judge: highs",
    "judge: mirror",
    "judge: rationals",
    "judge: ray",
    "middle: all was read",
    "middle: callback raised",
    "middle: cancelled",
    "middle: copy",
    "middle: deadline",
    "middle: deepcopy",
    "middle: edit in a callback",
    "middle: journal begun",
    "middle: journal opened again",
    "middle: other settings",
    "middle: pickle",
    "middle: reset",
    "middle: save and load",
    "middle: second solver",
    "middle: start given",
    "middle: twice",
    "middle: twice, partial",
    "middle: wrote into an answer",
    "path: convex terms",
    "path: coordinate descent",
    "path: fixed",
    "path: inactive from now on",
    "path: partial",
    "path: partial, 1 threads",
    "path: partial, 2 threads",
    "path: whole",
    "read: added again",
    "read: to_arrays",
    "status: infeasible",
    "status: optimal",
)
"""What a long game counts, besides edit methods, their options, wrong edits and reasons for a full pass."""
