"""Goodput profiles of the papers' training jobs on four types of GPU, without any data file.

Noise, batch sizes and throughput models are fits to published measurements.  The noise of a level is the
median over the measured batch sizes.  The parameters of t4 minimise the squared logarithmic error of goodput
against Pollux' measurements, and those of the other types against the tables of Sia's authors.  The comments
of the table have the median error of a whole job's run time over the configurations.  Goodput does not
determine some parameters, such as the division of a pass at the largest local batch into alpha and beta.  The
types are those of Sia's evaluation: t4 (4 per node), rtx (8), quad (4) and a100 (8).  The papers give only
the range of a checkpoint-restore, 25 to 250 s; the seconds of each job are those of the authors' simulator.

Sources: thesis sections 3.4.2 and 3.3.5, table 3.2; Pollux table 1 (ncf).
"""

from __future__ import annotations

from typing import NamedTuple

from copter.problems.cluster.profiles.goodput import BatchLimits, GoodputProfile, TypeModel
from copter.problems.cluster.profiles.throughput import ScalingRule, ThroughputParameters

_RESTART_SECONDS = {
    "bert": 120.0,
    "cifar10": 50.0,
    "deepspeech2": 25.0,
    "imagenet": 250.0,
    "ncf": 15.0,
    "yolov3": 80.0,
}
_CALIBRATION = {
    "bert": 1.2,
    "cifar10": 1.8,
    "deepspeech2": 1.2,
    "imagenet": 1.2,
    "ncf": 1.5,
    "yolov3": 1.2,
}
"""Slowdown of jobs on the thesis' testbed relative to its simulator (published by its authors)."""
_RULES: dict[str, ScalingRule] = {"bert": "square-root"}
"""Learning rate rule of jobs whose optimiser is AdamW; the others train by stochastic gradient descent."""


class _Fitted(NamedTuple):
    limits: tuple[int, int]
    progress: tuple[float, ...]
    noise: tuple[float, ...]
    models: dict[str, tuple[tuple[float, ...], int]]


