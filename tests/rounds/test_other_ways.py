"""Random rounds with columns on actors of Ray, and with kernels that are not compiled."""

import hashlib
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from copter.solvers.proximal.full_pass import FullPass
from rounds.kinds import FAMILIES
from rounds.play import play

INTERPRETED = """
import sys
sys.path.insert(0, {tests!r})
from copter.compile import first_calls
first_calls._SECONDS_A_BYTE, first_calls._LONG = float("inf"), sys.maxsize
from rounds.test_other_ways import digest
print(digest(), file=sys.stderr)
"""


def digest() -> str:
    """A digest of all answers of a few games, with every bit."""
    answers: list[str] = []
    for seed, family in enumerate(("mixed", "network", "box and total")):
        play(4 * seed, FAMILIES[family], 5, Counter(), answers=answers)
    return hashlib.sha256("\n".join(answers).encode()).hexdigest()


@pytest.mark.long
def test_kernels_that_are_not_compiled_give_the_same_bits(tmp_path):
    code = INTERPRETED.format(tests=str(Path(__file__).parents[1]))
    environment = {"XDG_CACHE_HOME": str(tmp_path), "PATH": "", "HOME": str(tmp_path)}
    result = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True)
    assert result.returncode == 0, result.stderr
    assert result.stderr.strip().splitlines()[-1] == digest()


@pytest.mark.cluster
@pytest.mark.parametrize("family", ["equal", "box", "mixed", "network"])
def test_rounds_with_columns_on_actors_are_right(local_ray, family):
    from copter.ray import RayProgram

    counts: Counter = Counter()
    with RayProgram(2, num_cpus=0) as program:
        play(3, FAMILIES[family], 15, counts, program=program)
    assert counts[f"full pass: {FullPass.REMOTE_COLUMNS.value}"]
