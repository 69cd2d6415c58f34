"""Times of copying, saving, loading and journaling a program of Sia's steady cluster.

    python tests/durability.py FOLDER [GPUS JOBS ROUNDS]

In each round, 2% of the jobs are new.  The program writes to FOLDER, which should be on the disk to measure,
and prints the seconds.
"""

from __future__ import annotations

import copy
import os
import sys
from collections.abc import Callable
from pathlib import Path
from time import perf_counter

from copter.durable.journal import Journal
from copter.problems.sia.steady import record_rounds
from copter.program.program import ContinualProgram
from copter.solvers.proximal.solver import ProximalPoint

_REPEATS = 5


def _measure(folder: Path, gpus: int, jobs: int, rounds: int) -> None:
    """Play the rounds with a journal, then copy, save and load its program.

    `folder`: folder for the journal and the file; it must not have a journal.
    """
    solver = ProximalPoint()
    with Journal(folder / "journal", solver) as journal:
        commits: list[float] = []

        def commit() -> None:
            begin = perf_counter()
            journal.commit()
            commits.append(perf_counter() - begin)

        for _ in record_rounds(journal, commit, solver, gpus=gpus, jobs=jobs, rounds=rounds, seed=0):
            pass
        print(f"{journal.n_variables} columns, {len(journal)} requests")
        print("commit, round by round:", " ".join(f"{seconds:.3f}" for seconds in commits))
        program = copy.copy(journal)
    begin = perf_counter()
    with Journal(folder / "journal", solver):
        print(f"opening the journal: {perf_counter() - begin:.3f}")
    file = folder / "program.copter"
    pair = program, ProximalPoint()
    pair[1].solve(program)
    _report("save", lambda: program.save(file, pair[1]))
    _report("load", lambda: ContinualProgram.load(file, ProximalPoint()))
    _report("copy", lambda: copy.deepcopy(pair))
    size = os.path.getsize(file)
    plain = folder / "bytes"
    content = os.urandom(1 << 20) * (size >> 20)
    _report("the same number of bytes, written and synced", lambda: _write(plain, content))
    print(f"file: {size / 1e6:.1f} MB")


def _write(path: Path, content: bytes) -> None:
    with path.open("wb", buffering=0) as file:
        file.write(content)
        os.fsync(file.fileno())


def _report(what: str, task: Callable[[], object]) -> None:
    seconds = []
    for _ in range(_REPEATS):
        begin = perf_counter()
        task()
        seconds.append(perf_counter() - begin)
    print(f"{what}: {min(seconds):.3f} to {max(seconds):.3f}")


if __name__ == "__main__":
    sizes = [int(word) for word in sys.argv[2:]] or [25_600, 3100, 6]
    _measure(Path(sys.argv[1]), *sizes)
