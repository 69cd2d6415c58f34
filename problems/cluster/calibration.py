"""Fits the constants of :mod:`.builtin` to published measurements, and prints them as a table of Python.

    python -m copter.problems.cluster.calibration shared/data/cluster

reads, below that folder, the measurements on T4 GPUs of Pollux' artifact and the goodput tables of Sia's
authors (``derived_npz``), and does for each model

1. gradient noise: the median over the measured batch sizes, epoch by epoch, cut into at most eight levels
   such that the efficiency at a middling batch size varies least within them (exact, by dynamic programming);
2. T4: the throughput model fitted to the measured steps of Sia's configurations (:mod:`.fit`): parts of a node,
   and whole ones;
3. other types: parameters for which the best goodput, in these levels of noise, is closest to the tables by
   the squared logarithmic error, weighted by the levels' lengths, for each of several largest local batches,
   of which the best is kept.  Synchronisation between nodes of a type that the tables have on one node only
   is that of the type before it.

The printed errors are medians: of the times of measured steps for T4, of a job's run time over the table's
configurations for other types.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import least_squares

from copter.problems.cluster.efficiency import efficiency
from copter.problems.cluster.fit import fit_throughput
from copter.problems.cluster.goodput import BatchLimits, TypeModel, best_batches
from copter.problems.cluster.measured import MeasuredProfile
from copter.problems.cluster.throughput import MAX_GAMMA, ThroughputParameters
from copter.problems.cluster.traces.pollux_measurements import read_pollux_measurements, read_step_times

MODELS = ("bert", "cifar10", "deepspeech2", "imagenet", "ncf", "yolov3")
TABLE_TYPES = {"rtx": "rtx", "quad": "quad", "a100": "dgx-ext"}
"""Names of GPU types in the tables of Sia's authors."""
LEVELS = 8
LOCAL_BATCHES = (0.25, 0.35, 0.5, 0.7, 1.0, 1.4, 2.0, 2.8)
"""Largest local batches that are tried, over that of a T4."""
ARTIFACT = Path("petuum_adaptdl_osdi21-artifact") / "simulator" / "traces"
TABLES = Path("suhasjs_continuous-scheduling") / "derived_npz"


