r"""Synthetic throughput curves for the nine models of the AFS paper.

For each model, the paper gives only the number of GPUs with which training is fastest at a fixed batch size
(Table 4).  Here the time of an iteration on k GPUs, relative to one GPU, is

.. math:: T(k) = e + \frac{1 - e}{k} + c (k - 1):

a constant share e, computation that is divided, and communication that grows with the number of workers.  T
is least at :math:`k^* = \sqrt{(1 - e) / c}`, which Table 4 gives, so c follows from e.  For e, the formula
was fitted to measured curves of ElasticFlow.  The curves on A100 were measured at the batch sizes of Table 4
(64 to 256), and e is about s / (s + k*) with s = 5.5 (median; the fits differ from T by 3%): models that
scale further have a smaller constant share. The curves on T4 have batches of 64 to 32,768 and s = 0.4.  With
s = 5.5, a model with the best count k* = 28 is 4.5 times as fast on 28 GPUs as on one GPU.

Sources: AFS, Table 4; ElasticFlow (Gu et al., ASPLOS 2023), the artifact's ``throughputs_A100`` (8 GPUs a
node) and ``throughputs_T4`` (4 GPUs a node).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from copter.arrays import Floats, Ints

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


@dataclass(frozen=True, eq=False)
class ModelCurve:
    """Throughput of one model at its batch size, by GPU count.

    `counts`: ascending, from 1 to the count at which the model is fastest. `speedup`: throughput relative to
    one GPU.
    """

    name: str
    counts: Ints
    speedup: Floats

    @property
    def best(self) -> int:
        """Number of GPUs with which the model is fastest."""
        return int(self.counts[-1])

    def on(self, counts: ArrayLike) -> ModelCurve:
        """Return the curve at other counts, by interpolation.

        `counts`: permitted counts; counts above the best count are omitted.
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
