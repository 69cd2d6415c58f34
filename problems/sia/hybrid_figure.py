"""Section 3.5.3 of the thesis: a hybrid-parallel GPT scales linearly, and Sia scales it with the load.

The paper shows two pictures and prints no figures of them: throughput is linear in GPUs, and under Sia the
job is scaled down when jobs arrive and up again when they leave.  Here the job has an hour for itself; then
40 jobs of the Philly trace arrive within 25 minutes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from copter.bench.reproduction import Effort, Figure, Reproduction
from copter.problems.cluster.presets import cluster_by_name
from copter.problems.cluster.profiles.hybrid import MICROBATCHES, HybridProfile, gpt_profile
from copter.problems.cluster.registry import by_name, make_policy
from copter.problems.cluster.simulation.placement import SiaPlacer
from copter.problems.cluster.simulation.results import Segment
from copter.problems.cluster.simulation.simulator import Simulator
from copter.problems.cluster.workload import JobSubmission, Scenario

ALONE = 3600.0
"""Seconds before the others arrive."""
JOBS, COMPRESSION = 40, 6.0
"""How many others, and how many times as fast they arrive as in the trace."""
EPOCHS = 24.0
"""So many that the job outlasts the others' stay."""
_SHAPES = {"a100": (2, 16), "rtx": (3, 24)}
"""All nodes of a type in the heterogeneous cluster: nodes and GPUs."""


def _scaling(profile: HybridProfile) -> list[Figure]:
    """Throughput on all GPUs of a type over that of one replica times the replicas."""
    figures = []
    for type, (nodes, gpus) in _SHAPES.items():
        stages, parameters = profile.pipelines[type]
        replicas = gpus // stages
        one = float(parameters.throughput(1, 1, MICROBATCHES))
        many = float(parameters.throughput(nodes, replicas, MICROBATCHES))
        row = f"{replicas} replicas of {stages} {type}"
        figures.append(Figure(row, "throughput over linear", "x", many / (replicas * one), 1.0))
    return figures


def _mean_gpus(segments: Sequence[Segment], begin: float, end: float) -> float:
    """GPUs that a job held, averaged over a time."""
    held = sum(
        one.gpus * max(0.0, min(one.end, end) - max(one.begin, begin)) for one in segments if one.job == "gpt"
    )
    return held / (end - begin)


def _measure(effort: Effort) -> list[Figure]:
    profile = gpt_profile(EPOCHS)
    before, during, after = [], [], []
    for seed in range(effort.seed, effort.seed + effort.seeds):
        effort.say(f"Sia with the GPT and {JOBS} jobs, seed {seed}")
        base = by_name("philly", cluster_by_name("heterogeneous-64"), seed, effort.data)
        others = [replace(job, time=ALONE + job.time / COMPRESSION) for job in base.jobs[:JOBS]]
        jobs = [JobSubmission("gpt", 0.0, "XXL", "gpt"), *others]
        scenario = Scenario(base.cluster, jobs, {**base.profiles, "gpt": profile})
        simulator = Simulator(scenario, make_policy("sia"), placer=SiaPlacer()).play()
        last, end = (
            max(one.end for one in simulator.segments if (one.job == "gpt") == mine) for mine in (False, True)
        )
        arrived = max(job.time for job in others)
        before.append(_mean_gpus(simulator.segments, ALONE / 2, ALONE))
        during.append(_mean_gpus(simulator.segments, ALONE, arrived + ALONE / 2))
        after.append(_mean_gpus(simulator.segments, min(last, end - ALONE / 4), end))
    return [
        *_scaling(profile),
        *(
            Figure(row, "GPUs of the GPT", "", sum(gpus) / len(gpus))
            for row, gpus in (("alone", before), ("congestion", during), ("at the end", after))
        ),
    ]


REPRODUCTIONS = (
    Reproduction(
        name="sia-section-3.5.3",
        title="A hybrid-parallel GPT under Sia: linear throughput, scaled down in congestion and up after it",
        source="thesis, section 3.5.3",
        differs=(
            "The thesis prints no times of the GPT: ours follow from FLOP counts. It trains longer than on "
            "BERT's two epochs, so that it outlasts the congestion; the congestion is ours too."
        ),
        measure=_measure,
        minutes=1.0,
    ),
)
