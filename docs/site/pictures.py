"""Draw the picture of the site's front page: the cycle of a round.

python docs/site/pictures.py
"""

from __future__ import annotations

from pathlib import Path

import matplotlib
import numpy as np
from matplotlib.figure import Figure

PICTURE = Path(__file__).parents[1] / "pictures/cycle.svg"
STEPS = (
    ("events", "jobs arrive and leave,\nnodes fail"),
    ("edits", "requests and resources\nchange in place"),
    ("warm solve", "from the last allocation\nand prices, certified"),
    ("rounding", "a shim makes an\nintegral allocation"),
    ("answer", "takes effect, or falls\nback to the last one"),
)


def cycle() -> Figure:
    """Return the steps of a round as boxes on a circle."""
    figure = Figure(figsize=(7.2, 4.6), layout="constrained")
    axes = figure.add_subplot()
    angles = np.pi / 2 - 2 * np.pi * np.arange(len(STEPS)) / len(STEPS)
    places = np.column_stack((1.55 * np.cos(angles), np.sin(angles)))
    style = {"boxstyle": "round,pad=0.5", "facecolor": "#eaf3fa", "edgecolor": "#0072b2"}
    boxes = [
        axes.text(*place, f"{name}\n{text}", ha="center", va="center", fontsize=9, bbox=style)
        for (name, text), place in zip(STEPS, places, strict=True)
    ]
    for k, box in enumerate(boxes):
        after = (k + 1) % len(boxes)
        arrow = {"arrowstyle": "-|>", "color": "#63636e", "connectionstyle": "arc3,rad=-0.12"}
        ends = {"patchA": box.get_bbox_patch(), "patchB": boxes[after].get_bbox_patch()}
        axes.annotate("", places[after], places[k], arrowprops=arrow | ends)
    axes.text(0, -0.05, "the program\nis kept", ha="center", va="center", fontsize=11, color="#0072b2")
    axes.set(xlim=(-2.2, 2.2), ylim=(-1.25, 1.35))
    axes.set_axis_off()
    return figure


def main() -> None:
    """Write the picture."""
    matplotlib.rcParams["svg.hashsalt"] = "copter"
    cycle().savefig(PICTURE, metadata={"Date": None})


if __name__ == "__main__":
    main()
