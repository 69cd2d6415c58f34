"""Figures 2b and 3 of Pollux: how close its models of efficiency and throughput come to measurements.

Figure 2b predicts the statistical efficiency at every batch size from the gradient noise measured at one,
here the artifact's 3,200 (the paper's 4,000 is not in it), and compares it with that from each batch size's
own noise. Figure 3 fits the throughput model to measured steps; the paper draws ImageNet, here are all
models, as their median relative error over the placements on up to four nodes, and over the larger clusters
that the fit did not see.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from copter.bench.reproduction import Effort, Figure, Reproduction
from copter.errors import InputError
from copter.problems.cluster.estimation.fit import fit_throughput
from copter.problems.cluster.profiles.throughput import ThroughputParameters, efficiency, noise_scale
from copter.problems.cluster.traces.pollux import FOLDER, read_pollux_measurements, read_steps
from copter.problems.reading import find

EPOCH, BATCH_SIZE = 15, 3200
NODES = 4
"""Of the cluster on which all placements were measured (section 5.3)."""


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
