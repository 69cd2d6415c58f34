"""Prediction of a job's regimes and of its remaining run time (Shockwave, section 5).

The batch sizes of a job are known in advance, because the rules that scale them are deterministic.  The
length of each regime is unknown.  A :class:`Pattern` is the sequence of at most K regimes that the user
specifies:

- GNS only doubles the batch size, up to a limit: ``c, 2c, 4c, ...``;
- Accordion alternates between a small and a large batch size;
- a static job has one regime.

A rule (in :mod:`.forecast`) gives the expected epochs of the K regimes, N epochs in total, from the epochs
seen so far:

- **restatement**: prior Dir(N/K, ..., N/K).  When the first k regimes are over with m_1, ..., m_k epochs, the
  posterior is Dir(m_1, ..., m_k, S, ..., S) with S = (N - sum m) / (K - k).  So past regimes are known, and
  the ongoing and future regimes share the remaining epochs equally.  Regimes come in order, so an epoch seen
  contains no information about the shares of future regimes.
- **bayesian**: the standard update of the same prior, with one count for each epoch seen, as if epochs were
  drawn independently: mean N (N/K + m_k) / (N + sum m).
- **greedy**: the present regime lasts for ever, as reactive schedulers assume.

Expected epochs are never less than those seen, and their sum is always N: a rule's expectation beyond the
epochs seen is scaled to the remaining epochs.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from copter.arrays import Floats
from copter.problems.shockwave.traces import Mode, RegimeJob


@dataclass(frozen=True)
class Pattern:
    """Regimes that a job may go through.

    `epochs`: total epochs of the job, N. `batch_sizes`: batch sizes of the K regimes, in order.
    `epoch_seconds`: seconds per epoch of the K regimes, from a profile.
    """

    epochs: float
    batch_sizes: tuple[int, ...]
    epoch_seconds: tuple[float, ...]

    def __post_init__(self) -> None:
        if not self.epochs > 0:
            raise ValueError(f"epochs = {self.epochs}: must be positive")
        if not self.batch_sizes or len(self.batch_sizes) != len(self.epoch_seconds):
            raise ValueError(
                f"batch_sizes, epoch_seconds: {len(self.batch_sizes)} and {len(self.epoch_seconds)} entries: "
                f"must be equally many, at least one"
            )

    def __len__(self) -> int:
        return len(self.batch_sizes)


def _accordion(
    epochs: float, small: int, large: int, regimes: int, epoch_seconds: Callable[[int], float]
) -> Pattern:
    """Return the pattern of Accordion, whose batch sizes alternate, beginning with the small one.

    `epochs`: total epochs of the job, N. `small`, `large`: batch sizes. `regimes`: K; 0 counts as 1.
    `epoch_seconds`: seconds per epoch by batch size.
    """
    sizes = tuple((small, large)[k % 2] for k in range(max(regimes, 1)))
    return Pattern(epochs, sizes, tuple(epoch_seconds(size) for size in sizes))


def pattern_of(job: RegimeJob) -> Pattern:
    """Return the pattern that the user specifies for a job of a trace.

    As in the authors' code, the user knows the batch sizes of the job and the number of changes, and the
    profile has the seconds per epoch at each batch size.  The authors' GNS traces end with one epoch at the
    first batch size, which GNS never causes; this regime is not part of the pattern.
    """
    seconds = {regime.batch_size: regime.epoch_seconds for regime in job.regimes}
    sizes = [regime.batch_size for regime in job.regimes]
    if job.mode is Mode.GNS:
        limit = max(sizes)
        known = [size for size in sizes[: sizes.index(limit) + 1]]
        return Pattern(job.epochs, tuple(known), tuple(seconds[size] for size in known))
    if job.mode is Mode.ACCORDION and len(sizes) > 1:
        return _accordion(job.epochs, sizes[0], sizes[1], len(sizes), seconds.__getitem__)
    return Pattern(job.epochs, (sizes[0],), (seconds[sizes[0]],))


def observe(job: RegimeJob, epochs: float) -> Floats:
    """Return the epochs in each regime that has begun, the ongoing one last, after `epochs` epochs in all."""
    bounds = job.epochs_by_regime
    begun = int(np.searchsorted(bounds[1:-1], epochs, side="right")) + 1
    return np.minimum(epochs, bounds[1 : begun + 1]) - bounds[:begun]
