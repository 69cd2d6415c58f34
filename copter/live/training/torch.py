"""Training of a PyTorch model with its optimiser, data-parallel.

    from copter.live.training.torch import TorchTraining

    training = TorchTraining(model, optimizer, examples=len(x), initial_batch=64, work=5000)
    for step in training.steps():
        for indices in step.passes():
            step.backward(loss_function(model(x[indices]), y[indices]))
        step.update()

The processes use torch.distributed to find each other, average gradients and agree.  Gradients are averaged
as one vector when all are computed, by NCCL if the model is on a GPU and otherwise by Gloo.  The gradient
noise is measured by the norm of this vector and the norms of each process's own gradients.
DistributedDataParallel averages during the backward pass.  This is faster for large models, but does not give
a process its own gradient.

The learning rates of all parameter groups are multiplied by the step's factor during the step only, so a
learning rate schedule works as usual.

A checkpoint has the ``state_dict`` of model and optimiser, and is read with ``weights_only``.  Buffers that
batches change, such as running means, are those of the first process.
"""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from copter.extras import extra
from copter.live.training.group import SILENCE_SECONDS, PeerError, ProcessGroup
from copter.live.training.plan import ProcessPlace
from copter.live.training.training import Training, TrainingError, TrainingStep

with extra("torch"):
    import torch
    import torch.distributed


class _TorchState:
    """Model and optimiser, saved and loaded by torch."""

    def __init__(self, model: Any, optimizer: Any, device: Any) -> None:
        self._model, self._optimizer, self._device = model, optimizer, device

    def save(self) -> dict[str, NDArray[Any]]:
        content = io.BytesIO()
        state = {"model": self._model.state_dict(), "optimizer": self._optimizer.state_dict()}
        torch.save(state, content)
        return {"torch": np.frombuffer(content.getbuffer(), np.uint8)}

    def load(self, arrays: Mapping[str, NDArray[Any]]) -> None:
        if set(arrays) != {"torch"}:
            raise TrainingError(f"checkpoint: has {', '.join(sorted(arrays))}: must be written by PyTorch")
        content = io.BytesIO(arrays["torch"].tobytes())
        state = torch.load(content, map_location=self._device, weights_only=True)
        self._model.load_state_dict(state["model"])
        self._optimizer.load_state_dict(state["optimizer"])


@contextmanager
def _of_peers() -> Iterator[None]:
    """Turn errors of torch.distributed into a PeerError."""
    try:
        yield
    except RuntimeError as error:
        raise PeerError(f"another process has ended or does not answer: {error}") from error


class _TorchGroup(ProcessGroup):
    """The processes of torch.distributed, which has already summed the vectors."""

    def spread(self, content: bytes) -> bytes:
        length = torch.tensor([len(content)])
        with _of_peers():
            torch.distributed.broadcast(length, 0)
            sent = _tensor(content) if self.rank == 0 else torch.empty(int(length), dtype=torch.uint8)
            torch.distributed.broadcast(sent, 0)
        return bytes(sent.numpy())

    def reduce(self, vector: NDArray[Any], note: bytes, decide: Callable[[list[bytes]], bytes]) -> bytes:
        own = _tensor(note)
        notes = [torch.empty_like(own) for _ in range(torch.distributed.get_world_size())]
        with _of_peers():
            torch.distributed.all_gather(notes, own)
        return self.spread(decide([bytes(one.numpy()) for one in notes]) if self.rank == 0 else b"")

    def close(self) -> None:
        if torch.distributed.is_initialized():
            torch.distributed.destroy_process_group()


def _tensor(content: bytes) -> Any:
    return torch.frombuffer(bytearray(content), dtype=torch.uint8)


