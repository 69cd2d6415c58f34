"""Figures of every round for a monitoring system, as Prometheus metrics in the OpenMetrics text format.

    metrics = Metrics()
    ...
    metrics.observe(solution, domain="sia")     # after every round
    metrics.text()                              # what a scrape returns

Needs the extra ``metrics`` (prometheus_client), imported when a :class:`Metrics` is made.
Labels are bounded whatever happens: a domain is named by the caller, statuses and reasons are closed sets.
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
"""Upper ends of the buckets of solve times."""
_RATIOS = (1e-9, 1e-8, 1e-7, 1e-6, 1e-5, 1e-4, 1e-3, 1e-2, 0.1, 1.0)
"""The same of gaps."""


class Metrics:
    """Counters and histograms of rounds, by domain.

    ======================================= ========= ==================================================
    copter_rounds_total                     counter   rounds by ``domain`` and ``status``
    copter_solve_seconds                    histogram wall-clock time of the solver
    copter_gap                              histogram certified relative gap
    copter_primal_residual                  gauge     of the last round, relative
    copter_churn                            gauge     share of nonzeros that changed, of the last round
    copter_cold_starts_total                counter   rounds that began cold, by ``reason``
    copter_hand_overs_total                 counter   times that HiGHS finished a stalled working set
    copter_played_rounds_total              counter   rounds of :class:`copter.Rounds` by ``path``, ``late``
    copter_round_seconds                    histogram wall-clock time of these rounds
    ======================================= ========= ==================================================

    Parameters
    ----------
    registry : prometheus_client.CollectorRegistry, optional
        Where the metrics are kept; a new one by default.  With ``prometheus_client.REGISTRY`` they are part
        of what ``prometheus_client.start_http_server`` serves.

    Raises
    ------
    MissingExtraError
        prometheus_client is not installed.
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
        self._hand_overs = Counter(
            "copter_hand_overs", "Times that HiGHS finished a stalled working set", of, registry=at
        )
        self._played = Counter(
            "copter_played_rounds", "Rounds of a domain", ["domain", "path", "late"], registry=at
        )
        self._whole = Histogram(
            "copter_round_seconds", "Seconds of rounds of a domain", of, buckets=_SECONDS, registry=at
        )

    def observe(self, solution: Solution, *, domain: str = "lp", seconds: float | None = None) -> None:
        """Count a round.

        Parameters
        ----------
        domain : str
            Which program it is of; few different ones, as each is a time series.
        seconds : float, optional
            Of the round, if more than the solver's own time is wanted.
        """
        if not isinstance(solution, Solution):
            why = "must be a Solution, as a solver returns it"
            raise ArgumentTypeError("observe", "solution", solution, why)
        self._rounds.labels(domain, str(solution.status)).inc()
        self._seconds.labels(domain).observe(solution.timings.solve if seconds is None else seconds)
        # A gap that nobody knows is in the last bucket, not in none.
        self._gap.labels(domain).observe(math.inf if math.isnan(solution.gap) else solution.gap)
        self._residual.labels(domain).set(solution.primal_residual)
        self._churn.labels(domain).set(solution.churn)
        if not solution.warm_started:
            self._cold.labels(domain, str(solution.cold_start or "other")).inc()
        self._hand_overs.labels(domain).inc(solution.details.get("hand_overs", 0.0))

    def observe_round(self, domain: str, path: str, *, late: bool, seconds: float) -> None:
        """Count a round of :class:`copter.Rounds`; the solve in it is counted by :meth:`observe`.

        Parameters
        ----------
        domain : str
            As for :meth:`observe`.
        path, late, seconds
            The fields of the round's :class:`copter.RoundRecord`; ``seconds`` is their total.
        """
        self._played.labels(domain, path, str(late).lower()).inc()
        self._whole.labels(domain).observe(seconds)

    def text(self) -> str:
        """All of the registry in the OpenMetrics text format."""
        from prometheus_client.openmetrics.exposition import generate_latest

        return generate_latest(self.registry).decode()
