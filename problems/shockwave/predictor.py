"""Prediction of a job's regimes and of its remaining run time (Shockwave, section 5).

The batch sizes that a job goes through are known, because the rules that scale them are deterministic; how
long each lasts is not.  A :class:`Pattern` is the sequence of at most K regimes that its user specifies:

- GNS only doubles, up to a limit: ``c, 2c, 4c, ...``;
- Accordion alternates between a small and a large batch size;
- a static job has one regime.

A rule gives the expected epochs of the K regimes, with N epochs in all, from the epochs seen so far:

- **restatement**: prior Dir(N/K, ..., N/K).  Once the first k regimes are over with m_1, ..., m_k epochs,
  the posterior is Dir(m_1, ..., m_k, S, ..., S) with S = (N - sum m) / (K - k): what is over is known, the
  ongoing and the future regimes split the rest evenly.  Epochs of regimes come in order, so an epoch seen
  says nothing about the share of the regimes that have not begun.
- **bayesian**: the standard update of the same prior, one count for each epoch seen, as if epochs were drawn
  independently: mean N (N/K + m_k) / (N + sum m).
- **greedy**: the regime of now lasts for ever; what reactive schedulers assume.

An expectation is never below what has been seen, and the whole is always N: what a rule puts elsewhere is
scaled to the rest.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from copter.arrays import Floats
from copter.problems.shockwave.traces import Mode, RegimeJob


@dataclass(frozen=True)
class Pattern:
    """Regimes that a job may go through.

    `epochs`: epochs of the job, N. `batch_sizes`: the batch sizes of the K regimes, in order.
    `epoch_seconds`: the epoch seconds of the K regimes, from a profile.
    """

    epochs: float
    batch_sizes: tuple[int, ...]
    epoch_seconds: tuple[float, ...]

    def __post_init__(self) -> None:
        if not self.epochs > 0:
            raise ValueError(f"epochs = {self.epochs}: must be positive")
        if not self.batch_sizes or len(self.batch_sizes) != len(self.epoch_seconds):
            raise ValueError(
                f"a pattern needs as many batch sizes as seconds, at least one: {len(self.batch_sizes)} and "
                f"{len(self.epoch_seconds)}"
            )

    def __len__(self) -> int:
        return len(self.batch_sizes)


def _accordion(
    epochs: float, small: int, large: int, regimes: int, epoch_seconds: Callable[[int], float]
) -> Pattern:
    """Return the pattern of Accordion: regimes that alternate, the small batch size first.

    `epochs`: the epochs of the job, N. `small`, `large`: the batch sizes. `regimes`: K; at least one is made.
    `epoch_seconds`: seconds of an epoch at a batch size.
    """
    sizes = tuple((small, large)[k % 2] for k in range(max(regimes, 1)))
    return Pattern(epochs, sizes, tuple(epoch_seconds(size) for size in sizes))


def pattern_of(job: RegimeJob) -> Pattern:
    """Return the pattern that the user of a trace's job specifies.

    As in the authors' code the user knows the batch sizes of the job and how often they change, and the
    profile has the seconds of an epoch at each.  The authors' GNS traces end with one epoch at the first
    batch size, which GNS never does: such a regime is no part of the pattern.
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
    """Epochs seen in each regime that has begun, the ongoing one last, after ``epochs`` epochs of a job."""
    bounds = job.epochs_by_regime
    begun = int(np.searchsorted(bounds[1:-1], epochs, side="right")) + 1
    return np.minimum(epochs, bounds[1 : begun + 1]) - bounds[:begun]


def _within(pattern: Pattern, seen: Sequence[float] | Floats) -> Floats:
    """Return the epochs seen by regime of the pattern; regimes past its end count as its last."""
    counts = np.zeros(len(pattern))
    given = np.asarray(seen, float)
    known = min(given.size, len(pattern))
    counts[:known] = given[:known]
    counts[-1] += given[known:].sum()
    return counts


