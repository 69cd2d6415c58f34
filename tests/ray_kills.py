"""Programs on actors while actors and drivers are killed: python tests/ray_kills.py N.

A stream of rounds like Sia's, drawn from their numbers: jobs come, go and are worth something else, nodes
fail and come back.  The truth is the same stream on a program of one process that nobody disturbs; of each
round the whole answer is compared, bit by bit, and what the program holds.

- Actors: a thread kills the process of one at a random moment, in the middle of edits or of a solve.
- Drivers: another process keeps the program with a journal, and is killed; the next opens the journal and
  goes on.  It says what it found and each round that it completed.
"""

from __future__ import annotations

import argparse
import os
import random
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from hashlib import blake2b
from pathlib import Path
from typing import Any

import numpy as np

import copter.ray.actors
from copter import ContinualProgram, Journal, ProximalPoint
from copter.ray import RayProgram

TYPES = ("t4", "rtx", "a100")
COLUMNS, PARTS = 24, 8
PAUSE = 1.0
"""Most seconds until a kill, once up to three rounds were completed since the last: amid edits or a solve."""
JOBS = int(os.environ.get("RAY_KILLS_JOBS", "120"))


def make_round(program: ContinualProgram, number: int) -> None:
    """Edits of a round, drawn from its number and from what is there."""
    rng = np.random.default_rng(number)
    if number == 0:
        for name in TYPES:
            program.add_resource(name, 40.0)
        gpus = [1, 2, 4, 8, 12, 16, 24]
        choices = {name: (list(range(1 + 7 * k, 8 + 7 * k)), gpus) for k, name in enumerate(TYPES)}
        program.share_columns(choices, COLUMNS)
    template, ids = program.shared_columns[0], program.request_ids
    if len(ids) >= JOBS:
        program.remove_requests([ids[k] for k in rng.choice(len(ids), 9, replace=False)])
    count = JOBS // 2 if number == 0 else 10
    costs = -rng.random((count, COLUMNS)) * np.sqrt(1.0 + np.arange(COLUMNS))
    costs[:, 0] = 0.0
    fresh = [f"job {number}.{k}" for k in range(count)]
    program.add_requests(fresh, costs.ravel(), np.full(count, COLUMNS), template, totals=1.0, relation="==")
    own = {"t4": rng.random(3), "a100": ([1], [1.5])}
    program.add_request(("own", number), -rng.random(3), own, total=1, upper=[1, 0.5, 1], start={1: 0.25})
    costs, override = -3.0 * rng.random(COLUMNS), {2: -0.5, 4: -7.0}
    program.add_request(("other", number), costs, template, total=1.0, relation="==", override=override)
    changed = program.request_ids[: len(program) // 3]
    program.update_requests(changed, scales=0.5 + rng.random(len(changed)))
    program.update_resources("rtx", upper=float(rng.integers(20, 60)))


def digest(*values: Any) -> str:
    """A few letters that stand for values, bit by bit."""
    hashed = blake2b(digest_size=8)
    for value in values:
        hashed.update(value.tobytes() if isinstance(value, np.ndarray) else repr(value).encode())
    return hashed.hexdigest()


def of_answer(solution: Any) -> str:
    """All of an answer."""
    numbers = (solution.objective, solution.bound, solution.iterations, solution.churn, solution.warm_reason)
    return digest(*solution.nonzeros, solution.y, *numbers)


def of_content(program: ContinualProgram) -> str:
    """All that a program holds."""
    requests = vars(program.requests[:])
    usage = requests.pop("usage")
    rows = [value for _, value in sorted(vars(program.resources[:]).items())]
    return digest(*(value for _, value in sorted(requests.items())), usage.toarray(), *rows)


def new_solver() -> ProximalPoint:
    return ProximalPoint(tolerance=1e-6)


class Truth:
    """The stream, undisturbed."""

    def __init__(self) -> None:
        self.program, self.solver = ContinualProgram(), new_solver()
        self.answers: list[str] = []
        self.contents = [of_content(self.program)]

    def upto(self, round: int) -> None:
        """Go on until so many rounds are known."""
        for number in range(len(self.answers), round):
            make_round(self.program, number)
            self.answers.append(of_answer(self.solver.solve(self.program)))
            self.contents.append(of_content(self.program))


@dataclass
class Score:
    """What came of it."""

    kills: int = 0
    rounds: int = 0
    wrong: list[str] = field(default_factory=list)
    uncertified: list[int] = field(default_factory=list)
    lost: list[str] = field(default_factory=list)

    def __str__(self) -> str:
        faults = len(self.wrong), len(self.uncertified), len(self.lost)
        counts = "{} wrong answers, {} uncertified, {} lost edits".format(*faults)
        return f"{self.kills} kills in {self.rounds} rounds: {counts}"

    @property
    def clean(self) -> bool:
        return not (self.wrong or self.uncertified or self.lost)


# ---- actors ------------------------------------------------------------------------------------------


def kill_actors(kills: int, seed: int, actors: int = 2, snapshots: bool = True) -> Score:
    """Play rounds while actors are killed, until there were so many kills and a round after the last."""
    rng, score = random.Random(seed), Score()
    ending = threading.Event()
    before, copter.ray.actors._SNAPSHOT_FROM = copter.ray.actors._SNAPSHOT_FROM, 0 if snapshots else 1 << 40
    try:
        with RayProgram(actors, parts=PARTS, num_cpus=0) as program:
            killer = threading.Thread(target=_kill, args=(program, kills, rng, score, ending))
            for _ in _rounds_amid(killer, ending, program, score):
                pass
    finally:
        copter.ray.actors._SNAPSHOT_FROM = before
    return score


def _kill(program: RayProgram, kills: int, rng: random.Random, score: Score, ending: threading.Event) -> None:
    import ray

    until = 1
    while score.kills < kills and not ending.wait(rng.random() * PAUSE):
        if score.rounds < until:
            continue
        until = score.rounds + rng.randrange(4)
        if rng.random() < 0.5:
            ray.kill(rng.choice(program.store.executor.workers.actors).handle)
        else:
            found = holders()
            if not found:
                continue
            os.kill(rng.choice(found), signal.SIGKILL)
        score.kills += 1


def holders() -> list[int]:
    """Processes of actors, of the Ray that this process started; they are not asked, they may be busy."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                if (entry / "cmdline").read_bytes().startswith(b"ray::Holder"):
                    found.append(int(entry.name))
            except (FileNotFoundError, ProcessLookupError):
                continue  # it ended meanwhile
    return [pid for pid in found if _parent(_parent(pid)) == os.getpid()]


def _parent(pid: int) -> int:
    try:
        return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
    except (FileNotFoundError, ProcessLookupError):
        return 0


def _rounds_amid(
    killer: threading.Thread, ending: threading.Event, program: RayProgram, score: Score
) -> Iterator[None]:
    """Play rounds while a thread kills, and one after its end."""
    solver, truth, last = new_solver(), Truth(), False
    killer.start()
    try:
        while not last:
            last = not killer.is_alive()
            _play(program, solver, score, truth)
            yield
    finally:
        ending.set()
        killer.join()


def _play(program: RayProgram, solver: ProximalPoint, score: Score, truth: Truth) -> None:
    number = score.rounds
    make_round(program, number)
    solution = solver.solve(program)
    score.rounds += 1
    truth.upto(score.rounds)
    _judge(score, number, of_answer(solution), str(solution.status), truth)
    if of_content(program) != truth.contents[number + 1]:
        score.lost.append(f"round {number}: another program")


def _judge(score: Score, number: int, answer: str, status: str, truth: Truth) -> None:
    if answer != truth.answers[number]:
        score.wrong.append(f"round {number}: another answer")
    if status != "optimal":
        score.uncertified.append(number)


# ---- drivers -----------------------------------------------------------------------------------------


def drive(folder: str, address: str) -> None:
    """Open the journal, say what is there, and complete rounds without end, each said when it is complete."""
    import ray

    ray.init(address=address, log_to_driver=False, logging_level="ERROR")
    program = RayProgram(2, parts=PARTS, num_cpus=0)
    with Journal(folder, new_solver(), program=program) as journal:
        print("open", journal.round, of_content(journal), flush=True)
        while True:
            make_round(journal, journal.round)
            solution = journal.solve()
            print("round", journal.round, of_answer(solution), solution.status, flush=True)


def kill_drivers(folder: Path, kills: int, seed: int, address: str, compact: bool) -> Score:
    """Kill a process that keeps a program with a journal, again and again."""
    rng, score, truth = random.Random(seed), Score(), Truth()
    for _ in range(kills):
        for words in _lines(folder, address, rng.randrange(4), rng.random() * PAUSE, compact):
            if words[0] == "open":
                _found(score, int(words[1]), words[2], truth)
            else:
                score.rounds = int(words[1])
                truth.upto(score.rounds)
                _judge(score, score.rounds - 1, words[2], words[3], truth)
        score.kills += 1
    return score


def _found(score: Score, round: int, content: str, truth: Truth) -> None:
    truth.upto(round)
    if not score.rounds <= round <= score.rounds + 1:
        score.lost.append(f"said {score.rounds}, found {round}")
    elif content != truth.contents[round]:
        score.lost.append(f"round {round}: another program")
    score.rounds = round


def _lines(folder: Path, address: str, rounds: int, seconds: float, compact: bool) -> Iterator[list[str]]:
    """What a driver said that was killed so many rounds and seconds after it opened the journal."""
    command = [sys.executable, __file__, "--drive", str(folder), "--address", address]
    command += ["--compact"] if compact else []
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as child:
        assert child.stdout is not None
        for _ in range(1 + rounds):
            line = child.stdout.readline()
            assert line, "the driver ended by itself"
            yield line.split()
        timer = threading.Timer(seconds, child.kill)
        timer.start()
        for line in child.stdout:
            if line.endswith("\n"):
                yield line.split()
        child.wait()
        timer.join()
        assert child.returncode == -signal.SIGKILL, "the driver ended by itself"


def timed(what: str, play: Callable[..., Score], *arguments: Any) -> Score:
    begin = time.perf_counter()
    score = play(*arguments)
    print(f"{what}: {score}, {time.perf_counter() - begin:.0f} s", flush=True)
    for fault in (*score.wrong, *score.lost):
        print("  ", fault)
    return score


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("kills", nargs="?", type=int, default=100)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--drive", help="be a driver with this folder")
    parser.add_argument("--address")
    parser.add_argument("--compact", action="store_true", help="as a driver: a snapshot after every round")
    given = parser.parse_args()
    if given.drive:
        if given.compact:
            copter.durable.journal.COMPACT_FROM = 0
        drive(given.drive, given.address)
        return 0
    import ray

    ray.init(address="local", num_cpus=2, include_dashboard=False, log_to_driver=False, logging_level="ERROR")
    address, drivers = ray.get_runtime_context().gcs_address, 3 * given.kills // 10
    actors = given.kills - drivers
    scores = [
        timed("actors, snapshots often", kill_actors, actors // 2, given.seed, 2, True),
        timed("actors, no snapshots", kill_actors, actors - actors // 2, given.seed + 1, 4, False),
    ]
    with tempfile.TemporaryDirectory() as folder:
        for name, compact, kills in (
            ("often", True, drivers // 2),
            ("seldom", False, drivers - drivers // 2),
        ):
            path = Path(folder) / name
            what = f"drivers, snapshots {name}"
            scores.append(timed(what, kill_drivers, path, kills, given.seed + 2, address, compact))
    ray.shutdown()
    return 0 if all(score.clean for score in scores) else 1


if __name__ == "__main__":
    sys.exit(main())
