"""Recorded rounds replayed through solvers, one record per (solver, round).

Each solver gets its own program and the same deltas.  A round's time is edit, solve and shim.

- `t_edit` is what the solver needs to have this round's problem before it.  For copter's solvers that is
  applying the deltas to the program.  For the others, and for `copter-rebuild`, it is bringing up to date a
  model of their own: `highs-hot` finds the differences by the program's stamps and pushes them, all others
  build flat arrays and a model again.  Applying the deltas to copter's program is not their work; those
  seconds are in `t_store`, for every solver, and in the others' `t_edit` and `t_total` they are not.
- `t_solve` is, for copter's solvers, all that `solve` does, its certificate too; for the others only the
  seconds in the solver itself.  Reading their answer and certifying it is this package's work, kept apart as
  `t_certify`.

Compilation is never timed: a recording of the same kind runs through the same code first, large enough for
the passes that use threads, and copter's solvers that choose their inner solver run coordinate descent too.
"""

from __future__ import annotations

import importlib
import math
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field, replace
from multiprocessing import get_context
from pathlib import Path
from time import perf_counter
from typing import Any

from copter.bench.machine import peak_memory_mb
from copter.bench.recording import Replayer, read_rounds
from copter.solvers.base import SOLVERS, Solver, make_solver

Record = dict[str, Any]
MIP_GAP = 1e-3
"""Gap of branch and bound on the command line; the comparison in the project's goals is with this gap, and a
deadline of 10 s a round."""
MIP_SOLVERS = frozenset(name for name, (_, _, preset, _) in SOLVERS.items() if preset.get("method") == "milp")
_WARM_UP_SECONDS = 60.0
_WARM_UP_SECONDS_OTHERS = 10.0
_DESCENT_SECONDS = 2.0


@dataclass(frozen=True)
class Recorded:
    """Rounds to measure, and what belongs to them.

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


@dataclass(frozen=True)
class SolverSettings:
    """How a solver is run.

    Attributes
    ----------
    name : str
        A name that :func:`copter.solvers.make_solver` takes.
    tolerance : float
        Relative tolerance on residuals and gap.
    time_limit : float, optional
        Seconds a solve may take.
    threads : int, optional
    mip_gap : float
        Relative gap at which branch and bound stops; no other solver is given it.
    """

    name: str
    tolerance: float = 1e-6
    time_limit: float | None = None
    threads: int | None = None
    mip_gap: float = MIP_GAP

    def make(self) -> Solver:
        """Return a new solver with these settings."""
        own = {"mip_gap": self.mip_gap} if self.name in MIP_SOLVERS else {}
        return make_solver(
            self.name, tolerance=self.tolerance, deadline=self.time_limit, threads=self.threads, **own
        )


@dataclass
class Measured:
    """Records of one solver.

    Attributes
    ----------
    solver : str
    records : list of dict
    peak_memory_mb : float
        The most memory its process held; 0 if it had no process of its own.
    stopping : dict
        What the solver itself stops at, by its own names (:meth:`copter.solvers.base.Solver.stopping`).
    """

    solver: str
    records: list[Record] = field(default_factory=list)
    peak_memory_mb: float = 0.0
    stopping: dict[str, float] = field(default_factory=dict)


def replay(
    recorded: Recorded, settings: SolverSettings, on_record: Callable[[Record], None] | None = None
) -> Measured:
    """Replay a recording through one solver, in this process.

    Parameters
    ----------
    recorded : Recorded
    settings : SolverSettings
    on_record : callable, optional
        Called with each record as it is made.
    """
    warm_up(recorded, settings)
    solver = settings.make()
    records = _replay_file(recorded.rounds, recorded.shim, solver, on_record)[0]
    return Measured(settings.name, records, stopping=solver.stopping())


def warm_up(recorded: Recorded, settings: SolverSettings) -> None:
    """Run the warm-up recording: compiles or loads every kernel of solver and shim, starts the threads.

    A solver that chooses its inner solver may meet coordinate descent for the first time in a timed round,
    so that runs too.  The deadline of the settings does not hold here.
    """
    ours = settings.name.startswith("copter")
    patience = replace(settings, time_limit=_WARM_UP_SECONDS if ours else _WARM_UP_SECONDS_OTHERS)
    program = _replay_file(recorded.warm_up, recorded.shim, patience.make(), None)[1].program
    if ours and settings.name != "copter-cd":
        for _ in range(2):  # the first may spend all of its seconds on compiling its first kernel
            replace(patience, name="copter-cd").make().solve(program, deadline=_DESCENT_SECONDS)


def replay_isolated(
    recorded: Recorded, settings: SolverSettings, on_record: Callable[[Record], None] | None = None
) -> Measured:
    """Replay a recording in a process of its own, so that its peak memory is the solver's.

    Parameters are those of :func:`replay`; `on_record` is a module's function and runs in that process.
    """
    with ProcessPoolExecutor(max_workers=1, mp_context=get_context("spawn")) as pool:
        return pool.submit(_replay_and_weigh, recorded, settings, on_record).result()


def _replay_and_weigh(
    recorded: Recorded, settings: SolverSettings, on_record: Callable[[Record], None] | None
) -> Measured:
    measured = replay(recorded, settings, on_record)
    measured.peak_memory_mb = peak_memory_mb()
    return measured


def _replay_file(
    path: Path, shim_name: str, solver: Solver, on_record: Callable[[Record], None] | None
) -> tuple[list[Record], Replayer]:
    module, _, name = shim_name.partition(":")
    shim = getattr(importlib.import_module(module), name)()
    replayer = Replayer()
    records: list[Record] = []
    for number, deltas in enumerate(read_rounds(path)):
        t_store = 0.0
        for delta in deltas:
            begin = perf_counter()
            replayer.apply(delta)
            t_store += perf_counter() - begin
        records.append(_solve_round(number, replayer, solver, shim, t_store))
        if on_record is not None:
            on_record(records[-1])
    return records, replayer


def _solve_round(number: int, replayer: Replayer, solver: Solver, shim: Any, t_store: float) -> Record:
    program = replayer.program
    begin = perf_counter()
    solution = solver.solve(program)
    wall = perf_counter() - begin
    t_model, t_solve = solver.seconds(solution, wall)
    t_edit = t_model + (t_store if solver.edits_in_place else 0.0)
    begin = perf_counter()
    rounded = shim.round(program, solution) if math.isfinite(solution.objective) else None
    t_shim = perf_counter() - begin
    return {
        "solver": solver.name,
        "round": number,
        "n_variables": program.n_variables,
        "n_rows": program.n_rows,
        "nnz": program.nnz,
        "t_edit": t_edit,
        "t_solve": t_solve,
        "t_shim": t_shim,
        "t_total": t_edit + t_solve + t_shim,
        "t_store": t_store,
        "t_certify": wall - t_model - t_solve,
        "status": str(solution.status),
        "primal_residual": solution.primal_residual,
        "dual_residual": solution.dual_residual,
        "gap": solution.gap,
        "objective": solution.objective,
        "bound": solution.bound,
        "integral_objective": rounded.objective if rounded else math.nan,
        "integral_gap": rounded.gap if rounded else math.nan,
        "churn": solution.churn,
        "iterations": solution.iterations,
        "warm_started": solution.warm_started,
    }
