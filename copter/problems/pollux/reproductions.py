"""Pollux' evaluation (section 5) on the authors' measurements and workloads, for `reproductions.toml`.

Figures 2b and 3 compare its models of efficiency and throughput with measurements.  Figure 2b predicts the
statistical efficiency at every batch size from the gradient noise measured at one batch size.  Here it is the
artifact's 3,200, because the paper's 4,000 is not in it.  The prediction is compared with the efficiency from
each batch size's own noise.  Figure 3 fits the throughput model to measured steps.  The paper shows ImageNet;
here are all models, with their median relative errors over the placements on up to four nodes, and over the
larger clusters without data in the fit.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from copter.arrays import Floats
from copter.bench.grid import grid
from copter.bench.reproduction import Effort, PaperFigure
from copter.problems.cluster.estimation.fit import fit_throughput
from copter.problems.cluster.profiles.measured import MeasuredProfile
from copter.problems.cluster.profiles.throughput import ThroughputParameters, efficiency, noise_scale
from copter.problems.cluster.simulation.simulator import Simulator
from copter.problems.cluster.traces.pollux import WORKLOADS, read_pollux_measurements, read_steps
from copter.problems.pollux.artifact import Artifact
from copter.problems.pollux.fitness import WEIGHTED_MEAN

_POLICIES = ("pollux", "optimus", "tiresias")
_HOUR = 3600.0
_TESTBED_WORKLOAD = 6
"""Number of the workload of the experiments on the testbed."""
_EPOCH, _BATCH_SIZE = 15, 3200
_NODES = 4
"""Number of nodes of the cluster on which all placements were measured (section 5.3)."""
_JCT = ("average JCT", "p50 JCT", "p99 JCT")


def simulated(effort: Effort, *, shipped: str = "", **settings: Any) -> list[PaperFigure]:
    """Return the figures of policies on the authors' workloads (`_sample`), with the published result."""
    units, artifact = dict.fromkeys(_JCT, "s"), Artifact(effort)

    def paper(effort: Effort, **case: Any) -> dict[str, float]:
        result = case.get("result", shipped).format(**case)
        return {"average JCT": artifact.shipped(result, artifact.numbers)} if result else {}

    return grid(effort, _sample, units, samples=WORKLOADS, paper=paper, **settings)


def _sample(
    effort: Effort,
    row: str,
    k: int,
    *,
    policy: str,
    load: float = 1.0,
    result: str = "",
    avoidance: str = "",
    decay: float | None = None,
    **settings: Any,
) -> dict[str, float]:
    """Return completion times in seconds on a workload of a load.

    Pollux runs "with" or "without" avoidance of interference, or with a decay of the weights of jobs in the
    mean of their speedups.
    """
    artifact = Artifact(effort)
    jobs = artifact.jobs(artifact.numbers[k], "workloads" if load == 1.0 else f"workloads-{load}")
    if avoidance:
        settings["avoid_interference"] = avoidance == "with"
    if decay is not None:
        settings["fitness"] = replace(WEIGHTED_MEAN, decay=decay)
    times = _times(artifact.simulator(policy, jobs, **settings))
    effort.say(f"{row}, workload {artifact.numbers[k]}: {times.mean():,.0f} s")
    return dict(zip(_JCT, [float(times.mean()), *np.quantile(times, (0.5, 0.99)).tolist()], strict=True))


def _times(simulator: Simulator) -> Floats:
    """Return the completion times in seconds."""
    return np.array([record.jct for record in simulator.play().job_results()])


def testbed(effort: Effort) -> list[PaperFigure]:
    """Return JCT and makespan of the testbed's workload, and the text's efficiency and throughput."""
    artifact, figures = Artifact(effort), []
    jobs, trained = artifact.jobs(_TESTBED_WORKLOAD), {}
    for policy in _POLICIES:
        simulator = artifact.simulator(policy, jobs)
        trained[policy] = _Trained.under(simulator)
        records = simulator.job_results()
        times = np.array([record.jct for record in records]) / _HOUR
        begin, end = min(one.submitted for one in records), max(one.finished for one in records)
        hours = {
            "average JCT": times.mean(),
            "p99 JCT": np.quantile(times, 0.99),
            "makespan": (end - begin) / _HOUR,
        }
        figures += [PaperFigure(policy, name, "h", float(value)) for name, value in hours.items()]
        figures.append(PaperFigure(policy, "efficiency", "%", 100.0 * trained[policy].efficiency))
    for baseline in _POLICIES[1:]:
        for name in ("throughput", "goodput"):
            mine, theirs = (getattr(trained[policy], name) for policy in ("pollux", baseline))
            ratios = [mine[job] / theirs[job] for job in mine if job in theirs]
            figures.append(PaperFigure("pollux", f"{name} over {baseline}'s", "x", float(np.mean(ratios))))
    return figures


@dataclass(frozen=True)
class _Trained:
    """Measures of the training of jobs.

    `efficiency`: statistical efficiency, a mean over the running jobs at all times. `throughput`, `goodput`:
    by job, over the rounds at whose end it ran: batches of its initial size per second, and the same in
    batches as useful as those at that size.
    """

    efficiency: float
    throughput: dict[str, float]
    goodput: dict[str, float]

    @classmethod
    def under(cls, simulator: Simulator) -> _Trained:
        """Replay a simulation, and measure its jobs in every round."""
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


def efficiencies(effort: Effort) -> list[PaperFigure]:
    """Return the statistical efficiency of ImageNet by batch size, and its prediction from one of them."""
    gradients = read_pollux_measurements(Artifact(effort).root / "traces")["imagenet"].gradients
    initial, sizes = float(gradients.batch_sizes[0]), gradients.batch_sizes
    noise = noise_scale(gradients.squared_norm[_EPOCH], gradients.variance[_EPOCH], initial)
    predicted = efficiency(noise[sizes == _BATCH_SIZE], initial, sizes)
    actual = efficiency(noise, initial, sizes)
    return [
        PaperFigure(f"batch {size:.0f}", column, "", float(value))
        for size, *values in zip(sizes, actual, predicted, strict=True)
        for column, value in zip(("actual efficiency", "predicted efficiency"), values, strict=True)
        if size > initial
    ]


def throughputs(effort: Effort) -> list[PaperFigure]:
    """Return the median errors of the fitted throughput model, by application."""
    figures = []
    for folder in sorted(path.parent for path in (Artifact(effort).root / "traces").glob("*/placements.csv")):
        steps = np.array(read_steps(folder), np.float64)[:, :4]
        seen = steps[:, 0] <= _NODES
        fitted = fit_throughput(*steps[seen].T)
        effort.say(f"{folder.name}: {', '.join(f'{value:.3g}' for value in fitted)}")
        for column, chosen in (("4 nodes", seen), ("6 to 16 nodes, unseen", ~seen)):
            figures.append(
                PaperFigure(folder.name, f"median error, {column}", "%", _error(fitted, steps[chosen]))
            )
    return figures


def _error(fitted: ThroughputParameters, steps: Floats) -> float:
    """Return the median relative error in percent."""
    nodes, gpus, local, seconds = steps.T
    return 100.0 * float(np.median(np.abs(fitted.step_seconds(nodes, gpus, local) / seconds - 1.0)))
