"""Sia rounds for benchmarks: the cluster of :mod:`copter.problems.sia.steady`, recorded.

Every job may choose from all its configurations (no scale-up limit), as in the thesis' program.  In each
round 2% of the jobs leave and as many arrive, and nearly all costs change.  A round depends on the allocation
of the previous round.  copter computes these allocations once, during the recording, and every solver gets
the same edits.  The recording takes 8 bytes for each cost.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from copter.bench.recording import ProvenRounds, Recorded, Recorder
from copter.problems.sia.steady import record_rounds
from copter.solvers.registry import make_solver

_SHIM = "copter.shims.choose_one:ChooseOneShim"


@dataclass(frozen=True)
class Size:
    """Number of GPUs, of jobs at any time, and of rounds."""

    gpus: int
    jobs: int
    rounds: int


_WARM_UP = Size(1024, 400, 3)
"""Size of the warm-up: more than 50,000 columns, so that thread pool and column screening are used."""


def record_sia(
    folder: Path,
    *,
    gpus: int,
    jobs: int,
    rounds: int,
    seed: int,
    warm_up: Size | None = None,
    proven: bool = False,
) -> Recorded:
    """Record rounds of Sia, and a recording of the same kind for the warm-up.

    `folder`: folder of both files. `gpus`, `jobs`, `rounds`: number of GPUs, of jobs at any time, and of
    rounds; the first round is a cold start. `warm_up`: size of the warm-up; default: `_WARM_UP`. After a
    smaller warm-up, the first timed rounds may include compilation. `proven`: whether solvers must prove the
    allocations optimal.
    """
    kind = ProvenRounds if proven else Recorded
    recorded = kind(folder / "rounds.copter", folder / "warm-up.copter", _SHIM)
    _record(recorded.warm_up, _WARM_UP if warm_up is None else warm_up, seed)
    _record(recorded.rounds, Size(gpus, jobs, rounds), seed)
    return recorded


def _record(path: Path, size: Size, seed: int) -> None:
    with Recorder(path) as recorder:
        steady = record_rounds(
            recorder,
            recorder.end_round,
            make_solver("copter"),
            gpus=size.gpus,
            jobs=size.jobs,
            rounds=size.rounds,
            seed=seed,
        )
        for _ in steady:
            pass
