"""Tables and figures of Pollux' evaluation (section 5), on the authors' measurements and workloads.

Figures 2b and 3 show how close its models of efficiency and throughput come to measurements.  Figure 2b
predicts the statistical efficiency at every batch size from the gradient noise measured at one, here the
artifact's 3,200 (the paper's 4,000 is not in it), and compares it with that from each batch size's own noise.
Figure 3 fits the throughput model to measured steps; the paper draws ImageNet, here are all models, as their
median relative error over the placements on up to four nodes, and over the larger clusters that the fit did
not see.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from copter.bench.reproduction import Effort, Figure, Reproduction, mean_figure
from copter.errors import InputError
from copter.problems.cluster.estimation.fit import fit_throughput
from copter.problems.cluster.profiles.measured import MeasuredProfile
from copter.problems.cluster.profiles.throughput import ThroughputParameters, efficiency, noise_scale
from copter.problems.cluster.simulation.simulator import Simulator
from copter.problems.cluster.traces.pollux import FOLDER, read_pollux_measurements, read_steps
from copter.problems.cluster.workload import JobSubmission
from copter.problems.pollux.artifact import Artifact
from copter.problems.pollux.cloud import train_in_the_cloud
from copter.problems.pollux.fitness import WEIGHTED_MEAN
from copter.problems.reading import find

POLICIES = ("pollux", "optimus", "tiresias")
HOUR = 3600.0
TESTBED_WORKLOAD = 6
"""The workload of the experiments on the testbed."""


_TESTBED = {"pollux": (1.2, 8.8, 20.0), "optimus": (1.6, 11.0, 24.0), "tiresias": (2.4, 16.0, 33.0)}
_EFFICIENCY = {"pollux": 91.0, "optimus": 74.0, "tiresias": 74.0}
_RATES = {"optimus": (1.2, 1.4), "tiresias": (1.5, 2.0)}
"""Pollux' throughput and goodput over another policy's, from section 5.2.1."""
_DECAYS = {0.0: (1.0, 1.0, 1.0), 0.5: (0.95, 0.77, 1.05), 1.0: (0.98, 0.68, 1.20)}
_REALISTIC = {(0.0, "optimus"): 1 / 0.74, (0.0, "tiresias"): 1 / 0.6, (1.0, "optimus"): 2.0}
_LOADS = (0.5, 1.0, 1.5, 2.0)
_DOUBLE = {"pollux": 1.8, "optimus": 2.0, "tiresias": 2.6}
_INTERFERENCE = {(True, 0.0): "avoid", (False, 0.0): "noavoid", (False, 0.25): "inter25"}
_FIRST = "The first workloads of the eight by number; --seeds 8 runs all."
_FITNESS = "Fitness of the published scheduler: the power mean with p = -1 over the fair share."
EPOCH, BATCH_SIZE = 15, 3200
NODES = 4
"""The cluster on which all placements were measured (section 5.3)."""


def jct(effort: Effort) -> list[Figure]:
    """Average JCT beside the results that the authors ship."""
    artifact, figures = Artifact(effort), []
    for policy in POLICIES:
        ours = artifact.average_jct(policy)
        shipped = artifact.shipped(f"results-jobload/{policy}-1.0", artifact.numbers)
        figures.append(mean_figure(policy, "average JCT", "s", ours, shipped))
    return figures


def table_2(effort: Effort) -> list[Figure]:
    """JCT and makespan of the testbed's workload; efficiency, throughput and goodput as the text has them."""
    artifact, figures = Artifact(effort), []
    jobs = artifact.jobs(TESTBED_WORKLOAD)
    trained = {}
    for policy in POLICIES:
        simulator = artifact.simulator(policy, jobs)
        trained[policy] = Trained.under(simulator)
        records = simulator.job_results()
        times = np.array([record.jct for record in records]) / HOUR
        begin, end = min(one.submitted for one in records), max(one.finished for one in records)
        ours = (times.mean(), np.quantile(times, 0.99), (end - begin) / HOUR)
        names = ("average JCT", "p99 JCT", "makespan")
        for name, value, paper in zip(names, ours, _TESTBED[policy], strict=True):
            figures.append(Figure(policy, name, "h", float(value), paper))
        figures.append(
            Figure(policy, "efficiency", "%", 100.0 * trained[policy].efficiency, _EFFICIENCY[policy])
        )
    for rival, papers in _RATES.items():
        for name, paper in zip(("throughput", "goodput"), papers, strict=True):
            mine, theirs = (getattr(trained[policy], name) for policy in ("pollux", rival))
            ratios = [mine[job] / theirs[job] for job in mine if job in theirs]
            figures.append(Figure("pollux", f"{name} over {rival}'s", "x", float(np.mean(ratios)), paper))
    return figures


