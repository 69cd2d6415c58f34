"""What docs/benchmarks.md shows: the commands that are measured, in order, and a sentence on each."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Course:
    """A command whose JSON document lies beside this file.

    Attributes
    ----------
    name : str
        Of the document, without .json.
    title, text : str
        Heading on the page, and what a round is.
    command : str
        Without ``--json``.
    """

    name: str
    title: str
    text: str
    command: str


def sia(gpus: int, jobs: int, rounds: int) -> Course:
    """A size of the cluster, in which 2% of the jobs leave and arrive a round."""
    return Course(
        f"sia-{gpus}",
        f"Sia, {gpus:,} GPUs, {jobs:,} jobs",
        "2% of the jobs leave and as many arrive, and all costs move.",
        f"copter bench sia --gpus {gpus} --jobs {jobs} --rounds {rounds}"
        " --solvers copter,copter-cold,highs-hot",
    )


SIZES = [
    sia(64, 30, 21),
    sia(256, 60, 21),
    sia(1024, 200, 21),
    sia(2560, 400, 9),
    sia(5120, 500, 6),
    sia(10240, 1000, 4),
]
COURSES = [
    *SIZES,
    Course(
        "traffic",
        "Traffic on a network of 250 nodes, 20,000 demands",
        "Every demand moves by up to 10%.",
        "copter bench traffic --topology gabriel/250/0 --capacity 1000 --demands 20000 --rounds 5"
        " --solvers copter,highs-hot,pop-16",
    ),
    Course(
        "load-balancing",
        "1,024 shards on 128 servers",
        "The loads change, each method goes on from its own last placement.",
        "copter bench load-balancing --shards 1024 --servers 128 --rounds 60"
        " --solvers copter,highs-hot,heuristic",
    ),
    Course(
        "shockwave",
        "Shockwave plans, 2,000 jobs on 256 GPUs",
        "Each round's window is planned, up to whole rounds.",
        "copter bench shockwave --jobs 2000 --gpus 256 --rounds 6 --solvers copter,water-filling,cvxpy",
    ),
    Course(
        "updates",
        "Edits alone",
        "1% of the requests are replaced, change their costs, or come with columns of their own. Beside it,"
        " scipy builds the CSR of the whole program.",
        "copter bench updates --sizes 100000,1000000",
    ),
]
