"""Training that a scheduler may stop and resize: the interface for training scripts.

    from copter.live.training import Training

    training = Training(state, examples=len(x), initial_batch=64, work=5000)
    for step in training.steps():
        for indices in step.passes():
            step.add(gradient(x[indices]))
        mean = step.gradient()
        model -= learning_rate * step.learning_rate_factor * mean

If copter starts the script, the script runs in one process for each GPU, and the job file's work and initial
batch replace the arguments.  Otherwise the script is one process, and the arguments apply.

A step processes a batch of m = G b (s + 1) examples: G GPUs, b examples on each in a pass, s passes beyond
the first.  The step counts as r(m) steps at the initial batch size m0, where r is AdaScale's gain (Pollux
equation 5) with the measured gradient noise phi; r = 1 while phi is unknown.  The job is complete when these
counts add up to its work.  The factor on the learning rate is r(m), or sqrt(m / m0) under the square-root
rule.

All processes do the same at every step.  When gradients are averaged, the first process decides for all
whether to stop and whether to write a checkpoint, and chooses the next batch size and factor.  It uses the
notes of all processes, and sends its decision together with the average.
"""

from __future__ import annotations

import io
import json
import math
import signal
import struct
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple, Protocol, cast

import numpy as np
from numpy.typing import NDArray

from copter.errors import CopterError
from copter.live.backends.base import STOPPED
from copter.live.training.checkpoints import Checkpoints, CheckpointTimer
from copter.live.training.group import ProcessGroup, join
from copter.live.training.layout import Gradient, GradientLayout
from copter.live.training.loader import Loader
from copter.live.training.plan import Batch, ProcessPlace, TrainingPlan, TrainingReport
from copter.live.training.reporting import Reporter
from copter.problems.cluster.estimation.gradients import NoiseEstimator
from copter.problems.cluster.profiles.throughput import ScalingRule, adascale_gain, learning_rate_factor

_OWN, _STATE, _NOISE = "copter", "state/", "noise/"
"""Prefixes of arrays in a checkpoint: numbers as JSON, the script's state, the noise estimator's state."""


class TrainingError(CopterError, RuntimeError):
    """A training script violates the protocol of a step, or its state does not fit its checkpoint."""


class LearnedState(Protocol):
    """State that a job learns, which its checkpoints save."""

    def save(self) -> dict[str, NDArray[Any]]:
        """Return the state as arrays."""

    def load(self, arrays: Mapping[str, NDArray[Any]]) -> None:
        """Restore a saved state; raise TrainingError if it is from another job."""


class ArrayState:
    """A LearnedState of numpy arrays, which are changed in place."""

    def __init__(self, arrays: Mapping[str, NDArray[Any]]) -> None:
        for name, array in arrays.items():
            if not isinstance(name, str) or not isinstance(array, np.ndarray) or array.dtype.hasobject:
                raise TypeError(f"state[{name!r}]: must be a numpy array of numbers, with a name")
        self._arrays = arrays

    def save(self) -> dict[str, NDArray[Any]]:
        """Return the arrays themselves."""
        return dict(self._arrays)

    def load(self, arrays: Mapping[str, NDArray[Any]]) -> None:
        """Copy the saved arrays into the state's arrays."""
        if set(arrays) != set(self._arrays):
            names = sorted(set(arrays) ^ set(self._arrays))
            raise TrainingError(f"{', '.join(names)}: must be in both the checkpoint and the state")
        for name, array in self._arrays.items():
            saved = arrays[name]
            if (saved.shape, saved.dtype) != (array.shape, array.dtype):
                was, here = f"{saved.dtype} {saved.shape}", f"{array.dtype} {array.shape}"
                raise TrainingError(f"state[{name!r}]: {was} in the checkpoint: must be {here}")
            array[...] = saved


class _Note(NamedTuple):
    """Note of a process at a step: whether the process got a stop signal, and its squared gradient norms."""

    told: bool
    squares: float


