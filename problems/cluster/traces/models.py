"""Which model stands for which size of job, and the profiles of the models.

A trace of a production cluster tells GPUs and run times, not what was trained.  The papers sort its jobs by
total GPU time and let models of like size stand for them:

==== ============= ================================== =============================
size GPU-hours     thesis, Table 3.2                  Pollux, Table 1
==== ============= ================================== =============================
S    0 to 1        ResNet-18 (cifar10)                ResNet-18, NeuMF (ncf)
M    1 to 10       BERT (bert), DeepSpeech2           DeepSpeech2, BERT in its artifact
L    10 to 100     YOLOv3 (yolov3)                    YOLOv3
XL   100 to 1000   ResNet-50 (imagenet)               ResNet-50
==== ============= ================================== =============================

Models of one size are equally likely.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

SIA_MODELS: Mapping[str, tuple[str, ...]] = {
    "S": ("cifar10",),
    "M": ("bert", "deepspeech2"),
    "L": ("yolov3",),
    "XL": ("imagenet",),
}
POLLUX_MODELS: Mapping[str, tuple[str, ...]] = {**SIA_MODELS, "S": ("cifar10", "ncf")}

REQUESTED: Mapping[str, Mapping[int, float]] = {
    "S": {1: 0.986, 2: 0.003, 4: 0.008, 8: 0.004},
    "M": {1: 0.955, 2: 0.002, 4: 0.020, 8: 0.020, 16: 0.002},
    "L": {1: 0.539, 2: 0.046, 4: 0.235, 8: 0.161, 16: 0.019},
    "XL": {8: 0.610, 16: 0.390},
}
"""GPUs that users of Microsoft's trace asked for, by size; more than 16 count as 16.

Sizes L and XL are of jobs that ran for at most a day, as the authors' script has them: an imagenet on the
single GPU of a job of months would train for weeks.
"""

_BOUNDS = {"S": 1.0, "M": 10.0, "L": 100.0, "XL": float("inf")}


def size_of(gpu_hours: float) -> str:
    """Size of a job by its total GPU time.

    Returns
    -------
    {"S", "M", "L", "XL"}
    """
    return next(size for size, bound in _BOUNDS.items() if gpu_hours < bound)


def size_of_model(model: str) -> str:
    """Size of the jobs that a model stands for.

    Returns
    -------
    {"S", "M", "L", "XL"}
    """
    return next(size for size, models in POLLUX_MODELS.items() if model in models)


def draw_model(size: str, models: Mapping[str, tuple[str, ...]], rng: np.random.Generator) -> str:
    """A model of a size.

    Parameters
    ----------
    size : {"S", "M", "L", "XL"}
    models : mapping of str to tuple of str
        Models by size.
    """
    return models[size][int(rng.integers(len(models[size])))]
