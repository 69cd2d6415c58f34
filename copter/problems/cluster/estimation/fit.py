"""Fit of the throughput model to measured times of training steps.

The model and its symbols are those of :mod:`copter.problems.cluster.profiles.throughput`.  The fit minimises
the mean squared logarithmic error of T_iter, plus that of T_grad if T_grad was measured, subject to
alpha, beta >= 0 and 1 <= gamma <= 10.  The method is L-BFGS-B with the exact gradient.  With
x = T_grad / T_iter and y = T_sync / T_iter

    d log T_iter / d T_grad = x^(gamma - 1) / T_iter,  the same with y for T_sync,
    d log T_iter / d gamma  = (x^gamma log x + y^gamma log y) / gamma.

A parameter of T_sync is 0 until the measurements determine it: until then, the job is assumed to scale
perfectly (prior-driven exploration).  alpha_local is 0 until the job used several GPUs of one node, and
alpha_node is 0 until it used several nodes. beta_local and beta_node are 0 until the job used three GPUs or
more, on one node or on several nodes respectively.

Source: Pollux section 4.1 (online model fitting, prior-driven exploration).  Pollux sets alphas to 0 by the
largest numbers of GPUs and nodes that were used.  Both rules agree once a job ran both within a node and
across nodes.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from copter.arrays import Flags, Floats, Ints
from copter.problems.cluster.profiles.throughput import MAX_GAMMA, ThroughputParameters

_STARTS = (1.1, 2.0, 5.0)
"""Values of gamma from which the fit starts."""
_TINY = 1e-12
_LEAST_BETA = 1e-6
"""Value of beta_grad, relative to the median time of an example, if the fit of a pass is 0 by noise."""


class _StepMeasurements(NamedTuple):
    """Times of training steps without accumulation.

    `local_batch`: examples on each GPU. `seconds`: seconds of a step. `grad_seconds`: seconds of the part of
    a step that does not synchronise.
    """

    nodes: Ints
    gpus: Ints
    local_batch: Floats
    seconds: Floats
    grad_seconds: Floats | None = None


def fit_throughput(
    nodes: ArrayLike,
    gpus: ArrayLike,
    local_batch: ArrayLike,
    seconds: ArrayLike,
    grad_seconds: ArrayLike | None = None,
) -> ThroughputParameters:
    """Return the parameters that fit measured times best.

    `local_batch`: examples on each GPU. `seconds`: the seconds of a step without accumulation.
    `grad_seconds`: seconds of a pass that does not synchronise.
    """
    from scipy.optimize import minimize  # its import takes long, and a service needs it after reports only

    data = _checked(nodes, gpus, local_batch, seconds, grad_seconds)
    scale = _scales(data)
    free = _identified(data)
    best, least = None, np.inf
    for gamma in _STARTS if free[2:].any() else _STARTS[:1]:
        start = _start(data, gamma) / scale
        start[~free] = np.where(np.arange(7) == 6, gamma, 0.0)[~free]
        upper = np.where(free, np.inf, start)
        bounds = [(0.0, high) for high in upper[:6]] + [(1.0, MAX_GAMMA if free[6] else gamma)]
        bounds = [(low if is_free else high, high) for (low, high), is_free in zip(bounds, free, strict=True)]
        found = minimize(
            _objective, start, (data, scale), "L-BFGS-B", jac=True, bounds=bounds, options={"maxiter": 400}
        )
        if found.fun < least:
            best, least = found.x, found.fun
    assert best is not None
    if not best[:2].any():
        best[1] = _LEAST_BETA
    return ThroughputParameters(*(float(value) for value in best * scale))


def _checked(
    nodes: ArrayLike, gpus: ArrayLike, local_batch: ArrayLike, seconds: ArrayLike, grad: ArrayLike | None
) -> _StepMeasurements:
    data = _StepMeasurements(
        np.atleast_1d(np.asarray(nodes, np.int64)),
        np.atleast_1d(np.asarray(gpus, np.int64)),
        np.atleast_1d(np.asarray(local_batch, np.float64)),
        np.atleast_1d(np.asarray(seconds, np.float64)),
        None if grad is None else np.atleast_1d(np.asarray(grad, np.float64)),
    )
    columns = [column for column in data if column is not None]
    if not columns[0].size or any(column.shape != columns[0].shape for column in columns):
        raise ValueError(f"measurements: shapes {[one.shape for one in columns]}: must be equal, not empty")
    for name, column in zip(data._fields, data, strict=True):
        if column is not None and not (np.isfinite(column).all() and (column > 0).all()):
            raise ValueError(f"measurements: {name} must be positive and finite")
    return data


def _identified(data: _StepMeasurements) -> Flags:
    """Return flags of the parameters that the measurements determine."""
    within, between = (data.nodes == 1) & (data.gpus > 1), data.nodes > 1
    more = data.gpus > 2
    several = bool(within.any() or between.any())
    seen = [within.any(), (within & more).any(), between.any(), (between & more).any(), several]
    return np.array([True, True, *seen], np.bool_)


def _scales(data: _StepMeasurements) -> Floats:
    """Return typical sizes of the parameters, by which they are scaled to about 1 for L-BFGS-B."""
    time, batch, gpus = np.median(data.seconds), np.median(data.local_batch), max(np.median(data.gpus), 1.0)
    return np.array([time, time / batch, time, time / gpus, time, time / gpus, 1.0])


def _start(data: _StepMeasurements, gamma: float) -> Floats:
    """Return start values: least squares for T_grad, then for T_sync with T_grad and gamma fixed."""
    from scipy.optimize import nnls

    if data.grad_seconds is not None:
        grad, batch = data.grad_seconds, data.local_batch
    else:
        fewest = data.gpus == data.gpus.min()
        grad, batch = data.seconds[fewest], data.local_batch[fewest]
    # Relative errors approximate logarithmic ones.
    (alpha, beta), _ = nnls(np.stack((1.0 / grad, batch / grad), axis=1), np.ones(grad.size))
    if alpha + beta * data.local_batch.min() <= 0:
        alpha = float(grad.min())
    passed = alpha + beta * data.local_batch
    rest = np.maximum(data.seconds**gamma - passed**gamma, (0.01 * data.seconds) ** gamma) ** (1.0 / gamma)
    start = [alpha, beta]
    for where in ((data.nodes == 1) & (data.gpus > 1), data.nodes > 1):
        if where.any():
            features = np.stack((np.ones(int(where.sum())), data.gpus[where] - 2.0), axis=1)
            start += list(nnls(features, rest[where])[0])
        else:
            start += [0.0, 0.0]
    return np.array([*start, gamma])


def _objective(x: Floats, data: _StepMeasurements, scale: Floats) -> tuple[float, Floats]:
    """Return the mean squared logarithmic error, and its gradient."""
    alpha, beta, alpha_local, beta_local, alpha_node, beta_node, gamma = x * scale
    more = data.gpus - 2.0
    within, between = (data.nodes == 1) & (data.gpus > 1), data.nodes > 1
    grad = np.maximum(alpha + beta * data.local_batch, _TINY)
    sync = within * (alpha_local + beta_local * more) + between * (alpha_node + beta_node * more)
    larger = np.maximum(grad, sync)
    total = larger * ((grad / larger) ** gamma + (sync / larger) ** gamma) ** (1.0 / gamma)
    share_grad, share_sync = grad / total, sync / total
    error = np.log(total / data.seconds)
    by_total = 2.0 * error / error.size
    by_grad = by_total * share_grad ** (gamma - 1.0) / total
    by_sync = by_total * np.where(sync > 0, share_sync, 0.0) ** (gamma - 1.0) / total
    log_sync = np.log(np.maximum(share_sync, _TINY))
    by_gamma = by_total * (share_grad**gamma * np.log(share_grad) + share_sync**gamma * log_sync) / gamma
    value = float(error @ error) / error.size
    if data.grad_seconds is not None:
        own = np.log(grad / data.grad_seconds)
        value += float(own @ own) / own.size
        by_grad = by_grad + 2.0 * own / (own.size * grad)
    gradient = [by_grad.sum(), by_grad @ data.local_batch]
    for where in (within, between):
        gradient += [by_sync @ where, by_sync @ (where * more)]
    return value, np.array([*gradient, by_gamma.sum()]) * scale
