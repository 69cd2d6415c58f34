"""Prometheus metrics of rounds, in the OpenMetrics text format.

The module needs the extra ``metrics`` (prometheus_client), which is imported when a :class:`Metrics` is made.
The number of time series is bounded: the caller names the domains, and statuses and reasons are fixed sets.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from copter.errors import ArgumentTypeError
from copter.extras import extra
from copter.solution import Solution

if TYPE_CHECKING:
    from prometheus_client import CollectorRegistry

_SECONDS = (0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0, 30.0, 100.0, 300.0)
"""Upper ends of the histogram buckets of solve times, in seconds."""
_RATIOS = (1e-9, 1e-8, 1e-7, 1e-6, 1e-5, 1e-4, 1e-3, 1e-2, 0.1, 1.0)
"""Upper ends of the histogram buckets of gaps."""


class Metrics:
    """Counters, gauges and histograms of rounds, by domain.

    ======================================= ========= ==================================================
    copter_rounds_total                     counter   rounds by ``domain`` and ``status``
    copter_solve_seconds                    histogram wall-clock time of the solver
    copter_gap                              histogram certified relative gap
    copter_primal_residual                  gauge     relative primal residual of the last round
    copter_churn                            gauge     share of nonzeros that changed in the last round
    copter_cold_starts_total                counter   rounds that began cold, by ``reason``
    copter_highs_fallbacks_total            counter   times that HiGHS finished a stalled working set
    copter_played_rounds_total              counter   rounds of :class:`copter.Rounds` by ``path``, ``late``
    copter_round_seconds                    histogram wall-clock time of these rounds
    ======================================= ========= ==================================================

    Parameters
    ----------
    registry : prometheus_client.CollectorRegistry, optional
        Registry of the metrics; a new one by default. ``prometheus_client.start_http_server`` serves the
        metrics in ``prometheus_client.REGISTRY``.

    Raises
    ------
    MissingExtraError
        If prometheus_client is not installed.

    Examples
    --------
    >>> from copter import ContinualProgram, Metrics, ProximalPoint
    >>> program = ContinualProgram()
    >>> program.add_resource("gpu", upper=8)
    >>> program.add_request("job", costs=[-1.0, -1.8], usage={"gpu": [1, 2]}, total=1)
    >>> metrics = Metrics()
    >>> metrics.observe(ProximalPoint().solve(program), domain="training")
    >>> [line for line in metrics.text().splitlines() if line.startswith("copter_rounds_total")]
    ['copter_rounds_total{domain="training",status="optimal"} 1.0']
    """

    def __init__(self, registry: CollectorRegistry | None = None) -> None:
        with extra("metrics"):
            from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram
        self.registry = CollectorRegistry() if registry is None else registry
        of, at = ["domain"], self.registry
        self._rounds = Counter("copter_rounds", "Rounds by status", ["domain", "status"], registry=at)
        self._seconds = Histogram(
            "copter_solve_seconds", "Seconds of the solver", of, buckets=_SECONDS, registry=at
        )
        self._gap = Histogram("copter_gap", "Certified relative gap", of, buckets=_RATIOS, registry=at)
        self._residual = Gauge(
            "copter_primal_residual", "Relative primal residual of the last round", of, registry=at
        )
        self._churn = Gauge("copter_churn", "Share of nonzeros that changed last round", of, registry=at)
        self._cold = Counter(
            "copter_cold_starts", "Rounds that began cold, by reason", ["domain", "reason"], registry=at
        )
        self._highs_fallbacks = Counter(
            "copter_highs_fallbacks", "Times that HiGHS finished a stalled working set", of, registry=at
        )
        self._played = Counter(
            "copter_played_rounds", "Rounds of a domain", ["domain", "path", "late"], registry=at
        )
        self._whole = Histogram(
            "copter_round_seconds", "Seconds of rounds of a domain", of, buckets=_SECONDS, registry=at
        )

    def observe(self, solution: Solution, *, domain: str = "lp", seconds: float | None = None) -> None:
        """Count a solve.

        Parameters
        ----------
        solution : Solution
            Solution of the round.
        domain : str
            Label of the program. Use few different labels, because each makes new time series.
        seconds : float, optional
            Time to observe in ``copter_solve_seconds``, in seconds. The default is the solver's own time.

        Raises
        ------
        ArgumentTypeError
            If `solution` is not a Solution.
        """
        if not isinstance(solution, Solution):
            why = "must be a Solution that a solver returned"
            raise ArgumentTypeError("observe", "solution", solution, why)
        self._rounds.labels(domain, str(solution.status)).inc()
        self._seconds.labels(domain).observe(solution.timings.solve if seconds is None else seconds)
        # An unknown gap (NaN) is counted in the last bucket.
        self._gap.labels(domain).observe(math.inf if math.isnan(solution.gap) else solution.gap)
        self._residual.labels(domain).set(solution.primal_residual)
        self._churn.labels(domain).set(solution.churn)
        if not solution.warm_started:
            self._cold.labels(domain, str(solution.cold_start or "other")).inc()
        self._highs_fallbacks.labels(domain).inc(solution.details.get("highs_fallbacks", 0.0))

    def observe_round(self, domain: str, path: str, *, late: bool, seconds: float) -> None:
        """Count a round of :class:`copter.Rounds`; :meth:`observe` counts the solve in the round.

        Parameters
        ----------
        domain : str
            As for :meth:`observe`.
        path : "solved" or "fallback"
        late : bool
            Fields of the round's :class:`copter.RoundRecord`.
        seconds : float
            Total time of the round, in seconds.
        """
        self._played.labels(domain, path, str(late).lower()).inc()
        self._whole.labels(domain).observe(seconds)

    def text(self) -> str:
        """Return all metrics of the registry in the OpenMetrics text format."""
        from prometheus_client.openmetrics.exposition import generate_latest

        return generate_latest(self.registry).decode()
