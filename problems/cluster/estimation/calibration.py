"""Fits of the built-in profiles' constants to published measurements, printed as a Python table.

The constants are those of :mod:`copter.problems.cluster.profiles.builtin`.

    python -m copter.problems.cluster.estimation.calibration shared/data/cluster

Below that folder, the program reads the measurements on T4 GPUs of Pollux' artifact and the goodput tables of
Sia's authors (``derived_npz``).  For each model it computes

1. gradient noise: the median over the measured batch sizes in each epoch, cut into at most eight levels.  The
   cut minimises the variance, within the levels, of the efficiency at a middle batch size (exactly, by
   dynamic programming);
2. for each type, the parameters whose best goodput at these noise levels is closest to the measured goodput
   (T4, parts of a node and whole nodes) or to the tables (other types).  The error is the squared logarithmic
   error, weighted by the lengths of the levels.  The fit for T4 starts from the throughput model that is
   fitted to measured steps (:mod:`.fit`), and the fits for other types start from T4.  For other types,
   several largest local batches are tried and the best one is kept.  If the tables have a type on one node
   only, its synchronisation between nodes is that of the type before it.

The printed error of a model is the median, over the configurations, of the error of a whole job's run time.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import least_squares

from copter.arrays import Flags, Floats, Ints
from copter.problems.cluster.cluster import Cluster, GpuType
from copter.problems.cluster.estimation.fit import fit_throughput
from copter.problems.cluster.profiles.goodput import BatchLimits, TypeModel, best_batches
from copter.problems.cluster.profiles.measured import MeasuredProfile
from copter.problems.cluster.profiles.throughput import MAX_GAMMA, ThroughputParameters, efficiency
from copter.problems.cluster.traces.pollux import read_pollux_measurements, read_step_times

_MODELS = ("bert", "cifar10", "deepspeech2", "imagenet", "ncf", "yolov3")
_TABLE_TYPES = {"rtx": "rtx", "quad": "quad", "a100": "dgx-ext"}
"""Names of GPU types in the tables of Sia's authors."""
_LEVELS = 8
_LOCAL_BATCHES = (0.25, 0.35, 0.5, 0.7, 1.0, 1.4, 2.0, 2.8)
"""Largest local batches to try, relative to that of a T4."""
_HOLD = 1.0
"""Weight of the deviation from the T4 start values: goodput alone leaves some parameters undetermined."""
_ARTIFACT = Path("petuum_adaptdl_osdi21-artifact") / "simulator" / "traces"
_TABLES = Path("suhasjs_continuous-scheduling") / "derived_npz"


