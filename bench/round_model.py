"""A model of a warm round: what it takes for a number of columns, requests and places, here or on a network.

With n columns, q requests, c candidates (the columns that steps work on), r steps, P passes over all columns
and k places of w threads each, a round takes

    driver    d0 + d1 q + d2 r c + d3 n
    columns   (e0 A + e1 P n / w) / k
    network   C (l0 + l1 k) + B / b

seconds.  The driver's part is editing, steps, certificate and rounding.  The columns' part are A tasks (calls
times parts) and the passes; a store in this process has one place, no network, and A = P.  C is the number of
round trips and B the bytes that go out and come back; l0 + l1 k is what a round trip to k places takes
whatever is in it, and b the bandwidth.  r c, P and C are those of a program of its kind: they hardly depend
on its size, but for c, which is so many a request, and B, which is so many a request and a column that
changes.

The coefficients d and e are fitted to measured rounds (least squares of relative errors, none negative), l
and b are measured for themselves.
"""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.optimize import nnls


@dataclass(frozen=True)
class Observation:
    """One warm round as it was measured.

    Attributes
    ----------
    columns, requests, rows : int
        Of the program.
    candidates, steps, passes : int
        Columns that the last pass collected, steps of the inner solver, passes.
    tasks, calls, nbytes : int
        Tasks of parts, round trips, and bytes out and back; passes, 0 and 0 of a store in this process.
    driver, far : float
        Seconds of the driver, and of the columns (with a network, that too).
    """

    columns: int
    requests: int
    rows: int
    candidates: int
    steps: int
    passes: int
    tasks: int
    calls: int
    nbytes: int
    driver: float
    far: float

    @property
    def seconds(self) -> float:
        """Of the round."""
        return self.driver + self.far


class Network(NamedTuple):
    """What a round trip takes.

    Attributes
    ----------
    latency, each : float
        Seconds of one without content, and for every place that is asked.
    bandwidth : float
        Bytes a second.
    """

    latency: float
    each: float
    bandwidth: float

    def seconds(self, calls: float, nbytes: float, places: int) -> float:
        """Seconds of some round trips with some content."""
        return calls * (self.latency + self.each * places) + nbytes / self.bandwidth


NO_NETWORK = Network(0.0, 0.0, float("inf"))


@dataclass(frozen=True)
class Places:
    """Where the columns are: so many places, of so many threads each, over a network."""

    places: int
    threads: int
    network: Network = NO_NETWORK


@dataclass(frozen=True)
class RoundModel:
    """Coefficients of the model, and what a round of the kind does.

    Attributes
    ----------
    driver : (4,) seconds a round, a request, a candidate and step, a column
    columns : (2,) seconds a task, and a column and pass of one thread
    nbytes : (3,) bytes a round, a request, a column
    candidates : of a request
    steps, passes, calls : of a round
    tasks : of a round and part
    """

    driver: tuple[float, ...]
    columns: tuple[float, ...]
    nbytes: tuple[float, ...]
    candidates: float
    steps: float
    passes: float
    calls: float
    tasks: float

    @classmethod
    def fit(cls, seen: Sequence[Observation], threads: int, parts: int = 1) -> RoundModel:
        """Fit the coefficients to rounds whose columns are in this process.

        Parameters
        ----------
        seen : sequence of Observation
            Of at least two sizes.
        threads : int
            That shared the passes.
        parts : int
            That they had, one after the other.
        """
        whole = [each.seconds for each in seen]
        driver = _fitted(
            [(1.0, o.requests, o.steps * o.candidates, o.columns) for o in seen],
            [o.driver for o in seen],
            whole,
        )
        columns = _fitted(
            [(o.tasks, o.passes * o.columns / threads) for o in seen], [o.far for o in seen], whole
        )
        sent = [o.nbytes for o in seen]
        nbytes = _fitted([(1.0, o.requests, o.columns) for o in seen], sent, np.maximum(sent, 1))
        rates = (
            statistics.mean(o.candidates / o.requests for o in seen),
            *(statistics.mean(getattr(o, name) for o in seen) for name in ("steps", "passes", "calls")),
            statistics.mean(o.tasks for o in seen) / parts,
        )
        return cls(driver, columns, nbytes, *rates)

    def predict(self, columns: float, requests: float, at: Places, parts: int = 1) -> dict[str, float]:
        """Seconds of a warm round by what they go into, and their sum.

        Parameters
        ----------
        parts : int
            Of the store.

        Returns
        -------
        dict
            ``driver``, ``columns``, ``network`` and ``round``, seconds; ``bytes`` out and back.
        """
        units = 1.0, requests, self.steps * self.candidates * requests, columns
        driver = float(np.dot(self.driver, units))
        tasks, passed = self.tasks * parts, self.passes * columns / at.threads
        far = float(np.dot(self.columns, (tasks, passed))) / at.places
        sent = float(np.dot(self.nbytes, (1.0, requests, columns)))
        network = at.network.seconds(self.calls, sent, at.places)
        return {
            "driver": driver,
            "columns": far,
            "network": network,
            "round": driver + far + network,
            "bytes": sent,
        }

    def checked(self, seen: Sequence[Observation], at: Places, parts: int = 1) -> dict[str, Any]:
        """What the model says of the rounds of one size, beside what was measured: medians.

        Parameters
        ----------
        seen : sequence of Observation
        """
        columns, requests = (statistics.median(getattr(o, name) for o in seen) for name in _SIZES)
        predicted = self.predict(columns, requests, at, parts)
        measured = statistics.median(o.seconds for o in seen)
        return {
            "columns": int(columns),
            "requests": int(requests),
            "rounds": len(seen),
            "places": at.places,
            "measured": measured,
            "measured_driver": statistics.median(o.driver for o in seen),
            "calls": statistics.median(o.calls for o in seen),
            "bytes": statistics.median(o.nbytes for o in seen),
            "predicted": predicted,
            "ratio": predicted["round"] / measured,
        }

    def as_dict(self) -> dict[str, Any]:
        """Return all coefficients."""
        return asdict(self)


_SIZES = "columns", "requests"


def _fitted(units: Sequence[tuple[float, ...]], seconds: ArrayLike, size: ArrayLike) -> tuple[float, ...]:
    """Coefficients, none negative, with the least squares of errors relative to what rounds take."""
    weight: NDArray[np.float64] = 1.0 / np.asarray(size, np.float64)
    matrix = np.asarray(units, np.float64) * weight[:, None]
    scale = np.maximum(abs(matrix).max(axis=0), np.finfo(np.float64).tiny)
    found, _ = nnls(matrix / scale, np.asarray(seconds, np.float64) * weight)
    return tuple((found / scale).tolist())
