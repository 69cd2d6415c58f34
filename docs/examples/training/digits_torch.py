"""The network of `digits.py` in PyTorch: ``python docs/examples/training/digits_torch.py``.

It uses a GPU if there is one.
"""

from __future__ import annotations

import argparse

import torch
from digits import SIDE, generate

from copter.live.training.torch import TorchTraining


def main() -> None:
    """Train, and print the progress now and then."""
    parser = argparse.ArgumentParser(description="Learn to read generated digits, in PyTorch.")
    parser.add_argument("--hidden", type=int, default=64, help="units of the hidden layer")
    parser.add_argument("--examples", type=int, default=20_000)
    parser.add_argument("--learning-rate", type=float, default=0.1)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--say-every", type=int, default=500, help="steps between two lines of output")
    by_hand = parser.add_argument_group("used only if copter has not started the process")
    by_hand.add_argument("--initial-batch", type=int, default=64)
    by_hand.add_argument("--work", type=float, default=3000, help="steps at the initial batch size")
    arguments = parser.parse_args()

    torch.manual_seed(arguments.seed)
    torch.set_num_threads(1)  # the network is small, and there is a process for each GPU
    device = "cuda" if torch.cuda.is_available() else "cpu"  # the agent shows each process its own GPU only
    pictures, digits = generate(arguments.examples, 0.3, arguments.seed)
    x = torch.tensor(pictures, dtype=torch.float32, device=device)
    y = torch.tensor(digits, device=device)
    model = torch.nn.Sequential(
        torch.nn.Linear(SIDE**2, arguments.hidden), torch.nn.ReLU(), torch.nn.Linear(arguments.hidden, 10)
    ).to(device)
    training = TorchTraining(
        model,
        torch.optim.SGD(model.parameters(), lr=arguments.learning_rate),
        examples=len(x),
        initial_batch=arguments.initial_batch,
        work=arguments.work,
        seed=arguments.seed,
    )
    for step in training.steps():
        for indices in step.passes():
            loss = torch.nn.functional.cross_entropy(model(x[indices]), y[indices])
            step.backward(loss)
        step.update()
        if training.rank == 0 and step.number % arguments.say_every == 0:
            print(
                f"step {step.number}: loss {loss.item():.4f}, batch {step.batch_size} in {training.ranks}"
                f" processes, {training.progress:.0f} of {training.work:.0f} initial steps",
                flush=True,
            )


if __name__ == "__main__":
    main()
