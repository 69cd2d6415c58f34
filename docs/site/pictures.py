"""Draw the pictures of the site's front page: the cycle of a round, and a small program over 30 rounds.

python docs/site/pictures.py
"""

from __future__ import annotations

from pathlib import Path

import matplotlib
import numpy as np
from matplotlib.figure import Figure

from copter import ContinualProgram, make_solver

FOLDER = Path(__file__).parents[1] / "pictures"
STEPS = (
    ("events", "jobs arrive and leave,\nnodes fail"),
    ("edits", "requests and resources\nchange in place"),
    ("warm solve", "from the last allocation\nand prices, certified"),
    ("rounding", "a shim makes an\nintegral allocation"),
    ("answer", "takes effect, or falls\nback to the last one"),
)
ROUNDS, JOBS = 30, 60
GPUS = (1, 2, 4)


def cycle() -> Figure:
    """Return the steps of a round as boxes on a circle."""
    figure = Figure(figsize=(7.2, 4.6), layout="constrained")
    axes = figure.add_subplot()
    angles = np.pi / 2 - 2 * np.pi * np.arange(len(STEPS)) / len(STEPS)
    places = np.column_stack((1.55 * np.cos(angles), np.sin(angles)))
    for k, ((name, text), place) in enumerate(zip(STEPS, places, strict=True)):
        axes.text(
            *place,
            f"{name}\n{text}",
            ha="center",
            va="center",
            fontsize=9,
            bbox={"boxstyle": "round,pad=0.5", "facecolor": "#eaf3fa", "edgecolor": "#0072b2"},
        )
        after = places[(k + 1) % len(STEPS)]
        axes.annotate(
            "",
            after,
            place,
            arrowprops={
                "arrowstyle": "-|>",
                "color": "#63636e",
                "shrinkA": 62,
                "shrinkB": 62,
                "connectionstyle": "arc3,rad=-0.12",
            },
        )
    axes.text(0, -0.05, "the program\nis kept", ha="center", va="center", fontsize=11, color="#0072b2")
    axes.set(xlim=(-2.2, 2.2), ylim=(-1.25, 1.35))
    axes.set_axis_off()
    return figure


def played() -> tuple[np.ndarray, np.ndarray]:
    """Play the rounds warm and cold; return prices (rounds, 2) and iterations (rounds, 2)."""
    rng = np.random.default_rng(3)
    program = ContinualProgram()
    program.add_resources(["fast", "slow"], upper=[60.0, 90.0])
    usage = program.share_columns({"fast": ([0, 1, 2], GPUS), "slow": ([3, 4, 5], GPUS)}, n_columns=6)
    warm, cold = make_solver("copter"), make_solver("copter", warm_start=False)
    prices, iterations, names = [], [], []
    for number in range(ROUNDS):
        leaving = [] if number == 0 else list(rng.choice(names, 6, replace=False))
        for name in leaving:
            program.remove_request(name)
            names.remove(name)
        for k in range(JOBS if number == 0 else 6):
            names.append(f"job {number}.{k}")
            value = rng.uniform(1.0, 3.0)
            speed = np.array(GPUS) ** rng.uniform(0.6, 0.95)
            program.add_request(names[-1], [*(-value * speed), *(-0.5 * value * speed)], usage, total=1)
        program.update_resource("fast", upper=60.0 + 15.0 * np.sin(number / 4.0))
        solution = warm.solve(program)
        prices.append([solution.price["fast"], solution.price["slow"]])
        iterations.append([solution.iterations, cold.solve(program).iterations])
    return np.array(prices), np.array(iterations)


def prices() -> Figure:
    """Return the prices of both resources and the iterations of each round."""
    price, iterations = played()
    figure = Figure(figsize=(7.2, 4.6), layout="constrained")
    above, below = figure.subplots(2, 1, sharex=True)
    rounds = np.arange(ROUNDS)
    above.plot(rounds, price[:, 0], "o-", markersize=3, color="#0072b2", label="price of a fast GPU")
    above.plot(rounds, price[:, 1], "o-", markersize=3, color="#d55e00", label="price of a slow GPU")
    above.set_ylabel("dual price")
    above.legend(frameon=False, fontsize=8)
    below.bar(rounds - 0.2, iterations[:, 1], 0.4, color="#b9b9c4", label="cold start")
    below.bar(rounds + 0.2, iterations[:, 0], 0.4, color="#0072b2", label="warm start")
    below.set(xlabel="round", ylabel="iterations")
    below.legend(frameon=False, fontsize=8)
    return figure


def main() -> None:
    """Write both pictures."""
    matplotlib.rcParams["svg.hashsalt"] = "copter"
    FOLDER.mkdir(exist_ok=True)
    for name, draw in (("cycle", cycle), ("prices", prices)):
        draw().savefig(FOLDER / f"{name}.svg", metadata={"Date": None})
        print(f"wrote {FOLDER / name}.svg")


if __name__ == "__main__":
    main()
