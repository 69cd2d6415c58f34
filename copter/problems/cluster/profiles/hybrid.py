"""Hybrid-parallel jobs: pipelines of several GPUs, replicated for data parallelism.

A pipeline has P stages, one on each GPU.  K GPUs hold N = K / P replicas; a number of GPUs that is not a
multiple of P cannot run the job.  Each replica passes M microbatches of one example through its pipeline
(GPipe), and the replicas then synchronise their gradients.  With t seconds for a microbatch in a stage,
forward and backward,

    T_grad = (P - 1) t + M t                              filling the pipeline, then a microbatch every t
    T_iter = (T_grad^gamma + T_sync(N)^gamma)^(1/gamma)
    batch = N M,   goodput = batch / T_iter EFFICIENCY(batch)

which is the throughput model of data-parallel jobs for replicas in place of GPUs, with alpha_grad = (P - 1)
t, beta_grad = t and a local batch of M.

Source: thesis sections 3.3.4 and 3.5.3.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from copter.arrays import Floats, Ints
from copter.problems.cluster.cluster import Configurations
from copter.problems.cluster.profiles.base import Profile
from copter.problems.cluster.profiles.builtin import builtin_goodput_profiles
from copter.problems.cluster.profiles.goodput import BatchLimits
from copter.problems.cluster.profiles.throughput import ThroughputParameters, efficiency

MICROBATCHES = 48
"""Number of microbatches of a replica, with one example each (thesis section 3.5.3)."""
_RESTART_SECONDS = 250.0
"""Restart time of the GPT: the longest in the thesis, of its largest model."""


class _Pipeline(NamedTuple):
    """A replica on a type of GPU, with `stages` GPUs (P).

    `parameters`: throughput model with replicas instead of GPUs.
    """

    stages: int
    parameters: ThroughputParameters


def _pipeline(
    stages: int, stage_seconds: float, sync: tuple[float, float, float, float], gamma: float
) -> _Pipeline:
    """Return the pipeline of GPipe.

    `stage_seconds`: t, seconds of a microbatch in a stage, forward and backward. `sync`: seconds of
    synchronisation of two replicas on one node, and of each further replica; then the same across nodes.
    `gamma`: overlap, from 1 (no overlap) to 10.
    """
    return _Pipeline(stages, ThroughputParameters((stages - 1) * stage_seconds, stage_seconds, *sync, gamma))


class HybridProfile(Profile):
    """Goodput of a hybrid-parallel job.

    `progress`: steps at the initial batch size at which each level ends. `noise`: gradient noise scale in
    each level, in examples. `pipelines`: replica by type; other types cannot run the job. `limits`: the
    initial batch is that of one replica, unless the batch size is fixed. `batch_size`: a fixed batch size,
    which is divided among the replicas; otherwise each replica has the initial batch.
    """

    batch_size: int | None = None

    def __init__(
        self,
        name: str,
        restart_seconds: float,
        progress: ArrayLike,
        noise: ArrayLike,
        pipelines: Mapping[str, _Pipeline],
        limits: BatchLimits,
    ) -> None:
        super().__init__(name, restart_seconds, progress)
        self.noise = np.array(noise, np.float64)
        if self.noise.shape != (self.n_levels,) or not (self.noise >= 0).all():
            raise ValueError(f"profile {name!r}: noise must be {self.n_levels} numbers >= 0")
        for type, one in pipelines.items():
            if one.stages < 1:
                raise ValueError(f"profile {name!r}: {type}: stages = {one.stages}: must be at least 1")
            one.parameters.check()
        self.pipelines, self.limits = dict(pipelines), limits

    def speeds(self, shapes: Configurations, levels: Ints) -> Floats:  # noqa: D102
        values = np.zeros((len(shapes), levels.size))
        for position, type in enumerate(shapes.types):
            if type in self.pipelines:
                here = np.flatnonzero(shapes.type_index == position)
                nodes, gpus = shapes.nodes[here, None], shapes.gpus[here, None]
                values[here] = self._goodput(self.pipelines[type], nodes, gpus, self.noise[levels])
        return values

    def at_fixed_batch(self, batch_size: int | None = None) -> Profile:
        """Return the same job with one batch size; more replicas process fewer microbatches each."""
        size = self.limits.initial if batch_size is None else batch_size
        return self._variant(("fixed", size), batch_size=size)

    def _goodput(self, one: _Pipeline, nodes: Ints, gpus: Ints, noise: ArrayLike) -> Floats:
        """Return the steps of the initial batch a second."""
        replicas = gpus // one.stages
        count = np.maximum(replicas, 1)
        each = self.limits.initial if self.batch_size is None else np.ceil(self.batch_size / count)
        batch = count * each if self.batch_size is None else np.full(gpus.shape, float(self.batch_size))
        # If the division is uneven, the last replica has less; the step takes as long as the others.
        seconds = one.parameters.step_seconds(nodes, count, each)
        largest = max(self.limits.largest, self.batch_size or 0)
        runs = (gpus % one.stages == 0) & (replicas >= 1) & (batch <= largest) & (replicas <= batch)
        rate = batch / seconds * efficiency(noise, self.limits.initial, batch) / self.limits.initial
        return np.where(runs, rate, 0.0)


def gpt_profile(epochs: float = 2.0) -> HybridProfile:
    """Return the 2.8-billion-parameter GPT that is fine-tuned on SQuAD: two stages on a100, eight on rtx.

    Batch sizes, stages and microbatches are the thesis'.  Like there, gradient noise and training examples
    are BERT's.  The thesis gives no times.  The times here are estimates: 6 x 2.8e9 FLOP per token, 384
    tokens per example, and a third more for recomputed activations, at 40% of an a100's 312 TFLOP/s and 30%
    of an rtx's 54.  Gradients of 5.6 GB are reduced at 200 GB/s between a100 nodes and at 6.25 GB/s between
    rtx nodes, mostly while the pipeline computes.

    `epochs`: passes over the data; BERT makes two. The profile is for the types a100 and rtx; its progress is
    in steps of 48 examples.
    """
    bert = builtin_goodput_profiles()["bert"]
    pipelines = {
        "a100": _pipeline(2, 0.034, (0.02, 0.005, 0.06, 0.005), 3.0),
        "rtx": _pipeline(8, 0.067, (0.9, 0.1, 0.9, 0.1), 3.0),
    }
    progress = bert.progress * bert.limits.initial / MICROBATCHES * epochs / 2.0
    limits = BatchLimits(MICROBATCHES, 384)
    return HybridProfile("gpt", _RESTART_SECONDS, progress, bert.noise, pipelines, limits)
