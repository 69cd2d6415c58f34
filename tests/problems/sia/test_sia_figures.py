"""Figures of Sia against itself: their rows, and that changes are those of the rows."""

import pytest

from copter.bench.reproduction import Effort, reproductions


@pytest.mark.long
def test_changes_are_those_of_the_rows():
    said = []
    effort = Effort(seeds=1, quick=True, say=said.append)
    figures = {(one.row, one.column): one for one in reproductions()["sia-figure-3.8"].measure(effort)}
    assert len(said) == 3 and all("60 jobs" in line for line in said)
    base = figures["constant penalty", "average JCT"].ours
    for name, printed in (("tau = 180 s", -14.0), ("tau = 300 s", -12.7)):
        change = figures[name, "average JCT, change"]
        assert change.ours == pytest.approx(100 * (figures[name, "average JCT"].ours / base - 1))
        assert change.paper == printed
