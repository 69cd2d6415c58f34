"""Reports to the service, and the service's orders, in a thread of a run's first process.

The training loop only leaves notes here and reads orders, so it never waits for the network.  Step times are
removed from the notes when a report with them has been answered; the times in a lost report are also in the
next report.  The lease runs from the time at which the last answered report was sent.  So the lease ends in
this process before it ends for the service.
"""

from __future__ import annotations

import json
import math
import sys
import threading
import time
from collections.abc import Callable
from contextlib import closing
from dataclasses import asdict, replace
from urllib.parse import urlsplit

from copter.live.training.plan import Batch, Orders, StepTimes, TrainingPlan, TrainingReport

_POST_SECONDS = 3.0
"""Seconds after which a request is given up."""
_NO_RIGHT = (403, 404, 409, 410)
"""HTTP status codes that mean that the run has ended."""


class Reporter:
    """Sender of a run's reports; `stop` is true if the service has ordered the run to end."""

    def __init__(
        self, plan: TrainingPlan, report: TrainingReport, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._plan, self._report, self._clock = plan, report, clock
        self._times: dict[int, tuple[int, float]] = {}
        self._batch: Batch | None = None
        self._lease_ends = clock() + plan.lease_seconds
        self._lock, self._closing = threading.Lock(), threading.Event()
        self._heard = True
        self.stop = self._refused = False
        self._thread = threading.Thread(target=self._run, name="reports", daemon=True)

    def start(self) -> None:
        """Start the thread that posts reports."""
        self._thread.start()

    def note(self, report: TrainingReport, local_batch: int, seconds: float | None) -> None:
        """Record the report after a step, and the seconds of its last pass; None leaves the time out."""
        with self._lock:
            self._report = report
            if seconds is not None:
                self._add(local_batch, 1, math.log(seconds))

    def lease_over(self) -> bool:
        """Return whether the lease has ended without a response of the service."""
        with self._lock:
            return self._clock() >= self._lease_ends

    def ordered_batch(self) -> Batch | None:
        """Return the batch that the service ordered since the last call, or None."""
        with self._lock:
            batch, self._batch = self._batch, None
        return batch

    def close(self) -> None:
        """Post a last report, and end the thread."""
        self._closing.set()
        self._thread.join(3 * _POST_SECONDS)

    def post(self) -> None:
        """Post a report and read the response; if the request fails, the next report includes its times."""
        began = self._clock()
        with self._lock:
            sent, self._times = self._times, {}
            times = tuple(StepTimes(b, count, logs / count) for b, (count, logs) in sorted(sent.items()))
            report = replace(self._report, times=times)
        try:
            orders = self._ask(report)
        except (OSError, ValueError, TypeError, KeyError) as error:
            with self._lock:
                for local_batch, (count, logs) in sent.items():
                    self._add(local_batch, count, logs)
            self._say(error)
            return
        self._say(None)
        with self._lock:
            self.stop = self.stop or orders.stop
            self._batch = orders.batch or self._batch
            self._lease_ends = began + orders.lease_seconds

    def _run(self) -> None:
        while not self._closing.wait(self._plan.report_seconds):
            self.post()
        if not self._refused:
            self.post()

    def _ask(self, report: TrainingReport) -> Orders:
        # Import the HTTP client here: only the first process of a run posts, so no other needs to load it.
        from http.client import HTTPConnection, HTTPException, HTTPSConnection

        url, secure = urlsplit(self._plan.url), self._plan.url.startswith("https:")
        headers = {"Authorization": f"Bearer {self._plan.token}", "Content-Type": "application/json"}
        body = json.dumps(asdict(report), allow_nan=False).encode()
        connect = HTTPSConnection if secure else HTTPConnection
        try:  # no redirect is followed: another host must not get the token
            with closing(connect(url.netloc, timeout=_POST_SECONDS)) as connection:
                connection.request("POST", url.path, body, headers)
                answer = connection.getresponse()
                if answer.status == 200:
                    return Orders.from_dict(json.loads(answer.read()))
        except HTTPException as error:
            raise OSError(f"{type(error).__name__}: {error}") from error
        if answer.status not in _NO_RIGHT:
            raise OSError(f"HTTP status {answer.status}: {answer.reason}")
        self._refused = True
        return Orders(self._plan.lease_seconds, stop=True)

    def _add(self, local_batch: int, count: int, logs: float) -> None:
        """Add the times of steps; the caller holds the lock."""
        had = self._times.get(local_batch, (0, 0.0))
        self._times[local_batch] = had[0] + count, had[1] + logs

    def _say(self, error: Exception | None) -> None:
        """Print to the job's log when reports begin to fail, and when they succeed again."""
        if self._heard == (error is None):
            return
        self._heard = error is None
        what = "succeed again" if error is None else f"fail: {error}"
        print(f"copter: reports {what}", file=sys.stderr, flush=True)
