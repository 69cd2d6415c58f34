"""Kills of a process that plays rounds with a journal: `python -m support.round_kills FOLDER KILLS SEED`.

This process loads everything, and forks one that plays rounds, again and again; each is killed after a random
time, and what the next one finds in the journal is compared with what the last one said before it was killed.
Event k is always the same, and the domain writes down every event that it gets.
"""

from __future__ import annotations

import os
import random
import signal
import sys
import time
from pathlib import Path
from typing import Any

from copter import Rounds
from copter.compile.first_calls import compile_at_once
from copter.rounds import journal as journals
from support.machines import Machines


class Logged(Machines):
    """Machines that keep a list of events and of accepted rounds."""

    def __init__(self) -> None:
        super().__init__()
        self.log: list[int] = []
        self.accepted = 0

    def apply(self, event: Any) -> None:
        """Make event number k: a model comes, an older one leaves."""
        number = event[0]
        super().apply(("arrive", number, (0.3, 0.1 + 0.01 * (number % 7), 0.5)))
        if number >= 6:
            super().apply(("leave", number - 6))
        self.log.append(number)

    def accept(self, answer: Any) -> None:
        """Count it."""
        super().accept(answer)
        self.accepted += 1


def check(rounds: Rounds, said: int) -> None:
    """Nothing is lost, and nothing is there twice; `said`: accepted rounds of which somebody was told."""
    domain: Any = rounds.domain
    assert domain.log == list(range(rounds.events)), domain.log
    assert domain.accepted == rounds.number, (domain.accepted, rounds.number)
    assert said <= rounds.number <= said + 1, (said, rounds.number)
    there = set(range(max(0, rounds.events - 6), rounds.events))
    assert set(domain.program.request_ids) == there
    if rounds.answer is not None:
        assert set(rounds.answer.choice) <= set(range(rounds.events))


def play(path: Path, told: Path) -> None:
    """Play rounds until this process is killed."""
    with Rounds(Logged(), journal=path) as rounds, told.open("r+b") as out:
        check(rounds, int(out.read() or b"0"))
        while True:
            out.seek(0)
            out.write(b"%d" % rounds.number)
            out.flush()
            rng = random.Random(rounds.number)
            rounds.play(*((rounds.events + k,) for k in range(rng.randint(1, 3))))


def main(folder: str, kills: str, seed: str) -> None:
    """Kill so many processes, and print how many rounds were played."""
    path, told = Path(folder, "rounds.sqlite"), Path(folder, "told")
    told.touch()
    compile_at_once()
    warm = Rounds(Logged())
    warm.solver.warm_up()
    for k in range(10):
        warm.play((k,))
    journals._LEAST = 4096  # new states come often
    rng = random.Random(int(seed))
    for _ in range(int(kills)):
        process = os.fork()
        if not process:
            try:
                play(path, told)
            except BaseException:
                import traceback

                traceback.print_exc()
                os._exit(1)
        time.sleep(rng.uniform(0.001, 0.1))
        os.kill(process, signal.SIGKILL)
        _, status = os.waitpid(process, 0)
        if os.WIFEXITED(status):
            sys.exit("a process ended by itself")
    with Rounds(Logged(), journal=path) as rounds:
        check(rounds, int(told.read_bytes() or b"0"))
        print(f"{kills} kills, {rounds.number} rounds, {rounds.events} events")


if __name__ == "__main__":
    main(*sys.argv[1:])