@dataclass(frozen=True)
class Trained:
    """How jobs trained.

    Attributes
    ----------
    efficiency : float
        Statistical efficiency, a mean over the jobs that run at any time.
    throughput, goodput : dict of str to float
        By job, over the rounds at whose end it ran: batches of its initial size a second, and such of
        which each is worth as much as one at that size.
    """

    efficiency: float
    throughput: dict[str, float]
    goodput: dict[str, float]

    @classmethod
    def under(cls, simulator: Simulator) -> Trained:
        """Play a simulation, and look at its jobs in every round."""
        seen: list[float] = []
        examples: dict[str, list[float]] = {}
        useful: dict[str, list[float]] = {}
        for _ in simulator.run():
            for name, job in simulator.jobs.items():
                held, level = job.allocation, job.level
                restarting = simulator.timer.time < job.restart_until
                if held is None or restarting or not isinstance(job.profile, MeasuredProfile):
                    continue
                gain = float(job.profile.curve(held)[level])
                share = job.profile.efficiency(held, level)
                seen.append(share)
                examples.setdefault(name, []).append(gain / share)
                useful.setdefault(name, []).append(gain)
        each = ({name: float(np.mean(rates)) for name, rates in one.items()} for one in (examples, useful))
        return cls(float(np.mean(seen)), *each)


def table_3(effort: Effort) -> list[Figure]:
    """JCT by the decay of the weights, relative to no decay."""
    artifact, figures, base = Artifact(effort), [], np.ones(3)
    for decay, paper in _DECAYS.items():
        fitness = replace(WEIGHTED_MEAN, decay=decay)
        found = []
        for number in artifact.numbers:
            records = artifact.run("pollux", artifact.jobs(number), fitness=fitness)
            times = np.array([record.jct for record in records])
            found.append([times.mean(), *np.quantile(times, (0.5, 0.99))])
            effort.say(f"decay {decay:g}, workload {number}: {times.mean():,.0f} s")
        mean = np.mean(found, axis=0)
        base = mean if decay == 0.0 else base
        for name, value, printed in zip(("average", "p50", "p99"), mean / base, paper, strict=True):
            figures.append(Figure(f"decay {decay:g}", f"{name} JCT", "x", float(value), printed))
    return figures


_REALISTIC |= {(1.0, "tiresias"): 1 / 0.3}


def figure_7(effort: Effort) -> list[Figure]:
    """Average JCT over Pollux' by the share of jobs as their users configured them."""
    artifact, figures = Artifact(effort), []
    # Pollux goes by neither the GPUs nor the batch sizes of users.
    pollux = float(np.mean(artifact.average_jct("pollux")))
    for share in (0.0, 1.0) if effort.quick else (0.0, 0.25, 0.5, 0.75, 1.0):
        mixed = {number: _mix(artifact, number, share) for number in artifact.numbers}
        for policy in POLICIES[1:]:
            runs = [artifact.run(policy, jobs) for jobs in mixed.values()]
            ratio = float(np.mean([[record.jct for record in records] for records in runs])) / pollux
            effort.say(f"{share:.0%} realistic, {policy}: {ratio:.2f} times Pollux' JCT")
            paper = _REALISTIC.get((share, policy), float("nan"))
            figures.append(Figure(f"{share:.0%} realistic", policy, "x", ratio, paper))
    return figures