_FITTED = {
    "bert": _Fitted(
        limits=(12, 384),
        progress=(7387, 14774),
        noise=(1.82e03, 7.17e03),
        models={
            "t4": ((0.173, 0.0586, 0.245, 0.0436, 1.38, 0.0085, 2), 12),  # 2.4%
            "rtx": ((0.143, 0.0275, 0.593, 0.0942, 0.473, 0.0393, 1), 17),  # 0.7%
            "quad": ((0.122, 0.0244, 0.707, 0.206, 0.473, 0.0393, 2.97), 34),  # 0.1%
            "a100": ((0.0407, 0.00582, 0.0101, 0.0173, 0.154, 0, 1), 24),  # 1.2%
        },
    ),
    "cifar10": _Fitted(
        limits=(128, 4096),
        progress=(391, 1172, 1563, 2735, 5079, 10547, 19922, 39063),
        noise=(99.4, 404, 650, 1.17e03, 2.06e03, 3.91e03, 8.25e03, 3.93e04),
        models={
            "t4": ((0.016, 0.000703, 0.0302, 0.00503, 0.122, 0.00265, 2.76), 1024),  # 3.8%
            "rtx": ((0.0558, 0.000242, 0.168, 0, 0.144, 0, 5.75), 1434),  # 3.4%
            "quad": ((0.0502, 0.000224, 0.000303, 0.0673, 0.144, 0, 6.64), 1024),  # 2.1%
            "a100": ((0.0272, 8.74e-05, 0.066, 0, 0.0484, 0, 9.98), 2048),  # 0.4%
        },
    ),
    "deepspeech2": _Fitted(
        limits=(20, 640),
        progress=(357, 714, 1071, 1427, 2141, 3567, 6064, 28536),
        noise=(11.8, 29.5, 82.1, 151, 283, 622, 1.51e03, 4.35e04),
        models={
            "t4": ((0.287, 0.0252, 0.00957, 0.108, 0.476, 0.00809, 1.3), 80),  # 4.7%
            "rtx": ((0.378, 0.0147, 0.628, 0.0931, 0.671, 0.012, 3.32), 80),  # 1.5%
            "quad": ((0.256, 0.0159, 0.205, 0.102, 0.671, 0.012, 1.8), 160),  # 0.3%
            "a100": ((0.611, 0.0123, 7.57e-05, 0.197, 0.99, 0, 10), 224),  # 2.7%
        },
    ),
    "imagenet": _Fitted(
        limits=(200, 12800),
        progress=(6406, 12812, 19218, 38436, 83276, 192176, 384351, 576526),
        noise=(928, 2.69e03, 4.32e03, 5.59e03, 7.38e03, 8.91e03, 3.36e04, 9.11e04),
        models={
            "t4": ((0.0619, 0.00454, 0.0674, 0.0119, 0.288, 0.00494, 3.01), 200),  # 2.5%
            "rtx": ((0.0986, 0.00198, 0.086, 0.0239, 0.178, 0.00581, 2.01), 200),  # 0.1%
            "quad": ((0.0563, 0.00203, 0.334, 0.0167, 0.178, 0.00581, 6.97), 560),  # 0.9%
            "a100": ((0.108, 0.000817, 0, 0.00204, 0.0201, 0, 1), 560),  # 0.1%
        },
    ),
    "ncf": _Fitted(
        limits=(256, 32768),
        progress=(19418, 38835, 58253, 77670, 97087, 116505, 135922, 194174),
        noise=(1.4e05, 1.25e06, 9.09e05, 1.57e06, 6.31e06, 8.02e06, 6.62e06, 3.54e07),
        models={
            "t4": ((0.00803, 6.97e-07, 0.00344, 0.00111, 0.0188, 0.000477, 1), 32768),  # 10.2%
            "rtx": ((0.0138, 1.53e-07, 0.00308, 0.00188, 0.00964, 0.000532, 1), 16384),  # 0.1%
            "quad": ((0.00696, 6.13e-07, 0.000281, 0.00566, 0.00964, 0.000532, 1), 32768),  # 0.1%
            "a100": ((0.00863, 1.12e-07, 0.00373, 0.000571, 0.00709, 0, 2.08), 16384),  # 0.1%
        },
    ),
    "yolov3": _Fitted(
        limits=(8, 512),
        progress=(2069, 6207, 10345, 33102, 49653, 66204, 82755, 103444),
        noise=(0.399, 171, 245, 359, 474, 601, 1.04e03, 3.22e03),
        models={
            "t4": ((0.186, 0.0211, 0.0465, 0.0773, 0.883, 0.00712, 1.06), 8),  # 5.6%
            "rtx": ((0.0727, 0.0538, 0.521, 0.0229, 0.67, 0.0111, 1.81), 11),  # 0.2%
            "quad": ((0.133, 0.0166, 0.186, 0.118, 0.67, 0.0111, 1.6), 22),  # 0.1%
            "a100": ((0.375, 0.0145, 0.038, 0.0296, 0.279, 0, 1.06), 22),  # 0.3%
        },
    ),
}


def builtin_goodput_profiles(*, calibrated: bool = False) -> dict[str, GoodputProfile]:
    """Return the profiles of the training jobs, by model.

    Parameters
    ----------
    calibrated : bool
        Divide speeds by the factors with which the thesis' authors matched their simulator to their testbed.

    Returns
    -------
    dict of str to GoodputProfile
        New profiles for the types t4, rtx, quad and a100; progress is in steps at the initial batch size.
    """
    factors = _CALIBRATION if calibrated else dict.fromkeys(_FITTED, 1.0)
    return {name: _profile(name, fitted, factors[name]) for name, fitted in _FITTED.items()}


def _profile(name: str, fitted: _Fitted, calibration: float) -> GoodputProfile:
    models = {
        type: TypeModel(ThroughputParameters(*parameters), local)
        for type, (parameters, local) in fitted.models.items()
    }
    return GoodputProfile(
        name,
        _RESTART_SECONDS[name],
        fitted.progress,
        fitted.noise,
        models,
        BatchLimits(*fitted.limits),
        rule=_RULES.get(name, "adascale"),
        calibration=calibration,
    )
