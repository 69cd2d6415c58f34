"""A hybrid-parallel job under Sia gives way to others and takes its GPUs back."""

from copter.bench.reproduction import Effort, reproductions


def test_the_gpt_scales_linearly_and_with_the_load():
    figures = reproductions()["sia-section-3.5.3"].measure(Effort(seeds=1))
    values = {figure.row: figure.ours for figure in figures}
    assert values["8 replicas of 2 a100"] > 0.95
    assert values["3 replicas of 8 rtx"] > 0.95
    assert values["alone"] == 16
    assert values["congestion"] < values["alone"] / 2
    assert values["at the end"] > 2 * values["congestion"]