def _mix(artifact: Artifact, number: int, share: float) -> list[JobSubmission]:
    """A workload in which a share of the jobs are as their users configured them."""
    tuned, realistic = artifact.jobs(number), artifact.jobs(number, "workloads-realistic")
    picked = np.random.default_rng(number).permutation(len(tuned))[: round(share * len(tuned))]
    chosen = set(picked.tolist())
    return [realistic[k] if k in chosen else job for k, job in enumerate(tuned)]


def figure_8(effort: Effort) -> list[Figure]:
    """Average JCT by load, beside the results that the authors ship, and relative to load 1."""
    artifact, figures = Artifact(effort), []
    for policy in POLICIES:
        ours = {}
        for load in _LOADS:
            folder = "workloads" if load == 1.0 else f"workloads-{load}"
            averages = artifact.average_jct(policy, folder)
            shipped = artifact.shipped(f"results-jobload/{policy}-{load}", artifact.numbers)
            figures.append(mean_figure(policy, f"load {load}", "s", averages, shipped))
            ours[load] = figures[-1].ours
        figures.append(Figure(policy, "load 2.0 over 1.0", "x", ours[2.0] / ours[1.0], _DOUBLE[policy]))
    return figures


_INTERFERENCE |= {(False, 0.5): "inter50"}


def figure_9(effort: Effort) -> list[Figure]:
    """Average JCT with and without interference avoidance, over that with it and no slowdown."""
    artifact, figures, base = Artifact(effort), [], 0.0
    shipped = artifact.shipped("results-inter/avoid", artifact.numbers)
    for (avoid, slowdown), result in _INTERFERENCE.items():
        averages = artifact.average_jct("pollux", avoid_interference=avoid, slowdown=slowdown)
        base = base or float(np.mean(averages))
        theirs = artifact.shipped(f"results-inter/{result}", artifact.numbers) / shipped
        row = f"{'with' if avoid else 'without'} avoidance"
        ours = float(np.mean(averages)) / base
        figures.append(Figure(row, f"slowdown {slowdown:.0%}", "x", ours, theirs))
    return figures


def figure_10(effort: Effort) -> list[Figure]:
    """Cost and time of training ImageNet in the cloud, by goodput over by throughput."""
    profiles = Artifact(effort).profiles
    goodput = train_in_the_cloud(profiles["imagenet"], by_goodput=True)
    throughput = train_in_the_cloud(profiles["imagenet"], by_goodput=False)
    nan = float("nan")
    return [
        Figure("goodput", "node-hours", "h", goodput.node_hours),
        Figure("throughput", "node-hours", "h", throughput.node_hours),
        Figure("goodput", "time", "h", goodput.hours),
        Figure("throughput", "time", "h", throughput.hours),
        Figure("goodput over throughput", "cost", "x", goodput.node_hours / throughput.node_hours, 0.75, nan),
        Figure("goodput over throughput", "time", "x", goodput.hours / throughput.hours, 1.06, nan),
    ]


def _folder(effort: Effort) -> Path:
    root = find(effort.data, FOLDER)
    if root is None:
        raise InputError(effort.data or Path("data"), FOLDER, "is not there: it is Pollux' artifact")
    return root / "traces"


def _figure_2b(effort: Effort) -> list[Figure]:
    gradients = read_pollux_measurements(_folder(effort))["imagenet"].gradients
    initial, sizes = float(gradients.batch_sizes[0]), gradients.batch_sizes
    noise = noise_scale(gradients.squared_norm[EPOCH], gradients.variance[EPOCH], initial)
    predicted = efficiency(noise[sizes == BATCH_SIZE], initial, sizes)
    actual = efficiency(noise, initial, sizes)
    return [
        Figure(f"batch {size:.0f}", column, "", float(value))
        for size, *values in zip(sizes, actual, predicted, strict=True)
        for column, value in zip(("actual efficiency", "predicted efficiency"), values, strict=True)
        if size > initial
    ]


