"""Throughput models of a job from the times of its steps, simulated or live.

The model of a GPU type follows the first of these rules that applies:

1. the job ran on several GPUs of the type: the model that fits all its reports (:mod:`.fit`);
2. the job ran on one GPU of the type B, and on several GPUs of another type A: B's own model of a pass,
   fitted to the reports on one GPU, and A's synchronisation times the ratio
   rho = T_grad,B(m0) / T_grad,A(m0) of their passes.  At the batch size m0 the result is

       est-xput_B(N) = xput_B(1) / xput_A(1) xput_A(N)                                          (3.1)

3. otherwise: the type's own model of a pass, and perfect scaling, without time for synchronisation.

Without profiling, a type on which the job never ran has no model of a pass.  Its model is that of the type on
which the job ran, preferably on several GPUs.  Before the job ran at all, a pass takes the same nominal time
on all types.

Models of an earlier job of the same user and application take precedence over rules 2 and 3.  A type on which
the job never ran has the earlier model, scaled by the ratio of T_grad(m0) to the earlier T_grad(m0).  This
ratio is a geometric mean over the types on which the job ran, so only the ratios between types are adopted.
A type on which the job ran on one GPU has its own model of a pass, and the earlier synchronisation scaled as
in (3.1).

Source: Sia, thesis section 3.3.2, and 6.2 for the earlier jobs; the fit is that of Pollux, section 4.1.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from types import MappingProxyType

import numpy as np

from copter.problems.cluster.cluster import Configuration
from copter.problems.cluster.estimation.fit import fit_throughput
from copter.problems.cluster.profiles.goodput import GoodputProfile, TypeModel
from copter.problems.cluster.profiles.throughput import ThroughputParameters
from copter.solvers.blas import one_blas_thread

NOMINAL = ThroughputParameters(0.0, 1.0, 0.0, 0.0, 0.0, 0.0, 1.0)
"""Model before any report: one second for each example, perfect scaling."""


class StepReports:
    """Mean logarithm of the reported step times of a job on one type, by nodes, GPUs and local batch."""

    def __init__(self) -> None:
        self.keys: dict[tuple[int, int, int], int] = {}
        self.mean: list[float] = []
        self.count: list[int] = []
        self.total = 0
        self._shapes: set[tuple[int, int]] = set()

    def add(self, nodes: int, gpus: int, local_batch: int, log_seconds: float, reports: int) -> bool:
        """Add the mean of some reports; return whether the model should be fitted again.

        It should if the job ran on this number of nodes and GPUs for the first time, or if the number of
        reports on the type reached a power of two.
        """
        at = self.keys.setdefault((nodes, gpus, local_batch), len(self.mean))
        if at == len(self.mean):
            self.mean.append(0.0)
            self.count.append(0)
        self.count[at] += reports
        self.mean[at] += (log_seconds - self.mean[at]) * reports / self.count[at]
        doubled = (self.total + reports).bit_length() > self.total.bit_length()
        new = (nodes, gpus) not in self._shapes
        self._shapes.add((nodes, gpus))
        self.total += reports
        return new or doubled

    def forget(self, nodes: int, gpus: int, local_batch: int) -> None:
        """Drop the reports with this number of nodes and GPUs and this local batch."""
        at = self.keys.pop((nodes, gpus, local_batch))
        del self.mean[at], self.count[at]
        self.keys = {key: place for place, key in enumerate(self.keys)}
        self._shapes = {(nodes, gpus) for nodes, gpus, _ in self.keys}

    @property
    def scaled_out(self) -> int:
        """Number of (nodes, GPUs) pairs with several GPUs that have reports."""
        return sum(gpus > 1 for _, gpus in self._shapes)

    def fit(self) -> ThroughputParameters:
        """Return the model that fits the reports best."""
        nodes, gpus, batch = (np.array(column) for column in zip(*self.keys, strict=True))
        return fit_throughput(nodes, gpus, batch, np.exp(self.mean))


class Learned:
    """Models of the throughput of one job, from its reports.

    `job`: profile whose limits, noise, and largest local batch of each type count as known. `types`: types of
    the cluster; types on which the job cannot run are left out. `before`: models of similar earlier jobs,
    scaled to one speed.
    """

    def __init__(
        self,
        job: GoodputProfile,
        types: Iterable[str],
        before: Mapping[str, ThroughputParameters] = MappingProxyType({}),
    ) -> None:
        self.job, self.before = job, before
        self.reports = {type: StepReports() for type in types if type in job.models}
        self.fitted: dict[str, ThroughputParameters] = {}

    def use(self, job: GoodputProfile) -> None:
        """Replace the profile `job`, which may have further types."""
        self.job = job
        for type in job.models:
            self.reports.setdefault(type, StepReports())

    def report(self, held: Configuration, local_batch: int, log_seconds: float, reports: int) -> bool:
        """Add the mean of some reports; return whether the model of its type should be fitted again.

        `log_seconds`: mean logarithm of the seconds of a step without accumulation.
        """
        return self.reports[held.type].add(held.nodes, held.gpus, local_batch, log_seconds, reports)

    def fit(self, types: Iterable[str]) -> None:
        """Fit the models of some types to their reports."""
        with one_blas_thread(None):
            for type in types:
                self.fitted[type] = self.reports[type].fit()

    def parameters(self) -> dict[str, ThroughputParameters]:
        """Return the model of each type by the rules of the module."""
        scaled = {type: reports.scaled_out for type, reports in self.reports.items()}
        best = max(scaled, key=lambda type: scaled[type])
        ran = [type for type in self.reports if type in self.fitted]
        initial, slower, models = self.job.limits.initial, self.slower(self.before), {}
        for type in self.reports:
            own, before = self.fitted.get(type), self.before.get(type)
            if before is not None and not scaled[type]:
                own = before.scaled(slower) if own is None else _bootstrapped(own, before, initial)
            elif own is None:  # as fast as a type with reports, preferably on several GPUs
                earlier = next(iter(self.before.values()), NOMINAL)
                own = self.fitted[max(ran, key=lambda one: scaled[one])] if ran else earlier
            elif not scaled[type] and scaled[best]:
                own = _bootstrapped(own, self.fitted[best], initial)
            models[type] = own
        return models

    def slower(self, before: Mapping[str, ThroughputParameters]) -> float:
        """Return the duration of the job's passes at m0 relative to the models `before`; 1 if unknown."""
        batch = self.job.limits.initial
        logs = [
            math.log(float(own.grad_seconds(batch) / before[type].grad_seconds(batch)))
            for type, own in self.fitted.items()
            if type in before
        ]
        return math.exp(sum(logs) / len(logs)) if logs else 1.0

    def profile(self) -> GoodputProfile:
        """Return the job's profile with the learned models."""
        models = {
            type: TypeModel(parameters, self.job.models[type].max_local_batch)
            for type, parameters in self.parameters().items()
        }
        return self.job.with_models(models)


def _bootstrapped(
    own: ThroughputParameters, other: ThroughputParameters, batch: float
) -> ThroughputParameters:
    """Return a type's own pass with the synchronisation of another type, scaled as in (3.1).

    `own`: fitted to one GPU. `other`: fitted to several GPUs of another type. `batch`: local batch size at
    which the passes are compared.
    """
    ratio = float(own.grad_seconds(batch) / other.grad_seconds(batch))
    scaled = other.scaled(ratio)
    return scaled._replace(alpha_grad=own.alpha_grad, beta_grad=own.beta_grad)
