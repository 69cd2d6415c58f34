"""Sia rounds for benchmarks: the steady cluster of :mod:`copter.problems.sia.steady`, recorded.

Every job chooses from all its configurations (no scale-up limit), as in the thesis' program; each round 2%
of the jobs leave and as many arrive, and nearly all costs move.  The allocations that the next round
depends on come from copter itself, once, while recording.
"""

from __future__ import annotations

from pathlib import Path

from copter.bench.recording import Recorder, RecordingProgram
from copter.bench.rounds import Recorded
from copter.problems.sia.steady import record_rounds
from copter.solvers.base import make_solver

_SHIM = "copter.shims.choose_one:ChooseOneShim"
_WARM_UP_GPUS, _WARM_UP_JOBS, _WARM_UP_ROUNDS = 256, 40, 4


def record_sia(folder: Path, *, gpus: int, jobs: int, rounds: int, seed: int) -> Recorded:
    """Record rounds of Sia, and a small recording of the same kind to warm up with.

    Parameters
    ----------
    folder : Path
        Where to write both.
    gpus, jobs, rounds : int
        Size of the cluster, jobs at any time, rounds; the first one starts from nothing.
    seed : int
    """
    recorded = Recorded(folder / "rounds.pickle", folder / "warm-up.pickle", _SHIM)
    _record(recorded.warm_up, _WARM_UP_GPUS, _WARM_UP_JOBS, _WARM_UP_ROUNDS, seed)
    _record(recorded.rounds, gpus, jobs, rounds, seed)
    return recorded


def _record(path: Path, gpus: int, jobs: int, rounds: int, seed: int) -> None:
    with Recorder(path) as recorder:
        steady = record_rounds(
            RecordingProgram(recorder),
            recorder.end_round,
            make_solver("copter"),
            gpus=gpus,
            jobs=jobs,
            rounds=rounds,
            seed=seed,
        )
        for _ in steady:
            pass
