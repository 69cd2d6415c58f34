r"""Synthetic throughput curves for the nine models of the AFS paper, and measured curves.

For each model, the paper gives only the number of GPUs with which training is fastest at a fixed batch size
(Table 4).  Here the time of an iteration on k GPUs, relative to one GPU, is

.. math:: T(k) = e + \frac{1 - e}{k} + c (k - 1):

a constant share e, computation that is divided, and communication that grows with the number of workers.  T
is least at :math:`k^* = \sqrt{(1 - e) / c}`, which Table 4 gives, so c follows from e.  For e, the formula
was fitted to measured curves of ElasticFlow.  Those on A100 were measured at the batch sizes of Table 4 (64
to 256), and e is about s / (s + k*) with s = 5.5 (median; the fits differ from T by 3%): models that scale
further have a smaller constant share. Those on T4 have batches of 64 to 32,768 and s = 0.4.  So a model like
the paper's, with best count k* = 28, is 4.5 times as fast there as on one GPU.  Measured curves can be used
instead of synthetic ones (:func:`measured`).

Sources: AFS, Table 4; ElasticFlow (Gu et al., ASPLOS 2023), the artifact's ``throughputs_A100`` (8 GPUs a
node) and ``throughputs_T4`` (4 GPUs a node).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import ArrayLike

from copter.arrays import Floats, Ints
from copter.errors import InputError
from copter.problems.reading import find, read_csv

_SCALE = 5.5
"""s of e = s / (s + k*): median over ElasticFlow's curves on A100."""

_BEST_COUNTS = {
    "VGG16": 8,
    "GoogLeNet": 20,
    "Inception-v4": 52,
    "ResNet-50": 28,
    "DCGAN": 20,
    "Video Prediction": 28,
    "Chatbot": 4,
    "Deep Speech 2": 20,
    "Transformer": 44,
}
"""Numbers of GPUs with which the paper's models are fastest (Table 4)."""

_MEASURED_COUNTS = (1, 2, 4, 8, 16, 32, 64)
"""Numbers of GPUs in ElasticFlow's measurements."""

_ELASTICFLOW = "pkusys_ElasticFlow/ElasticFlow/scheduler"
"""Folder of ElasticFlow's measurements in the data folder."""


@dataclass(frozen=True, eq=False)
class ModelCurve:
    """Throughput of one model at its batch size, by GPU count.

    `counts`: ascending from 1 to the count at which it is fastest. `speedup`: throughput relative to one GPU.
    """

    name: str
    counts: Ints
    speedup: Floats

    @property
    def best(self) -> int:
        """Number of GPUs with which the model is fastest."""
        return int(self.counts[-1])

    def on(self, counts: ArrayLike) -> ModelCurve:
        """Return the curve at other counts, by interpolation; the best count stays the last.

        `counts`: permitted counts; those above the best count are omitted.
        """
        wanted = np.unique(np.asarray(counts, np.int64))
        wanted = wanted[wanted <= self.best]
        return ModelCurve(self.name, wanted, np.interp(wanted, self.counts, self.speedup))


def stand_ins() -> list[ModelCurve]:
    """Return curves with the best counts of the paper's nine models, in the order of Table 4."""
    curves = []
    for name, best in _BEST_COUNTS.items():
        counts = np.arange(1, best + 1)
        share = _SCALE / (_SCALE + best)
        growth = (1.0 - share) / best**2
        seconds = share + (1.0 - share) / counts + growth * (counts - 1)
        curves.append(ModelCurve(name, counts, 1.0 / seconds))
    return curves


def measured(data: str | Path, gpu: str) -> list[ModelCurve]:
    """Return ElasticFlow's measured curves, up to the best count, one for each batch size.

    Counts that are not faster than a smaller one are omitted, and also models whose gain is below half for
    all counts. They are ordered by name and batch size.

    `data`: folder of real traces.
    """
    found = []
    for name, counts, speedup in measurements(data, gpu):
        better = speedup > np.concatenate(([0.0], np.maximum.accumulate(speedup)))[:-1]
        if speedup.max() >= 1.5:
            found.append(ModelCurve(name, counts[better], speedup[better]))
    return found


def measurements(data: str | Path, gpu: str) -> Iterable[tuple[str, Ints, Floats]]:
    """Yield all curves that ElasticFlow measured on one type of GPU."""
    folder = find(Path(data), f"{_ELASTICFLOW}/throughputs_{gpu}")
    if folder is None:
        raise InputError(Path(data) / _ELASTICFLOW, f"throughputs_{gpu}", "does not exist")
    for file in sorted(folder.glob("*.csv")):
        for row in read_csv(file, ("global_batch_size", "1")):
            texts = {count: row.text(str(count)) for count in _MEASURED_COUNTS}
            counts = np.array([count for count, text in texts.items() if text not in ("", "0", "nan")])
            speeds = np.array([row.amount(str(count)) for count in counts])
            yield f"{file.stem} {row.text('global_batch_size')}", counts, speeds / speeds[0]