class TorchStep(TrainingStep):
    """One step of training; made by :meth:`TorchTraining.steps`.

    Attributes
    ----------
    number, batch_size : int
        As in :class:`copter.live.training.training.TrainingStep`.
    learning_rate_factor : float
        Factor on the learning rate for the initial batch size; :meth:`update` applies it.
    """

    _training: TorchTraining
    _total: Any

    def passes(self) -> Iterator[Any]:
        """Yield the indices of this process's examples in each pass, as int64 tensors on the CPU."""
        for indices in super().passes():
            yield torch.from_numpy(indices)

    def backward(self, loss: Any) -> None:
        """Compute and add the gradient of a pass's mean loss."""
        parameters = self._training.parameters
        for each in parameters:
            each.grad = None
        loss.backward()
        parts = [torch.zeros_like(each) if each.grad is None else each.grad for each in parameters]
        vector = torch.cat([part.detach().reshape(-1) for part in parts])
        self._total = vector if self._added == 0 else self._total.add_(vector)
        self._squares += float(vector.dot(vector))
        self._added += 1

    def update(self) -> None:
        """Average the gradients of all processes and passes, and make the optimiser's step.

        Raises
        ------
        TrainingError
            If there was not exactly one loss for each pass, or the method was called before.
        PeerError
            If another process has ended.
        """
        training, count = self._training, len(self._parts)
        if self._added != count:
            raise TrainingError(f"step {self.number}: {self._added} losses: must be {count}, one a pass")
        mean = self._total
        if training.ranks > 1:
            with _of_peers():
                torch.distributed.all_reduce(mean)
        mean /= count * training.ranks
        self.agree(self._squares, lambda: float(mean.dot(mean)), lambda: mean.cpu().numpy())
        start = 0
        for each in training.parameters:
            part = mean[start : start + each.numel()]
            each.grad = part.reshape(each.shape).to(each.dtype)
            start += each.numel()
        groups = training.optimizer.param_groups
        rates = [group["lr"] for group in groups]
        for group, rate in zip(groups, rates, strict=True):
            group["lr"] = rate * self.learning_rate_factor
        training.optimizer.step()
        for group, rate in zip(groups, rates, strict=True):
            group["lr"] = rate
        training.optimizer.zero_grad()


class TorchTraining(Training):
    """A job that trains a PyTorch model; see the module's example.

    Parameters
    ----------
    model : torch.nn.Module
        Model, on the device on which it is trained.  All processes begin with the first process's parameters.
    optimizer : torch.optim.Optimizer
        Optimiser of the model's parameters.
    examples, initial_batch, work, seed
        As in :class:`copter.live.training.training.Training`.

    Attributes
    ----------
    rank, ranks, local_rank, step_count, progress
        As in :class:`copter.live.training.training.Training`.
    parameters : list of torch.nn.Parameter
        Parameters that are trained.

    Raises
    ------
    ValueError
        If the model has no trainable parameters, or another argument is invalid.
    TrainingError, PeerError, SystemExit
        As in :class:`copter.live.training.training.Training`.
    """

    _step = TorchStep

    def __init__(
        self, model: Any, optimizer: Any, *, examples: int, initial_batch: int, work: float, seed: int = 0
    ) -> None:
        self.parameters = [each for each in model.parameters() if each.requires_grad]
        if not self.parameters:
            raise ValueError("model: must have parameters with requires_grad")
        self.optimizer = optimizer
        state = _TorchState(model, optimizer, self.parameters[0].device)
        super().__init__(state, examples=examples, initial_batch=initial_batch, work=work, seed=seed)

    def steps(self) -> Iterator[TorchStep]:
        """Yield steps as :meth:`copter.live.training.training.Training.steps` does."""
        return cast(Iterator[TorchStep], super().steps())

    def _meet(self, place: ProcessPlace) -> ProcessGroup:
        """Let the processes find each other by torch.distributed, through a file in the run's folder."""
        if self.ranks == 1:
            return ProcessGroup()
        with _of_peers():
            torch.distributed.init_process_group(
                "cpu:gloo,cuda:nccl" if torch.cuda.is_available() else "gloo",
                store=torch.distributed.FileStore(str(Path(place.folder) / "torch-store"), self.ranks),
                rank=self.rank,
                world_size=self.ranks,
                timeout=timedelta(seconds=SILENCE_SECONDS),
            )
        return _TorchGroup(self.rank)
