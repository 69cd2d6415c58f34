"""Plots for the run folders of all domains; without pyplot, so without a display or global state."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

from copter.bench.report.pictures import blank
from copter.extras import extra

with extra("cli"):
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


def over_time(
    hours: ArrayLike,
    series: Mapping[str, ArrayLike],
    label: str,
    title: str,
    *,
    logarithmic: bool = False,
    limits: tuple[float, float] | None = None,
    axis: str = "simulated time (hours)",
) -> Figure:
    """Return a plot with one line per series over simulated time, or over another horizontal axis.

    Parameters
    ----------
    hours : array-like, shape (n,)
        Horizontal positions, in hours unless `axis` says otherwise.
    series : mapping of str to array-like, shape (n,)
        Vertical positions by the name of the line.
    label, title : str
        Label of the vertical axis, title of the plot.
    logarithmic : bool
        True for a logarithmic vertical axis.
    limits : (float, float), optional
        Ends of the vertical axis.
    axis : str
        Label of the horizontal axis.
    """
    figure, axes = _figure(title, axis, label)
    for name, values in series.items():
        axes.plot(hours, values, linewidth=1.0, label=name)
    if logarithmic:
        axes.set_yscale("log")
    if limits:
        axes.set_ylim(*limits)
    if len(series) > 1:
        axes.legend(loc="upper left", bbox_to_anchor=(1.0, 1.0), fontsize="small", frameon=False)
    return figure


def round_times(
    hours: ArrayLike, of: Callable[[str], NDArray[np.float64]], *, axis: str = "simulated time (hours)"
) -> Figure:
    """Return a plot of the milliseconds of edit, solve and rounding in each round.

    Parameters
    ----------
    hours : array-like, shape (rounds,)
        Horizontal position of each round.
    of : callable
        Function that returns the seconds (rounds,) of ``edit_seconds``, ``solve_seconds`` and
        ``rounding_seconds``.
    axis : str
        Label of the horizontal axis.
    """
    # a logarithmic axis has no place for a time of 0
    times = {part: 1e3 * np.maximum(of(f"{part}_seconds"), 1e-9) for part in ("edit", "solve", "rounding")}
    return over_time(hours, times, "time (ms)", "Time of each round", logarithmic=True, axis=axis)


def cumulative(samples: Mapping[str, Sequence[float]], label: str, title: str) -> Figure:
    """Return a plot of the cumulative distribution of each set of samples, on a logarithmic axis.

    Parameters
    ----------
    samples : mapping of str to sequence of float
        Samples by the name of the set. The plot omits empty sets.
    label, title : str
        Label of the horizontal axis, title of the plot.
    """
    figure, axes = _figure(title, label, "fraction")
    drawn = False
    for name, values in samples.items():
        ordered = np.sort(np.asarray(values, float))
        if ordered.size:
            axes.step(
                ordered,
                np.arange(1, ordered.size + 1) / ordered.size,
                where="post",
                label=f"{name} ({ordered.size})",
            )
            drawn = True
    if drawn:
        axes.set_xscale("log")
        axes.legend(loc="lower right", fontsize="small", frameon=False)
    axes.set_ylim(0.0, 1.02)
    return figure


def _figure(title: str, horizontal: str, vertical: str) -> tuple[Figure, Axes]:
    figure, axes = blank(7.5, 3.8)
    axes.set_title(title, loc="left")
    axes.set_xlabel(horizontal)
    axes.set_ylabel(vertical)
    return figure, axes
