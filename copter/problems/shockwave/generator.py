"""Seeded generator of jobs with the distribution of the authors' traces.

The parameters are from these sources; no file of the authors is needed:

- :data:`ARRIVAL_SECONDS`, `_MODE_MIX`, :data:`GPU_MIX`, :data:`HOURS`: section 8.1 and the names of the
  authors' traces (``<jobs>_<least hours>_<most hours>_..._<static,accordion,gns>_<1,2,4,8 GPUs>``).  Their
  jobs arrive every 42 s on 32 GPUs (120 jobs), 27 s on 64 (220 jobs), 10 s on 128 (460 jobs) and 5 s on 256
  (900 jobs).
- Hours on the job's own GPUs are log-normal with median 0.8 and standard deviation 0.75 of the logarithm,
  limited to :data:`HOURS`: quartiles 0.5 and 1.3, and 2.3 at 90%, as in those traces.
- `_MODELS`: models, datasets and batch sizes of Table 2.  Seconds per epoch on one GPU, rounded, and the
  speedups on 2, 4 and 8 GPUs are from the throughputs that the authors measured on Quadro RTX 5000.
- Accordion (section 5): a small batch size in the critical regime, which lasts for the first 30% of the
  epochs as in most jobs of the traces, then the largest batch size.  Transformer never changes.
- The published traces start no job with ResNet-18 at batch size 16 or Transformer at 256, which Table 2 has.
  Transformer at 256 did not run on the authors' Quadro RTX 5000 (its throughput is 0), so its time is scaled
  from that at 128 by the throughputs measured on P100.
- Section 8.1 also gives shares of jobs by GPU-hours, :data:`SIZE_MIX`.  They contradict the section's 0.2 to
  5 hours on at most 8 GPUs, which allow at most 40 GPU-hours, and the published traces, in which at least 97%
  of the jobs are small.  With ``size_mix``, jobs have sizes in these ranges, log-uniform within each range,
  from which their hours follow.
- GNS (section 5): the batch size doubles, up to the largest, after 20 to 60 epochs at each size, or after a
  third of the job's epochs if this is less.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeVar

import numpy as np

from copter.problems.shockwave.traces import Mode, Regime, RegimeJob

ARRIVAL_SECONDS = {32: 42.0, 64: 27.0, 128: 10.0, 256: 5.0}
"""Mean seconds between two arrivals, by number of GPUs of the authors' clusters."""
_MODE_MIX = {Mode.STATIC: 0.04, Mode.ACCORDION: 0.48, Mode.GNS: 0.48}
"""Share of each mode; jobs too short for Accordion run as static in the authors' traces."""
GPU_MIX = {1: 0.6, 2: 0.3, 4: 0.09, 8: 0.01}
HOURS = (0.2, 5.0)
SIZE_MIX = {(0.2, 8.0): 0.72, (8.0, 16.0): 0.2, (16.0, 72.0): 0.05, (72.0, 144.0): 0.03}
"""Share of the jobs by range of GPU-hours; the paper gives no upper limit of the last range."""
_MEDIAN_HOURS, _LOG_DEVIATION = 0.8, 0.75
_CRITICAL_SHARE = 0.3
_Key = TypeVar("_Key")


@dataclass(frozen=True)
class _Model:
    """A kind of training job.

    `samples`: samples per epoch. `epoch_seconds`: seconds of an epoch on one GPU, by batch size. `speedup`:
    factor on the speed when the GPUs are doubled; 1 for a job that is never distributed. `accordion`: whether
    Accordion changes the batch size.
    """

    samples: int
    epoch_seconds: dict[int, float]
    speedup: float
    accordion: bool = True


_MODELS = {
    "ResNet-18": _Model(50_000, {16: 54.2, 32: 36.4, 64: 36.4, 128: 33.2, 256: 30.9}, 1.8),
    "ResNet-50": _Model(100_000, {16: 590.0, 32: 530.0, 64: 503.0, 128: 489.0}, 2.0),
    "LM": _Model(59_675, {5: 89.0, 10: 63.0, 20: 44.0, 40: 32.0, 80: 34.0}, 1.7),
    "Transformer": _Model(10_000, {16: 72.0, 32: 69.0, 64: 75.0, 128: 68.0, 256: 61.4}, 1.9, False),
    "Recommendation": _Model(117_907, {512: 1.36, 1024: 1.07, 2048: 0.97, 4096: 1.15, 8192: 1.24}, 1.0),
}