class _Decision(NamedTuple):
    """Decision of the first process at a step: whether to end, stop or save, and the next batch."""

    done: bool
    stop: bool
    save: bool
    progress: float
    factor: float
    local_batch: int
    accumulation: int
    ordered_factor: float


_NOTE, _DECISION = struct.Struct("<?d"), struct.Struct("<???ddqqd")


@dataclass(frozen=True)
class _Scaling:
    """Gain and learning rate factor as functions of the batch size."""

    rule: ScalingRule
    initial_batch: int

    def gain(self, noise: float, batch_size: int) -> float:
        """Return the number of initial-batch steps that a step counts as; 1 while the noise is unknown."""
        if math.isnan(noise) or batch_size == self.initial_batch:
            return 1.0
        if math.isinf(noise):  # the limit of the gain
            return batch_size / self.initial_batch
        return float(adascale_gain(noise, self.initial_batch, batch_size))

    def factor(self, noise: float, batch_size: int, ordered: float) -> float:
        """Return the factor on the learning rate; `ordered` if the factor depends on unknown noise."""
        if self.rule == "adascale":
            return ordered if math.isnan(noise) else self.gain(noise, batch_size)
        return float(learning_rate_factor(self.rule, noise, self.initial_batch, batch_size))


class TrainingStep:
    """One step of training; made by :meth:`Training.steps`.

    Attributes
    ----------
    number : int
        Number of the job's step, from 0.
    batch_size : int
        Examples of the whole batch, over all processes and passes.
    learning_rate_factor : float
        Factor on the learning rate for the initial batch size.
    """

    def __init__(self, training: Training, parts: NDArray[np.int64], factor: float) -> None:
        self.number, self.batch_size = training.step_count, training.batch_size
        self.learning_rate_factor = factor
        self._training, self._parts = training, parts
        self._layout: GradientLayout | None = None
        self._total = np.empty(0)
        self._squares, self._added = 0.0, 0
        self._last_pass_began = time.monotonic()
        self._decision: _Decision | None = None

    def passes(self) -> Iterator[NDArray[np.int64]]:
        """Yield the indices of this process's examples in each pass; all processes have equally many."""
        for part in self._parts:
            self._last_pass_began = time.monotonic()
            yield part

    def add(self, gradient: Gradient) -> None:
        """Add the mean gradient over a pass, an array or a mapping of names to arrays.

        Raises
        ------
        ValueError
            If the gradient has other names or shapes than the first gradient.
        """
        if self._layout is None:
            self._layout = GradientLayout(gradient)
        vector = self._layout.pack(gradient)
        self._total = vector if self._added == 0 else self._total + vector
        self._squares += float(vector @ vector)
        self._added += 1

    def gradient(self) -> Any:
        """Return the mean gradient of all processes and passes, in the form of the added gradients.

        The result is identical in every process, bit by bit.

        Raises
        ------
        TrainingError
            If there was not exactly one gradient for each pass, or the method was called before.
        PeerError
            If another process has ended.
        """
        if self._layout is None or self._added != len(self._parts):
            raise TrainingError(
                f"step {self.number}: {self._added} gradients: must be {len(self._parts)}, one a pass"
            )
        total = self._total
        self.agree(self._squares, lambda: float(total @ total), lambda: total, total)
        return self._layout.unpack(total)

    def agree(
        self,
        squares: float,
        square_of_mean: Callable[[], float],
        mean: Callable[[], NDArray[Any]],
        total: NDArray[Any] | None = None,
    ) -> None:
        """End a step: average the `total`, if it is given, and agree on the next step.

        Parameters
        ----------
        squares : float
            Sum of the squared norms of this process's gradients, one for each pass.
        square_of_mean, mean : callable
            Functions without arguments that return the squared norm, and the flat vector, of the mean
            gradient over all processes and passes.  The first process calls them if needed.
        total : array, optional
            Sum of this process's gradients, which becomes the mean gradient.
        """
        if self._decision is not None:
            raise TrainingError(f"step {self.number}: the gradient must be averaged once only")
        training, vector = self._training, np.empty(0) if total is None else total

        def decide(notes: list[bytes]) -> bytes:
            vector[...] /= training._gradient_count
            heard = [_Note(*_NOTE.unpack(note)) for note in notes]
            return _DECISION.pack(*training._decide(heard, square_of_mean, mean))

        decision = training._group.reduce(vector, _NOTE.pack(training._told, squares), decide)
        self._decision = _Decision(*_DECISION.unpack(decision))


