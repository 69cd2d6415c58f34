"""Random rounds of every kind are right, and every kind of edit, path and copy really happens in them."""

from collections import Counter

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from copter.solvers.proximal.full_pass import FullPass
from rounds.edits import VERBS, options_of
from rounds.kinds import FAMILIES, SCARCE
from rounds.play import HAPPENINGS, Game, play
from support.amounts import longer

RARE = {
    FullPass.REMOTE_COLUMNS: "the test of programs on actors has it",
    FullPass.BY_SIMPLEX: "needs a solver whose engine depends on measured times",
    FullPass.INTERRUPTED: "needs a deadline while active requests are solved, which few random deadlines hit",
    FullPass.NO_BEST: "needs a request that has no allocation, which is infeasible at once",
    FullPass.NO_COST_RANGE: "needs an optimum that costs next to nothing",
    FullPass.ROWS_NOT_MET: "needs active requests that alone cannot meet the rows",
    FullPass.TOO_MUCH_WORK: "needs active requests on which the steps take more iterations than a full pass",
    FullPass.ROWS_REUSED: "needs many removed rows before a new one takes a place",
}
"""Reasons for a full pass that the default share does not meet, and why."""
GAMES = [(seed, 24, False) for seed in (*range(33), 38, 42, 54, 87)] + [
    (seed, 12, True) for seed in (*range(8, 16), 19, 22, 27)
]
"""Seed, rounds, and whether it is a large program with the usual settings."""
FEW_GAMES = [(seed, 24, False) for seed in (7, 14, 42, 43, 49, 53, 87, 90, 93, 115)] + [(22, 12, True)]
"""Games in which everything happens, too: a cover."""


def expected() -> set[str]:
    """All that has to happen."""
    names = set(HAPPENINGS)
    names |= {f"{verb}: {option}" for verb in VERBS for option in options_of(verb)}
    cases = Game(0, FAMILIES["mixed"], Counter()).editor.wrong_cases()
    names |= {f"refused: {verb}, {why}" for verb, why, *_ in cases}
    return names | {f"full pass: {why.value}" for why in FullPass if why not in RARE}


@pytest.mark.parametrize("games", [FEW_GAMES, longer(GAMES)], ids=["few", "all"])
def test_random_rounds_are_right_and_every_kind_happens(games):
    counts: Counter = Counter()
    for seed, rounds, large in games:
        play(seed, list(FAMILIES.values())[seed % len(FAMILIES)], rounds, counts, large)
    missing = {name for name in expected() if not counts[name]}
    assert not missing
    for family in FAMILIES if games is GAMES else ("network",):
        few = counts[f"few read, large, {family}"], counts[f"few changes, large, {family}"]
        # In a network this small most edits lose more than the tolerance at the last prices.
        assert few[0] > few[1] / (5 if family == "network" else 2), family


@pytest.mark.parametrize("seed", [102, longer(105)])
def test_rounds_of_scarce_rows_are_right(seed):
    counts: Counter = Counter()
    play(seed, SCARCE, 20, counts)
    assert counts["path: partial"] > 4 and counts["path: whole"] > 1


@pytest.mark.parametrize(("seed", "family"), [(1037, "general"), longer(596018, "total")])
def test_games_that_once_found_a_fault(seed, family):
    play(seed, FAMILIES[family], 40, Counter())


@pytest.mark.long
@settings(max_examples=100, phases=[Phase.generate], suppress_health_check=list(HealthCheck))
@given(
    seed=st.integers(0, 10**9),
    family=st.sampled_from([*FAMILIES.values(), SCARCE]),
    large=st.sampled_from([False] * 9 + [True]),
)
def test_more_random_rounds_are_right(seed, family, large):
    play(seed, family, 30, Counter(), large)
