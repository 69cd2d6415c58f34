"""Sia rounds for benchmarks: the steady cluster of :mod:`copter.problems.sia.steady`, recorded.

Every job chooses from all its configurations (no scale-up limit), as in the thesis' program; each round 2%
of the jobs leave and as many arrive, and nearly all costs move.  The allocations that the next round
depends on come from copter itself, once, while recording.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from copter.bench.recording import Recorded, Recorder, RecordingProgram
from copter.problems.sia.steady import record_rounds
from copter.solvers.registry import make_solver

_SHIM = "copter.shims.choose_one:ChooseOneShim"


@dataclass(frozen=True)
class Size:
    """GPUs, jobs at any time, and rounds."""

    gpus: int
    jobs: int
    rounds: int


WARM_UP = Size(1024, 400, 3)
"""More than 50,000 columns: passes over them use the thread pool, and the solver screens them."""


def record_sia(
    folder: Path, *, gpus: int, jobs: int, rounds: int, seed: int, warm_up: Size | None = None
) -> Recorded:
    """Record rounds of Sia, and a recording of the same kind to warm up with.

    Parameters
    ----------
    folder : Path
        Where to write both.
    gpus, jobs, rounds : int
        Size of the cluster, jobs at any time, rounds; the first one starts from nothing.
    seed : int
    warm_up : Size, optional
        Default: :data:`WARM_UP`.  With a smaller one, the first timed rounds may compile.
    """
    small = WARM_UP if warm_up is None else warm_up
    recorded = Recorded(folder / "rounds.copter", folder / "warm-up.copter", _SHIM)
    _record(recorded.warm_up, small, seed)
    _record(recorded.rounds, Size(gpus, jobs, rounds), seed)
    return recorded


def _record(path: Path, size: Size, seed: int) -> None:
    with Recorder(path) as recorder:
        steady = record_rounds(
            RecordingProgram(recorder),
            recorder.end_round,
            make_solver("copter"),
            gpus=size.gpus,
            jobs=size.jobs,
            rounds=size.rounds,
            seed=seed,
        )
        for _ in steady:
            pass