def noise_levels(
    profile: MeasuredProfile, levels: int = LEVELS
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Gradient noise of a measured job in a few levels.

    Parameters
    ----------
    profile : MeasuredProfile
    levels : int
        At most.

    Returns
    -------
    progress : (L,) array
        End of each level, in steps at the initial batch size.
    noise : (L,) array
        Gradient noise scale, examples.
    """
    statistics = profile.gradients
    squared_norm = np.maximum(statistics.squared_norm, np.finfo(float).tiny)
    noise = np.median(profile.initial_batch * statistics.variance / squared_norm, axis=1)
    length = np.diff(profile.progress, prepend=0.0)
    middling = float(np.sqrt(profile.initial_batch * profile.max_batch))
    value = np.log(efficiency(noise, profile.initial_batch, middling))
    ends = _segments(value, length, min(levels, noise.size))
    parts = np.split(np.arange(noise.size), ends[:-1])
    return profile.progress[ends - 1], np.array(
        [np.exp(np.average(np.log(noise[part]), weights=length[part])) for part in parts]
    )


def _segments(value: NDArray[np.float64], weight: NDArray[np.float64], count: int) -> NDArray[np.int64]:
    """Ends of the segments with the least weighted squared deviation from their means."""
    size = value.size
    sums = [np.concatenate(([0.0], np.cumsum(weight * value**k))) for k in range(3)]
    first, last = np.triu_indices(size + 1, 1)
    w, v, q = (total[last] - total[first] for total in sums)
    cost = np.full((size + 1, size + 1), np.inf)
    cost[first, last] = np.maximum(q - v**2 / w, 0.0)
    least, cuts = cost[0], []
    for _ in range(count - 1):
        through = least[:, None] + cost
        cuts.append(through.argmin(axis=0))
        least = through.min(axis=0)
    ends = [size]
    for cut in reversed(cuts):
        ends.append(int(cut[ends[-1]]))
    return np.array(ends[::-1], np.int64)


def fit_t4(folder: Path, profile: MeasuredProfile) -> tuple[TypeModel, float]:
    """Model of a job on T4 GPUs, and its median relative error over the measured steps.

    Parameters
    ----------
    folder : path
        With the model's measurements.
    profile : MeasuredProfile

    Returns
    -------
    TypeModel, float
    """
    steps = [
        (nodes, gpus, local, step, max(step - sync, 1e-6))
        for (nodes, gpus), by_batch in read_step_times(folder).items()
        for local, (step, sync) in by_batch.items()
        if gpus in (1, 2, 4) and nodes == 1 or gpus == 4 * nodes
    ]
    nodes, gpus, local, seconds, grad = np.array(steps).T
    parameters = fit_throughput(nodes, gpus, local, seconds, grad)
    error = np.abs(parameters.step_seconds(nodes, gpus, local) / seconds - 1.0)
    return TypeModel(parameters, profile.max_local_batch), float(np.median(error))


def fit_table(
    path: Path, type: str, t4: TypeModel, levels: tuple[NDArray, NDArray], limits: BatchLimits
) -> tuple[TypeModel, float]:
    """Model of a job on the GPUs of a goodput table, and the median relative error of its run times.

    Parameters
    ----------
    path : path
        The npz file with ``progress, goodput, gpu_type, num_nodes, num_gpus``.
    type : str
        As the table calls it.
    t4 : TypeModel
        From which the fit starts.
    levels : (L,) array, (L,) array
        Of :func:`noise_levels`.
    limits : BatchLimits

    Returns
    -------
    TypeModel, float
    """
    with np.load(path, allow_pickle=False) as file:
        mine = file["gpu_type"] == type
        nodes, gpus = file["num_nodes"][mine], file["num_gpus"][mine]
        ends, noise = levels
        level = np.searchsorted(ends, file["progress"].astype(np.float64)).clip(max=ends.size - 1)
        goodput = file["goodput"][:, mine].astype(np.float64)
    # Harmonic means keep each level's run time.
    table = np.stack([1.0 / (1.0 / goodput[level == k]).mean(axis=0) for k in range(ends.size)])
    target = np.log(table).ravel()
    shape = (np.tile(nodes, ends.size), np.tile(gpus, ends.size), np.repeat(noise, nodes.size))
    length = np.diff(ends, prepend=0.0)
    weight = np.sqrt(np.repeat(length / length.mean(), nodes.size))
    free = np.array([True, True, True, True, (nodes > 1).any(), np.unique(nodes).size > 2, True])
    fits = []
    for factor in LOCAL_BATCHES:
        local = max(1, round(factor * t4.max_local_batch))
        fits.append(_fit_goodput(shape, target, weight, t4.parameters, local, free, limits))
    _, model = min(fits, key=lambda fit: fit[0])
    predicted = (best_batches(model, *shape, limits)[0] / limits.initial).reshape(table.shape)
    return model, float(np.median(np.abs((length @ (1.0 / predicted)) / (length @ (1.0 / table)) - 1.0)))


def _fit_goodput(
    shape: tuple[NDArray, NDArray, NDArray],
    target: NDArray[np.float64],
    weight: NDArray[np.float64],
    start: ThroughputParameters,
    local: int,
    free: NDArray[np.bool_],
    limits: BatchLimits,
) -> tuple[float, TypeModel]:
    """Squared error and model for one largest local batch."""
    speed = np.exp(
        np.median(target - np.log(best_batches(TypeModel(start, local), *shape, limits)[0] / limits.initial))
    )
    scale = np.array(start.scaled(1.0 / speed))
    scale[:6] = np.maximum(scale[:6], 0.02 * scale[:6].max() / np.array([1.0, local, 1.0, 8.0, 1.0, 8.0]))

    def model(x: NDArray[np.float64]) -> TypeModel:
        values = np.where(free, scale, 0.0)
        values[free] *= x
        return TypeModel(ThroughputParameters(*(float(value) for value in values)), local)

    def residual(x: NDArray[np.float64]) -> NDArray[np.float64]:
        return weight * (np.log(best_batches(model(x), *shape, limits)[0] / limits.initial) - target)

    # A pass must take time, whatever else is 0.
    lower = np.where(np.arange(7) == 1, 1e-3, np.where(np.arange(7) == 6, 1.0 / scale, 0.0))[free]
    upper = np.where(np.arange(7) == 6, MAX_GAMMA / scale, 1e3)[free]
    start_at = np.clip(np.ones(7)[free], lower * (1 + 1e-6), upper * (1 - 1e-6))
    found = least_squares(residual, start_at, bounds=(lower, upper), max_nfev=60)
    return float(found.cost), model(found.x)


def main() -> None:
    """Fit and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("folder", type=Path, help="with the folders of Pollux' artifact and Sia's tables")
    folder = parser.parse_args().folder
    measured = read_pollux_measurements(folder / ARTIFACT)
    for name in MODELS:
        profile = measured[name]
        limits = BatchLimits(profile.initial_batch, profile.max_batch)
        ends, noise = noise_levels(profile)
        print(f'    "{name}": _Fitted(')
        print(f"        limits=({limits.initial}, {limits.largest}),")
        print(f"        progress={_numbers(ends, 6)},")
        print(f"        noise={_numbers(noise, 3)},")
        print("        models={")
        t4, error = fit_t4(folder / ARTIFACT / name, profile)
        _print_model("t4", t4, error)
        last = t4.parameters
        for type, other in TABLE_TYPES.items():
            path = folder / TABLES / f"{name}.npz"
            model, error = fit_table(path, other, t4, (ends, noise), limits)
            if not model.parameters.alpha_node:
                between = {field: getattr(last, field) for field in ("alpha_node", "beta_node")}
                model = model._replace(parameters=model.parameters._replace(**between))
            _print_model(type, model, error)
            last = model.parameters
        print("        },\n    ),")


def _print_model(type: str, model: TypeModel, error: float) -> None:
    print(f'            "{type}": ({_numbers(model.parameters, 3)}, {model.max_local_batch}),  # {error:.1%}')


def _numbers(values: tuple[float, ...] | NDArray[np.float64], digits: int) -> str:
    small = 1e-9 * max(values)  # a bound that the fit did not quite reach
    return "(" + ", ".join(f"{float(value) * (value > small):.{digits}g}" for value in values) + ")"


if __name__ == "__main__":
    main()
