"""Goodput profiles of the papers' training jobs on four types of GPU, without any data file.

Noise, batch sizes, throughput models and their errors come from published measurements; the table below is
what

    python -m copter.problems.cluster.calibration shared/data/cluster

prints (:mod:`.calibration` says how they are fitted and what the errors are).  The types are those of Sia's
evaluation: t4 (4 a node), rtx (8), quad (4) and a100 (8).  No paper prints how long a checkpoint-restore of
each job takes but for the range from 25 to 250 s; the seconds are those of the authors' simulator.

Sources: thesis sections 3.4.2 and 3.3.5, table 3.2; Pollux table 1 (ncf).
"""

from __future__ import annotations

from typing import NamedTuple

from copter.problems.cluster.efficiency import ScalingRule
from copter.problems.cluster.goodput import BatchLimits, GoodputProfile, TypeModel
from copter.problems.cluster.throughput import ThroughputParameters


class _Fitted(NamedTuple):
    limits: tuple[int, int]
    progress: tuple[float, ...]
    noise: tuple[float, ...]
    models: dict[str, tuple[tuple[float, ...], int]]


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
"""How much slower jobs ran on the thesis' testbed than in its simulator (its authors' published factors)."""
_RULES: dict[str, ScalingRule] = {"bert": "square-root"}
"""Of jobs whose optimiser is AdamW; the others train by stochastic gradient descent."""

_FITTED = {
    "bert": _Fitted(
        limits=(12, 384),
        progress=(7387, 14774),
        noise=(1.82e03, 7.17e03),
        models={
            "t4": ((0.0389, 0.0719, 0.000141, 4.06e-05, 1.46, 0.00848, 2.62), 12),  # 2.1%
            "rtx": ((0.0755, 0.0315, 1.21, 0.0905, 0.808, 0.0506, 10), 17),  # 0.7%
            "quad": ((0.162, 0.0232, 0.576, 0.212, 0.808, 0.0506, 2.32), 34),  # 0.1%
            "a100": ((0.074, 0.00444, 0.0101, 0.0173, 0.154, 0, 1), 24),  # 1.2%
        },
    ),
    "cifar10": _Fitted(
        limits=(128, 4096),
        progress=(391, 1172, 1563, 2735, 5079, 10547, 19922, 39063),
        noise=(99.4, 404, 650, 1.17e03, 2.06e03, 3.91e03, 8.25e03, 3.93e04),
        models={
            "t4": ((0.0226, 0.000715, 0.0157, 0.0261, 0.162, 0.00191, 10), 1024),  # 3.4%
            "rtx": ((0.0558, 0.000242, 0.168, 0, 0.144, 0, 5.75), 1434),  # 3.4%
            "quad": ((0.0502, 0.000224, 0.0122, 0.0613, 0.144, 0, 6.65), 1024),  # 2.1%
            "a100": ((0.0272, 8.75e-05, 0.0659, 0, 0.0484, 0, 10), 2048),  # 0.5%
        },
    ),
    "deepspeech2": _Fitted(
        limits=(20, 640),
        progress=(357, 714, 1071, 1427, 2141, 3567, 6064, 28536),
        noise=(11.8, 29.5, 82.1, 151, 283, 622, 1.51e03, 4.35e04),
        models={
            "t4": ((0.266, 0.0253, 0.0432, 0.0262, 0.273, 0.00816, 1), 80),  # 5.3%
            "rtx": ((0.378, 0.0147, 0.628, 0.0931, 0.671, 0.012, 3.32), 80),  # 1.5%
            "quad": ((0.256, 0.0159, 0.205, 0.102, 0.671, 0.012, 1.8), 160),  # 0.3%
            "a100": ((0.611, 0.0123, 1.67e-06, 0.197, 0.99, 0, 10), 224),  # 2.7%
        },
    ),
    "imagenet": _Fitted(
        limits=(200, 12800),
        progress=(6406, 12812, 19218, 38436, 83276, 192176, 384351, 576526),
        noise=(928, 2.69e03, 4.32e03, 5.59e03, 7.38e03, 8.91e03, 3.36e04, 9.11e04),
        models={
            "t4": ((0, 0.00484, 7.42e-05, 0.274, 0.529, 0.000853, 3.62), 200),  # 0.8%
            "rtx": ((0.0986, 0.00198, 0.086, 0.0239, 0.178, 0.00581, 2.01), 200),  # 0.1%
            "quad": ((0.0627, 0.00202, 0.00373, 0.171, 0.178, 0.00581, 6.75), 560),  # 0.9%
            "a100": ((0.108, 0.000817, 0, 0.00204, 0.0201, 0, 1), 560),  # 0.1%
        },
    ),
    "ncf": _Fitted(
        limits=(256, 32768),
        progress=(19418, 38835, 58253, 77670, 97087, 116505, 135922, 194174),
        noise=(1.4e05, 1.25e06, 9.09e05, 1.57e06, 6.31e06, 8.02e06, 6.62e06, 3.54e07),
        models={
            "t4": ((0.000219, 9.17e-07, 0.0103, 0, 0.027, 0.000455, 1), 32768),  # 8.0%
            "rtx": ((0.0143, 1.2e-07, 0.0042, 0.00202, 0.0113, 0.000559, 1.13), 16384),  # 0.1%
            "quad": ((0.00675, 6.19e-07, 0.000389, 0.00569, 0.0113, 0.000559, 1), 32768),  # 0.1%
            "a100": ((0.00108, 5.93e-07, 0.0101, 0.000235, 0.0112, 0, 10), 32768),  # 1.0%
        },
    ),
    "yolov3": _Fitted(
        limits=(8, 512),
        progress=(2069, 6207, 10345, 33102, 49653, 66204, 82755, 103444),
        noise=(0.399, 171, 245, 359, 474, 601, 1.04e03, 3.22e03),
        models={
            "t4": ((0.346, 2.46e-05, 0.00187, 0.11, 1.06, 0.00249, 1.06), 8),  # 4.8%
            "rtx": ((0.0727, 0.0538, 0.521, 0.0229, 0.67, 0.0111, 1.81), 11),  # 0.2%
            "quad": ((0.133, 0.0166, 0.186, 0.118, 0.67, 0.0111, 1.6), 22),  # 0.1%
            "a100": ((0.375, 0.0145, 0.038, 0.0295, 0.279, 0, 1.06), 22),  # 0.3%
        },
    ),
}


def builtin_goodput_profiles(*, calibrated: bool = False) -> dict[str, GoodputProfile]:
    """Profiles of the training jobs, by model.

    Parameters
    ----------
    calibrated : bool
        Slow jobs down by the factors that the thesis' authors matched their simulator to their testbed with.

    Returns
    -------
    dict of str to GoodputProfile
        Fresh ones, for types t4, rtx, quad and a100; progress is in steps at the initial batch size.
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