class Training:
    """A job that trains; see the module's example.

    Parameters
    ----------
    state : mapping of str to array, or LearnedState
        State that the job learns, which its checkpoints save.  Arrays are changed in place.  If there is a
        checkpoint, the constructor restores it; all processes begin with the same state.
    examples : int
        Number of examples of the data set; passes yield indices below it.
    initial_batch : int
        Batch size for which the learning rate was chosen; the job file's value replaces it.
    work : float
        Number of steps at the initial batch size until the job is complete; the job file's value replaces it.
    seed : int
        Seed of the examples' order.

    Attributes
    ----------
    rank, ranks : int
        Number of this process, and the number of processes.
    local_rank : int
        Number of this process on its node.
    step_count : int
        Number of the job's steps so far.
    progress : float
        Number of steps at the initial batch size that these steps count as.

    Raises
    ------
    ValueError, TypeError
        If an argument is invalid.
    TrainingError
        If the checkpoint does not fit the script.
    PeerError
        If another process of the run does not connect, or is on another machine.
    """

    _step: type[TrainingStep] = TrainingStep

    def __init__(
        self,
        state: Mapping[str, NDArray[Any]] | LearnedState,
        *,
        examples: int,
        initial_batch: int,
        work: float,
        seed: int = 0,
    ) -> None:
        place = ProcessPlace.here()
        self._place = place or _by_itself(initial_batch, work)
        self._state = ArrayState(state) if isinstance(state, Mapping) else state
        self._plan = plan = self._place.plan
        if not 0 < plan.work < math.inf:
            raise ValueError(f"work = {plan.work}: must be positive")
        if plan.initial_batch < 1:
            raise ValueError(f"initial_batch = {plan.initial_batch}: must be at least 1")
        self.rank, self.ranks, self.local_rank = self._place.rank, self._place.ranks, self._place.local_rank
        self._loader = Loader(examples, seed)
        self._noise = NoiseEstimator(plan.initial_batch)
        self._scaling = _Scaling(cast(ScalingRule, plan.rule), plan.initial_batch)
        self.step_count, self.progress, self._saved_progress = 0, 0.0, 0.0
        self._batch, self._last_batch_size = plan.batch, 0
        self._began: float | None = None
        self._told = False
        self._checkpoints: Checkpoints | None = None
        self._timer = CheckpointTimer(plan.checkpoint_seconds)
        self._reporter: Reporter | None = None
        self._group = ProcessGroup()
        if place is not None:
            self._join(place)

    @property
    def batch_size(self) -> int:
        """Number of examples of the next step, over all processes and passes."""
        return self._size(self._batch)

    @property
    def epoch(self) -> int:
        """Number of completed epochs."""
        return self._loader.epoch

    @property
    def work(self) -> float:
        """Number of steps at the initial batch size until the job is complete."""
        return self._plan.work

    def steps(self) -> Iterator[TrainingStep]:
        """Yield the steps of the job until its work is done.

        If the job is ordered to stop, it writes a checkpoint after the current step and raises SystemExit
        with exit code 75, in every process.

        Raises
        ------
        TrainingError
            If the script did not call ``gradient()`` in a step.
        SystemExit
            If the run was ordered to stop.
        OSError
            If a checkpoint cannot be written.
        """
        noise = self._noise.noise_scale
        factor = self._scaling.factor(noise, self.batch_size, self._batch.learning_rate_factor)
        done, stop = self.progress >= self._plan.work, False
        try:
            while not (done or stop):
                step = self._begin(factor)
                yield step
                seconds = time.monotonic() - step._last_pass_began
                if (decision := step._decision) is None:
                    raise TrainingError(f"step {step.number}: the script must call gradient()")
                self._end(decision, seconds)
                done, stop, factor = decision.done, decision.stop, decision.factor
            self._hear_no_more()
            if not done:
                raise SystemExit(STOPPED)
        finally:
            self.close()

    def close(self) -> None:
        """Send the last report, and disconnect from other processes; :meth:`steps` calls this at its end."""
        if self._reporter is not None:
            self._reporter.close()
            self._reporter = None
        self._group.close()

    # ---- start ----------------------------------------------------------------------------------

    def _join(self, place: ProcessPlace) -> None:
        """Connect with the other processes of a run, and restore its checkpoint.

        Until then SIGTERM ends the process, which counts as stopped, because there is nothing to save.
        """
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        plan, saved = place.plan, None
        self._group = self._meet(place)
        if self.rank == 0:
            self._checkpoints = Checkpoints(Path(plan.folder), plan.number)
            saved = self._checkpoints.latest(lambda words: print(f"copter: {words}", file=sys.stderr))
        if self.ranks > 1:
            # All processes begin with the first one's state, because another node may see other files.
            content = self._group.spread(_packed(saved or self._arrays()) if self.rank == 0 else b"")
            if self.rank:
                saved = _unpacked(content)
        signal.signal(signal.SIGTERM, self._hear)
        if saved is not None:
            self._restore(saved)
        if self.rank == 0:
            self._saved_progress = self.progress
            if plan.url:
                self._reporter = Reporter(plan, self._report())
                self._reporter.start()

    def _meet(self, place: ProcessPlace) -> ProcessGroup:
        """Connect with the other processes."""
        return join(Path(place.folder), self.rank, self.ranks)

    def _hear(self, number: int, frame: object) -> None:
        self._told = True

    def _hear_no_more(self) -> None:
        """Ignore SIGTERM from now on, because the run ends anyway and must not fail."""
        if self._place.folder:
            signal.signal(signal.SIGTERM, signal.SIG_IGN)

    # ---- a step ---------------------------------------------------------------------------------

    @property
    def _local(self) -> int:
        """Number of examples of this process in one pass."""
        return self._batch.local_batch * sum(self._place.gpus) // self.ranks

    def _size(self, batch: Batch) -> int:
        return sum(self._place.gpus) * batch.local_batch * (batch.accumulation + 1)

    @property
    def _gradient_count(self) -> int:
        return self.ranks * (self._batch.accumulation + 1)

    def _begin(self, factor: float) -> TrainingStep:
        if self._began is None:
            self._began = time.monotonic()
            self._timer = CheckpointTimer(self._plan.checkpoint_seconds)
        batch = self._loader.take(self.batch_size)
        parts = batch.reshape(self._batch.accumulation + 1, self.ranks, self._local)
        return self._step(self, parts[:, self.rank], factor)

    def _decide(
        self, notes: list[_Note], square_of_mean: Callable[[], float], mean: Callable[[], NDArray[Any]]
    ) -> _Decision:
        """Return the decision after the current step; called in the first process."""
        progress = self.progress + self._scaling.gain(self._noise.noise_scale, self.batch_size)
        squares, count = sum(note.squares for note in notes), self._gradient_count
        if count > 1 and math.isfinite(squares):  # loss scaling overflows now and then
            self._noise.observe_norms(squares / count, square_of_mean(), count, self._local)
        elif math.isfinite(squares):
            self._noise.observe(mean(), self._local)
        stop, batch = any(note.told for note in notes), self._batch
        if self._reporter is not None:
            stop = stop or self._reporter.stop or self._reporter.lease_over()
            batch = self._reporter.ordered_batch() or batch
        done = progress >= self._plan.work
        save = self._timer.step() or done or stop
        factor = self._scaling.factor(self._noise.noise_scale, self._size(batch), batch.learning_rate_factor)
        return _Decision(done, stop, save, progress, factor, *batch)

    def _end(self, decision: _Decision, last_pass_seconds: float) -> None:
        """Carry out a decision, after the script has made its step."""
        trained, first = self._batch, self._last_batch_size == 0
        self.step_count, self.progress = self.step_count + 1, decision.progress
        self._last_batch_size = self.batch_size
        self._batch = Batch(decision.local_batch, decision.accumulation, decision.ordered_factor)
        if decision.save and self._checkpoints is not None:
            began = time.monotonic()
            self._checkpoints.write(self.step_count, self._arrays())
            self._saved_progress = self.progress
            self._timer.written(began)
        if self._reporter is not None:
            self._reporter.note(self._report(), trained.local_batch, None if first else last_pass_seconds)

    def _report(self) -> TrainingReport:
        """Return a report of the present state, without the times of steps."""
        known = not math.isnan(self._noise.noise_scale)
        return TrainingReport(
            progress=self.progress,
            steps=self.step_count,
            running_seconds=0.0 if self._began is None else time.monotonic() - self._began,
            times=(),
            squared_norm=self._noise.squared_norm if known else None,
            variance=self._noise.variance if known else None,
            batch_size=self._last_batch_size,
            saved_progress=self._saved_progress,
        )

    # ---- checkpoints ----------------------------------------------------------------------------

    def _arrays(self) -> dict[str, NDArray[Any]]:
        """Return the arrays of a checkpoint."""
        own = {
            "examples": self._loader.examples,
            "seed": self._loader.seed,
            "consumed": self._loader.consumed,
            "steps": self.step_count,
            "progress": self.progress,
        }
        arrays: dict[str, NDArray[Any]] = {_OWN: np.frombuffer(json.dumps(own).encode(), np.uint8)}
        arrays |= {_NOISE + name: array for name, array in self._noise.state().items()}
        return arrays | {_STATE + name: array for name, array in self._state.save().items()}

    def _restore(self, arrays: Mapping[str, NDArray[Any]]) -> None:
        if _OWN not in arrays:
            raise TrainingError(f"checkpoint: has no array {_OWN!r}: must be written by Training")
        own = json.loads(arrays[_OWN].tobytes())
        if own["examples"] != self._loader.examples:
            raise TrainingError(
                f"examples = {self._loader.examples}: must be {own['examples']}, as in the checkpoint"
            )
        self._state.load(_below(_STATE, arrays))
        self._noise.restore(_below(_NOISE, arrays))
        self._loader = Loader(own["examples"], own["seed"], own["consumed"])
        self.step_count, self.progress = own["steps"], own["progress"]


def _by_itself(initial_batch: int, work: float) -> ProcessPlace:
    """Return the place of a process that copter did not start."""
    batch = Batch(initial_batch, 0, 1.0)
    plan = TrainingPlan("", "", "", 0, work, initial_batch, batch)
    return ProcessPlace(plan, "", "", (1,), "", rank=0, ranks=1, local_rank=0, node=0)


def _below(prefix: str, arrays: Mapping[str, NDArray[Any]]) -> dict[str, NDArray[Any]]:
    return {name.removeprefix(prefix): array for name, array in arrays.items() if name.startswith(prefix)}


def _packed(arrays: Mapping[str, NDArray[Any]]) -> bytes:
    content = io.BytesIO()
    np.savez(content, **arrays)  # type: ignore[arg-type]
    return content.getvalue()


def _unpacked(content: bytes) -> dict[str, NDArray[Any]]:
    with np.load(io.BytesIO(content), allow_pickle=False) as file:
        return {name: file[name] for name in file.files}