def _noise_levels(profile: MeasuredProfile, levels: int = _LEVELS) -> tuple[Floats, Floats]:
    """Return the gradient noise of a measured job in a few levels.

    Result: end of each level, in steps at the initial batch size; gradient noise scale, examples.
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


def _segments(value: Floats, weight: Floats, count: int) -> Ints:
    """Return the ends of the segments with the least weighted squared deviation from their means."""
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


class _GoodputTable(NamedTuple):
    """Goodput of a job by progress and configuration of one GPU type.

    `progress`: ascending, in steps at the initial batch size. `goodput`: steps of the initial batch a second.
    """

    progress: Floats
    goodput: Floats
    nodes: Ints
    gpus: Ints


def _read_table(path: Path, type: str) -> _GoodputTable:
    """Return the goodput table of one GPU type.

    `path`: the npz file with ``progress, goodput, gpu_type, num_nodes, num_gpus``. `type`: as the table calls
    it.
    """
    with np.load(path, allow_pickle=False) as file:
        mine = file["gpu_type"] == type
        goodput = file["goodput"][:, mine].astype(np.float64)
        progress = file["progress"].astype(np.float64)
        return _GoodputTable(progress, goodput, file["num_nodes"][mine], file["num_gpus"][mine])


def _measured_table(profile: MeasuredProfile, gpus_per_node: int = 4, nodes: int = 16) -> _GoodputTable:
    """Return the goodput table of a measured job on parts of a node and on whole nodes."""
    shapes = Cluster([GpuType(profile.type, gpus_per_node, nodes)]).configurations
    goodput = np.stack([profile.curve(shape) for shape in shapes], axis=1)
    return _GoodputTable(profile.progress, goodput, shapes.nodes, shapes.gpus)


def _start_of_t4(folder: Path, profile: MeasuredProfile) -> TypeModel:
    """Return the model of a job on T4 GPUs that is fitted to the times of its measured steps."""
    steps = [
        (nodes, gpus, local, step, max(step - sync, 1e-6))
        for (nodes, gpus), by_batch in read_step_times(folder).items()
        for local, (step, sync) in by_batch.items()
    ]
    return TypeModel(fit_throughput(*np.array(steps).T), profile.max_local_batch)


def _fit_table(
    table: _GoodputTable,
    start: TypeModel,
    levels: tuple[Floats, Floats],
    limits: BatchLimits,
    local_batches: Sequence[float] = _LOCAL_BATCHES,
    hold: float = 0.0,
) -> tuple[TypeModel, float]:
    """Return the model of a job fitted to a goodput table, and the median relative error of its run times.

    `start`: start of the fit. `levels`: result of `_noise_levels`. `local_batches`: largest local batches to
    try, relative to that of the start. `hold`: weight of the parameters' relative change from the start,
    against the weight of the goodput's error.
    """
    nodes, gpus = table.nodes, table.gpus
    ends, noise = levels
    level = np.searchsorted(ends, table.progress).clip(max=ends.size - 1)
    # Harmonic means preserve the run time of each level.
    mean = np.stack([1.0 / (1.0 / table.goodput[level == k]).mean(axis=0) for k in range(ends.size)])
    target = np.log(mean).ravel()
    shape = (np.tile(nodes, ends.size), np.tile(gpus, ends.size), np.repeat(noise, nodes.size))
    length = np.diff(ends, prepend=0.0)
    weight = np.sqrt(np.repeat(length / length.mean(), nodes.size))
    free = np.array([True, True, True, True, (nodes > 1).any(), np.unique(nodes).size > 2, True])
    fits = []
    for factor in local_batches:
        local = max(1, round(factor * start.max_local_batch))
        fits.append(_fit_goodput(shape, target, weight, start.parameters, local, free, limits, hold))
    _, model = min(fits, key=lambda fit: fit[0])
    predicted = (best_batches(model, *shape, limits)[0] / limits.initial).reshape(mean.shape)
    return model, float(np.median(np.abs((length @ (1.0 / predicted)) / (length @ (1.0 / mean)) - 1.0)))


def _fit_goodput(
    shape: tuple[NDArray, NDArray, NDArray],
    target: Floats,
    weight: Floats,
    start: ThroughputParameters,
    local: int,
    free: Flags,
    limits: BatchLimits,
    hold: float,
) -> tuple[float, TypeModel]:
    """Return the squared error and the model for one largest local batch."""
    speed = np.exp(
        np.median(target - np.log(best_batches(TypeModel(start, local), *shape, limits)[0] / limits.initial))
    )
    scale = np.array(start.scaled(1.0 / speed))
    scale[:6] = np.maximum(scale[:6], 0.02 * scale[:6].max() / np.array([1.0, local, 1.0, 8.0, 1.0, 8.0]))

    def model(x: Floats) -> TypeModel:
        values = np.where(free, scale, 0.0)
        values[free] *= x
        return TypeModel(ThroughputParameters(*(float(value) for value in values)), local)

    def residual(x: Floats) -> Floats:
        error = np.log(best_batches(model(x), *shape, limits)[0] / limits.initial) - target
        return np.concatenate((weight * error, hold * (x - 1.0)))

    # A pass must take time, even if all other parameters are 0.
    lower = np.where(np.arange(7) == 1, 1e-3, np.where(np.arange(7) == 6, 1.0 / scale, 0.0))[free]
    upper = np.where(np.arange(7) == 6, MAX_GAMMA / scale, 1e3)[free]
    start_at = np.clip(np.ones(7)[free], lower * (1 + 1e-6), upper * (1 - 1e-6))
    found = least_squares(residual, start_at, bounds=(lower, upper), max_nfev=60)
    return float(found.cost), model(found.x)


def main() -> None:
    """Fit the constants and print them."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("folder", type=Path, help="folder of Pollux' artifact and Sia's tables")
    folder = parser.parse_args().folder
    measured = read_pollux_measurements(folder / _ARTIFACT)
    for name in _MODELS:
        profile = measured[name]
        limits = BatchLimits(profile.initial_batch, profile.max_batch)
        ends, noise = _noise_levels(profile)
        print(f'    "{name}": _Fitted(')
        print(f"        limits=({limits.initial}, {limits.largest}),")
        print(f"        progress={_numbers(ends, 6)},")
        print(f"        noise={_numbers(noise, 3)},")
        print("        models={")
        start = _start_of_t4(folder / _ARTIFACT / name, profile)
        t4, error = _fit_table(_measured_table(profile), start, (ends, noise), limits, (1.0,), _HOLD)
        _print_model("t4", t4, error)
        last = t4.parameters
        for type, other in _TABLE_TYPES.items():
            table = _read_table(folder / _TABLES / f"{name}.npz", other)
            model, error = _fit_table(table, t4, (ends, noise), limits)
            if not model.parameters.alpha_node:
                between = {field: getattr(last, field) for field in ("alpha_node", "beta_node")}
                model = model._replace(parameters=model.parameters._replace(**between))
            _print_model(type, model, error)
            last = model.parameters
        print("        },\n    ),")


def _print_model(type: str, model: TypeModel, error: float) -> None:
    print(f'            "{type}": ({_numbers(model.parameters, 3)}, {model.max_local_batch}),  # {error:.1%}')


def _numbers(values: tuple[float, ...] | Floats, digits: int) -> str:
    small = 1e-9 * max(values)  # values below this are at the bound 0, up to the accuracy of the fit
    return "(" + ", ".join(f"{float(value) * (value > small):.{digits}g}" for value in values) + ")"


if __name__ == "__main__":
    main()