def _figure_3(effort: Effort) -> list[Figure]:
    figures = []
    for folder in sorted(path.parent for path in _folder(effort).glob("*/placements.csv")):
        steps = np.array(read_steps(folder), np.float64)[:, :4]
        seen = steps[:, 0] <= NODES
        fitted = fit_throughput(*steps[seen].T)
        effort.say(f"{folder.name}: {', '.join(f'{value:.3g}' for value in fitted)}")
        for column, chosen in (("4 nodes", seen), ("6 to 16 nodes, unseen", ~seen)):
            figures.append(Figure(folder.name, f"median error, {column}", "%", _error(fitted, steps[chosen])))
    return figures


def _error(fitted: ThroughputParameters, steps: NDArray[np.float64]) -> float:
    """Median relative error in percent."""
    nodes, gpus, local, seconds = steps.T
    return 100.0 * float(np.median(np.abs(fitted.step_seconds(nodes, gpus, local) / seconds - 1.0)))


REPRODUCTIONS = (
    Reproduction(
        "pollux-jct",
        "Average JCT of 160 jobs on 64 T4, beside the shipped results",
        "Pollux section 5.3; results-jobload of the artifact",
        f"{_FITNESS} Pollux knows the jobs' goodput from the start.  {_FIRST}",
        jct,
        needs_data=True,
        minutes=5,
    ),
    Reproduction(
        "pollux-table-2",
        "JCT and makespan of the testbed's workload",
        "Pollux table 2",
        "Simulated, and on the workload that the authors ship, which is not the text's: their simulator has "
        f"0.68, 1.47 and 0.96 h on it for Pollux, Optimus and Tiresias. Jobs that end within a round "
        f"are in none of its means of rates.  {_FITNESS}",
        table_2,
        needs_data=True,
        minutes=2,
    ),
    Reproduction(
        "pollux-table-3",
        "JCT by the decay of the jobs' weights",
        "Pollux table 3",
        f"Fitness of the text: the weighted mean of speedups over one GPU.  {_FIRST}",
        table_3,
        needs_data=True,
        minutes=10,
    ),
    Reproduction(
        "pollux-figure-7",
        "Average JCT over Pollux' by the share of jobs configured by users",
        "Pollux figure 7 and section 5.3.1",
        f"{_FITNESS} Jobs of the artifact's workloads-realistic replace tuned ones at random.  {_FIRST}",
        figure_7,
        needs_data=True,
        minutes=20,
    ),
    Reproduction(
        "pollux-figure-8",
        "Average JCT by load",
        "Pollux figure 8; results-jobload of the artifact",
        f"{_FITNESS} {_FIRST}",
        figure_8,
        needs_data=True,
        minutes=20,
    ),
    Reproduction(
        "pollux-figure-9",
        "Average JCT without interference avoidance",
        "Pollux figure 9; results-inter of the artifact",
        f"{_FITNESS} {_FIRST}",
        figure_9,
        needs_data=True,
        minutes=12,
    ),
    Reproduction(
        "pollux-figure-10",
        "Cost of training ImageNet in the cloud",
        "Pollux figure 10 and section 5.3.3",
        "Thresholds of utility, not in the paper, as in the published scheduler: 0.35, 0.65.  By throughput "
        "the batch is the largest one.",
        figure_10,
        needs_data=True,
        minutes=1,
    ),
    Reproduction(
        name="pollux-figure-2b",
        title="Statistical efficiency of ImageNet training, predicted from the noise at one batch size",
        source="Pollux, Figure 2b",
        differs="Noise at 3,200 images predicts (in the paper at 4,000); the picture prints no figures.",
        measure=_figure_2b,
        needs_data=True,
        minutes=0.1,
    ),
    Reproduction(
        name="pollux-figure-3",
        title="Throughput model fitted to measured steps",
        source="Pollux, Figure 3",
        differs=(
            "The paper draws ImageNet and says that the fit is close; here are all models of its artifact."
        ),
        measure=_figure_3,
        needs_data=True,
        minutes=0.1,
    ),
)
