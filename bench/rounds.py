"""Recorded rounds replayed through solvers, one record per (solver, round).

Each solver gets its own program and the same deltas.  A round's time is edit (applying the deltas, and the
solver bringing its own model up to date), solve and shim.  Compilation is never timed: a small recording of
the same kind runs through the same code first.

For copter's solvers all that `solve` does counts as solve time, its certificate too.  For the others only
the seconds in the solver itself count: reading its answer and certifying it are this package's work, kept
apart as `t_certify`.
"""

from __future__ import annotations

import importlib
import math
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from multiprocessing import get_context
from pathlib import Path
from time import perf_counter
from typing import Any

from copter.bench.machine import peak_memory_mb
from copter.bench.recording import Replayer, read_rounds
from copter.solvers.base import make_solver

Record = dict[str, Any]


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
    """

    name: str
    tolerance: float = 1e-6
    time_limit: float | None = None
    threads: int | None = None


@dataclass
class Measured:
    """Records of one solver and the most memory its process held (0 if it had no process of its own)."""

    solver: str
    records: list[Record] = field(default_factory=list)
    peak_memory_mb: float = 0.0


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
    _replay_file(recorded.warm_up, recorded.shim, settings, None)
    return Measured(settings.name, _replay_file(recorded.rounds, recorded.shim, settings, on_record))


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
    path: Path, shim_name: str, settings: SolverSettings, on_record: Callable[[Record], None] | None
) -> list[Record]:
    module, _, name = shim_name.partition(":")
    shim = getattr(importlib.import_module(module), name)()
    solver = make_solver(
        settings.name, tolerance=settings.tolerance, deadline=settings.time_limit, threads=settings.threads
    )
    replayer = Replayer()
    records = []
    for number, deltas in enumerate(read_rounds(path)):
        t_edit = 0.0
        for delta in deltas:
            begin = perf_counter()
            replayer.apply(delta)
            t_edit += perf_counter() - begin
        records.append(_solve_round(number, replayer, solver, shim, t_edit))
        if on_record is not None:
            on_record(records[-1])
    return records


def _solve_round(number: int, replayer: Replayer, solver: Any, shim: Any, t_edit: float) -> Record:
    program = replayer.program
    begin = perf_counter()
    solution = solver.solve(program)
    t_solver = perf_counter() - begin
    t_model = min(solution.timings.edit, t_solver)
    t_solve = t_solver - t_model if solver.name.startswith("copter") else solution.timings.solve
    begin = perf_counter()
    rounded = shim.round(program, solution) if math.isfinite(solution.objective) else None
    t_shim = perf_counter() - begin
    return {
        "solver": solver.name,
        "round": number,
        "n_variables": program.n_variables,
        "n_rows": program.n_rows,
        "nnz": program.nnz,
        "t_edit": t_edit + t_model,
        "t_solve": t_solve,
        "t_shim": t_shim,
        "t_total": t_edit + t_model + t_solve + t_shim,
        "t_certify": t_solver - t_model - t_solve,
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
