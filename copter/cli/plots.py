"""Pictures for the pages of all runs, drawn without pyplot and so without a display or global state."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

from copter.bench.report.model import Picture
from copter.bench.report.pictures import as_svg, themed

_SIZE = 7.5, 3.8


def over_time(
    name: str,
    across: ArrayLike | Mapping[str, ArrayLike],
    series: Mapping[str, ArrayLike],
    label: str,
    caption: str,
    *,
    logarithmic: bool = False,
    axis: str = "simulated time (hours)",
) -> Picture:
    """Return a picture with a line for each series over simulated time, or over another horizontal axis.

    Parameters
    ----------
    name : str
        Name of the picture on its page.
    across : array-like, shape (n,), or mapping of str to array-like
        Horizontal positions for all lines, or by the name of the line; in hours unless `axis` is given.
    series : mapping of str to array-like, shape (n,)
        Vertical positions, by the name of the line.
    label, caption : str
        Label of the vertical axis, and caption of the picture.
    logarithmic : bool
        True for a logarithmic vertical axis.
    axis : str
        Label of the horizontal axis.
    """
    figure, axes = themed(*_SIZE)
    axes.set(xlabel=axis, ylabel=label, yscale="log" if logarithmic else "linear")
    for each, values in series.items():
        places = across[each] if isinstance(across, Mapping) else across
        axes.plot(places, values, linewidth=1.0, label=each)
    if len(series) > 1:
        axes.legend(loc="upper left", bbox_to_anchor=(1.0, 1.0), fontsize="small", frameon=False)
    return Picture(name, caption, as_svg(figure, caption))


def round_times(across: ArrayLike, of: Callable[[str], NDArray[np.float64]]) -> Picture:
    """Return a picture of the milliseconds of edit, solve and rounding in each round.

    Parameters
    ----------
    across : array-like, shape (n,)
        Numbers of the rounds.
    of : callable
        Function that returns the values of a field of the rounds, shape (n,), given the field's name.
    """
    # a logarithmic axis has no place for a time of 0
    times = {part: 1e3 * np.maximum(of(f"{part}_seconds"), 1e-9) for part in ("edit", "solve", "rounding")}
    return over_time("time", across, times, "time (ms)", "Time of each round", logarithmic=True, axis="round")


def cumulative(name: str, samples: Mapping[str, Sequence[float]], label: str, caption: str) -> Picture:
    """Return a picture of the cumulative distribution of each set of samples, on a logarithmic axis.

    Parameters
    ----------
    name, caption : str
        Name and caption of the picture.
    samples : mapping of str to sequence of float
        Samples, by the name of the line.
    label : str
        Label of the horizontal axis.
    """
    figure, axes = themed(*_SIZE)
    axes.set(xlabel=label, ylabel="fraction", ylim=(0.0, 1.02))
    shown = {each: np.sort(np.asarray(values, float)) for each, values in samples.items() if len(values)}
    for each, ordered in shown.items():
        shares = np.arange(1, ordered.size + 1) / ordered.size
        axes.step(ordered, shares, where="post", label=f"{each} ({ordered.size})")
    if shown:
        axes.set_xscale("log")
        axes.legend(loc="lower right", fontsize="small", frameon=False)
    return Picture(name, caption, as_svg(figure, caption))