def _restatement(pattern: Pattern, seen: Sequence[float] | Floats) -> Floats:
    """Expected epochs of the K regimes by the restatement rule; the last entry of ``seen`` is ongoing."""
    counts = _within(pattern, seen)
    over = min(max(len(seen) - 1, 0), len(pattern) - 1)
    expected = counts.copy()
    rest = max(pattern.epochs - counts[:over].sum(), 0.0)
    expected[over:] = rest / (len(pattern) - over)
    return _at_least_seen(pattern, expected, counts, over)


def _bayesian(pattern: Pattern, seen: Sequence[float] | Floats) -> Floats:
    """Return the expected epochs of the K regimes by the standard update of the Dirichlet prior."""
    counts = _within(pattern, seen)
    over = min(max(len(seen) - 1, 0), len(pattern) - 1)
    posterior = pattern.epochs / len(pattern) + counts
    return _at_least_seen(pattern, pattern.epochs * posterior / posterior.sum(), counts, over)


def _greedy(pattern: Pattern, seen: Sequence[float] | Floats) -> Floats:
    """Return the expected epochs of the K regimes if the ongoing one never ends."""
    expected = _within(pattern, seen)
    now = min(max(len(seen) - 1, 0), len(pattern) - 1)
    expected[now] += max(pattern.epochs - expected.sum(), 0.0)
    return expected


_Rule = Callable[[Pattern, Sequence[float] | Floats], Floats]
RULES: dict[str, _Rule] = {"restatement": _restatement, "bayesian": _bayesian, "greedy": _greedy}


def _at_least_seen(pattern: Pattern, expected: Floats, counts: Floats, over: int) -> Floats:
    """Regimes that are over have what was seen, the ongoing one at least that; the others share the rest."""
    result = counts.copy()
    rest = max(pattern.epochs - counts.sum(), 0.0)
    more = np.maximum(expected[over:] - counts[over:], 0.0)
    if more.sum() <= 0.0:
        more = np.ones(len(pattern) - over)
    result[over:] += rest * more / more.sum()
    return result


def _run_seconds(pattern: Pattern, epochs: Floats) -> float:
    """Return the seconds of so many epochs of each regime."""
    return float(np.dot(epochs, pattern.epoch_seconds))


@dataclass(frozen=True)
class Errors:
    """Mean errors of a rule at points of training, over jobs.

    `progress`: shares of the epochs that are over. `regime`: mean over jobs of sum_k |expected - true epochs
    of regime k| / (2 N): the share of epochs that is put into a wrong regime. `run_time`: mean over jobs of
    |expected - true run time| / true run time.
    """

    progress: Floats
    regime: Floats
    run_time: Floats


def prediction_errors(jobs: Iterable[RegimeJob], points: int = 21) -> dict[str, Errors]:
    """Return the errors of the three rules while jobs train, as in Figure 5.

    `jobs`: those that never change are left out. `points`: shares of training at which errors are measured,
    evenly from the start. Result: by the name of the rule.
    """
    if points < 2:
        raise ValueError(f"points = {points}: at least the start and one more")
    progress = np.linspace(0.0, 1.0, points, endpoint=False)
    dynamic = [job for job in jobs if len(pattern_of(job)) > 1]
    if not dynamic:
        raise ValueError("no job of these changes its batch size: there is nothing to predict")
    errors = {name: np.zeros((2, points)) for name in RULES}
    for job in dynamic:
        pattern = pattern_of(job)
        truth = _within(pattern, observe(job, job.epochs))
        for p, share in enumerate(progress):
            seen = observe(job, share * job.epochs)
            for name, rule in RULES.items():
                expected = rule(pattern, seen)
                errors[name][0, p] += float(np.abs(expected - truth).sum()) / (2 * job.epochs)
                errors[name][1, p] += abs(_run_seconds(pattern, expected) - job.seconds) / job.seconds
    return {name: Errors(progress, *(sums / len(dynamic))) for name, sums in errors.items()}
