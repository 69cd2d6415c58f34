"""Random rounds of nearly empty programs, and of programs in parts."""

from collections import Counter

import pytest

from copter.ray.distributed import DistributedProgram
from copter.solvers.proximal.full_pass import FullPass
from rounds.kinds import FAMILIES, TINY
from rounds.play import play
from support.amounts import longer
from support.in_parts import InProcess


@pytest.mark.parametrize("games", [8, longer(30)])
def test_tiny_programs_to_which_anything_happens(games):
    counts: Counter = Counter()
    for seed in range(games):
        play(seed, TINY, 24, counts)
    assert min(counts[f"status: {name}"] for name in ("optimal", "infeasible")) > 1.6 * games
    assert counts["round: nothing to do"] and counts["judge: ray"] and counts["path: coordinate descent"]


@pytest.mark.parametrize("parts", [longer(1), 3, longer(64)])
@pytest.mark.parametrize(
    ("seed", "family", "why"),
    [
        (5, FAMILIES["box and total"], FullPass.CONVEX_TERMS),
        (0, FAMILIES["mixed"], FullPass.REMOTE_COLUMNS),
        (0, TINY, FullPass.REMOTE_COLUMNS),
        (1, TINY, FullPass.REMOTE_COLUMNS),
    ],
    ids=lambda each: getattr(each, "name", str(each)).lower(),
)
def test_rounds_on_a_program_in_parts_are_right(parts, seed, family, why):
    counts: Counter = Counter()
    play(seed, family, 15, counts, program=DistributedProgram(InProcess(parts)))
    assert counts[f"full pass: {why.value}"]