def generate(
    jobs: int,
    *,
    seed: int = 0,
    arrival_seconds: float = ARRIVAL_SECONDS[32],
    mode_mix: Mapping[Mode, float] | None = None,
    gpu_mix: Mapping[int, float] | None = None,
    size_mix: Mapping[tuple[float, float], float] | None = None,
) -> list[RegimeJob]:
    """Return jobs with Poisson arrivals, the first at time 0.

    `seed`: equal seeds give equal jobs. `arrival_seconds`: mean seconds between two arrivals; with 0, all
    jobs arrive at time 0. `mode_mix`, `gpu_mix`: weights of the modes and of the GPU counts. `size_mix`:
    weights of ranges of GPU-hours, such as :data:`SIZE_MIX`; default: hours as in the traces, independent of
    the GPUs.
    """
    if jobs < 0:
        raise ValueError(f"jobs = {jobs}: must not be negative")
    if not 0 <= arrival_seconds < math.inf:
        raise ValueError(f"arrival_seconds = {arrival_seconds}: must be finite and not negative")
    modes = _MODE_MIX if mode_mix is None else mode_mix
    sizes = GPU_MIX if gpu_mix is None else gpu_mix
    rng = np.random.default_rng(seed)
    result, arrival = [], 0.0
    for k in range(jobs):
        gpus = int(_draw(rng, sizes))
        names = [name for name, model in _MODELS.items() if gpus == 1 or model.speedup > 1.0]
        name = names[int(rng.integers(len(names)))]
        if size_mix is None:
            hours = float(np.clip(_MEDIAN_HOURS * math.exp(_LOG_DEVIATION * rng.standard_normal()), *HOURS))
        else:
            least, most = _draw(rng, size_mix)
            hours = math.exp(rng.uniform(math.log(least), math.log(most))) / gpus
        mode = Mode(_draw(rng, modes))
        regimes = _regimes(rng, _MODELS[name], mode, gpus, hours * 3600.0)
        result.append(RegimeJob(f"job-{k}", arrival, gpus, mode, regimes, name, _MODELS[name].samples))
        arrival += float(rng.exponential(arrival_seconds)) if arrival_seconds else 0.0
    return result


def _draw(rng: np.random.Generator, mix: Mapping[_Key, float]) -> _Key:
    weights = np.array(list(mix.values()), float)
    if not weights.size or (weights < 0).any() or not weights.sum() > 0:
        raise ValueError(f"mix = {mix}: weights must not be negative, and not all zero")
    return list(mix)[int(rng.choice(weights.size, p=weights / weights.sum()))]


def _regimes(
    rng: np.random.Generator, model: _Model, mode: Mode, gpus: int, seconds: float
) -> tuple[Regime, ...]:
    sizes = sorted(model.epoch_seconds)
    speed = model.speedup ** math.log2(gpus)
    at = {size: value / speed for size, value in model.epoch_seconds.items()}
    first = int(rng.integers(len(sizes)))
    small = sizes[first]
    # The hours are those at the first batch size, as in the authors' generator; adaptation shortens the job.
    epochs = max(1, round(seconds / at[small]))
    if mode is Mode.ACCORDION and model.accordion:
        critical = max(1, round(_CRITICAL_SHARE * epochs))
        lengths = [(small, critical), (sizes[-1], epochs - critical)]
    elif mode is Mode.GNS:
        step = max(1, min(int(rng.integers(20, 61)), epochs // 3))
        lengths = [(size, step) for size in sizes[first:-1]]
        lengths.append((sizes[-1], epochs))
    else:
        lengths = [(small, epochs)]
    regimes: list[Regime] = []
    left = epochs
    for size, length in lengths:
        length = min(length, left)
        if length > 0 and regimes and regimes[-1].batch_size == size:
            regimes[-1] = Regime(size, regimes[-1].epochs + length, at[size])
        elif length > 0:
            regimes.append(Regime(size, length, at[size]))
        left -= length
    return tuple(regimes)
