"""When and where jobs that can wait run: a program over the hours to come, whose prices are forecast.

A job with a deadline may wait.  As long as it does it is a request of a program over the hours h of the
cluster's types k, with a column for every configuration c and hour s of its start with which it would be
complete by its deadline:

    minimise    sum_ics P_ics x_ics + B sum_i z_i
    subject to  sum_cs x_ics + z_i = 1                           every job that waits
                sum_ics g_c o_icsh x_ics  <=  F_kh               every type k and hour h
                x, z >= 0

with P_ics the forecast price of the GPUs for as long as the job holds them, and delta more for each hour of
waiting (so that it waits for a reason); o_icsh the share of hour h that it does; F_kh the GPUs of the type
less the fewest that jobs without a deadline are expected to need at that hour of the day, as on earlier days
(expected requests have a share of the program, and are given nothing), and what jobs hold that were let go.
z_i stands for starting at once, whatever it costs and whoever else is there; B is above every price, so that
it is for jobs that have no other way.

The program is kept from hour to hour, and within an hour its requests alone are made anew where somebody
comes.  It is solved by copter's solver, and rounded to one column for each job.  A job whose column starts in
the present hour is handed to Sia, on the type and with no more GPUs than planned.

Prices are known, or forecast as the mean of the same hour on the days before, and as what is now while there
were none; or as what is now for ever, which chooses where a job runs, and never to wait for a price.

Source: thesis section 6.2, which proposes it; the program is copter's own.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import coo_array, csc_array

from copter.errors import CopterError
from copter.problems.cluster.cluster import Cluster, Configuration
from copter.problems.cluster.jobs import Job
from copter.problems.cluster.policy import ClusterState
from copter.problems.cluster.prices import HOUR, Prices
from copter.program.program import ContinualProgram
from copter.shims.choose_one import ChooseOneShim
from copter.solvers.registry import make_solver

Forecast: TypeAlias = Literal["known", "past", "present"]
DAY = 24
WAITING = 1e-3
"""delta, over the price of a job's cheapest plan."""
AT_ONCE = 10.0
"""B, over the price of the dearest plan of all."""
MOST_HOURS = 7 * DAY
"""A job waits no longer, whatever its deadline."""


class PriceError(CopterError, ValueError):
    """A type of the cluster has no price."""


class HoursAhead:
    """What is expected of the hours to come, from those that have been.

    Parameters
    ----------
    forecast : {"known", "past", "present"}
        Where prices to come are from.
    """

    def __init__(self, prices: Prices, forecast: Forecast) -> None:
        self._prices, self._forecast, self.types = prices, forecast, tuple(prices.table)
        self._seen: dict[str, list[float]] = {type: [] for type in prices.table}
        self._present = np.zeros(DAY)
        self._rounds = np.zeros(DAY)

    def check(self, cluster: Cluster) -> None:
        """Raise if a type has no price."""
        unknown = [type for type in cluster.names if type not in self.types]
        if unknown:
            raise PriceError(f"prices: none of {unknown[0]!r}; only of {', '.join(self.types)}")

    def see(self, now: ClusterState, ordinary: Iterable[Job]) -> None:
        """Take in a round.

        Parameters
        ----------
        ordinary : iterable of Job
            Jobs that cannot wait.
        """
        hour = int(now.time // HOUR)
        for type, seen in self._seen.items():
            next = self._prices.first + len(seen)
            seen += self._prices.of_hours(type, next, max(hour + 1 - next, 0)).tolist()
        self._present[hour % DAY] += sum(job.gpus or job.submission.min_gpus or 1 for job in ordinary)
        self._rounds[hour % DAY] += 1

    def prices(self, type: str, first: int, count: int) -> NDArray[np.float64]:
        """Prices of some hours from the present one on."""
        if self._forecast == "known":
            return self._prices.of_hours(type, first, count)
        seen = np.array(self._seen[type])
        expected = np.full(count, seen[-1])
        for ahead in range(1, count if self._forecast == "past" else 1):
            same = seen[(first + ahead - self._prices.first) % DAY :: DAY]
            if same.size:
                expected[ahead] = same.mean()
        return expected

    def free(self, cluster: Cluster, type: str, hour: int) -> float:
        """GPUs of a type that are free of jobs that cannot wait, of any types in proportion."""
        at = hour % DAY
        gpus = self._present[at] / self._rounds[at] if self._rounds[at] else 0.0
        return cluster.capacity[type] * max(1.0 - gpus / max(cluster.gpus, 1), 0.0)


class Plan:
    """Jobs that wait, and when and where each of them is to start.

    Attributes
    ----------
    started : dict of str to Configuration or None
        What jobs that may run now were planned to have; None where any will do.
    """

    def __init__(self, prices: Prices, forecast: Forecast) -> None:
        self.ahead = HoursAhead(prices, forecast)
        self.started: dict[str, Configuration | None] = {}
        self.waiting: dict[str, Job] = {}
        self._program = ContinualProgram()
        self._solver, self._shim = make_solver("copter", tolerance=1e-5), ChooseOneShim()
        self._columns: dict[str, list[tuple[Configuration, int]]] = {}
        self._ends: dict[str, float] = {}
        self._hours: _Hours | None = None

    def update(self, now: ClusterState) -> list[Job]:
        """Take in a round; returns the jobs that are to start now."""
        for job in now.left:
            self.started.pop(job.name, None)
            self._ends.pop(job.name, None)
            self._drop(job.name)
        new = {job.name: job for job in now.arrived if job.submission.deadline is not None}
        self.waiting |= new
        self.ahead.check(now.cluster)
        self.ahead.see(now, [job for name, job in now.jobs.items() if not self._is_planned(name)])
        if not self.waiting:
            return []
        hours = self._hours if self._hours is not None and self._hours.hold(now, new.values()) else None
        if hours is not None and not new:
            return []
        self._program.remove_requests(list(self._columns))
        self._columns = {}
        if hours is None:
            hours = self._hours = self._begin(now)
        free = [self._free(now, type, hours) for type in now.cluster.names]
        self._program.update_resources(hours.resources, upper=np.concatenate(free))
        self._requests(now, hours)
        return self._plan(now, hours.first)

    def _is_planned(self, name: str) -> bool:
        return name in self.waiting or name in self.started

    def _plan(self, now: ClusterState, hour: int) -> list[Job]:
        solution = self._solver.solve(self._program)
        choice = self._shim.round(self._program, solution).choice
        ready = []
        for name, job in list(self.waiting.items()):
            picked, columns = choice[name], self._columns[name]
            planned, start = columns[picked] if picked is not None and picked < len(columns) else (None, hour)
            if start == hour:
                self.started[name] = planned
                if planned is not None:
                    self._ends[name] = now.time + _seconds(job, planned)
                self._drop(name)
                ready.append(job)
        if self.waiting:
            now.wake((hour + 1) * HOUR)
        return ready

    def _drop(self, name: str) -> None:
        if self.waiting.pop(name, None) is not None and name in self._columns:
            self._program.remove_request(name)
            del self._columns[name]

    def _begin(self, now: ClusterState) -> _Hours:
        """Have a resource for each type and hour from now to the last deadline; there are no requests."""
        cluster, hour = now.cluster, int(now.time // HOUR)
        latest = max(_deadline_hour(job) for job in self.waiting.values())
        last = max(min(latest, hour + MOST_HOURS), hour + 1)
        wanted = [(type, each) for type in cluster.names for each in range(hour, last)]
        there, needed = dict.fromkeys(self._program.resource_ids), dict.fromkeys(wanted)
        self._program.remove_resources([key for key in there if key not in needed])
        self._program.add_resources([key for key in wanted if key not in there])
        at = {key: row for row, key in enumerate(self._program.resource_ids)}
        return _Hours(
            hour,
            last,
            dict(cluster.capacity),
            {type: self.ahead.prices(type, hour, last - hour) for type in cluster.names},
            {type: np.array([at[type, each] for each in range(hour, last)]) for type in cluster.names},
            wanted,
        )

    def _free(self, now: ClusterState, type: str, hours: _Hours) -> NDArray[np.float64]:
        """GPUs of a type that are expected to be free in each hour.

        A job that was let go holds what it has, or was planned to have, until it should be complete, and in
        any case for the present hour.
        """
        first, last = hours.first, hours.last
        free = np.array([self.ahead.free(now.cluster, type, each) for each in range(first, last)])
        for name, planned in self.started.items():
            held = now.jobs[name].allocation or planned
            if held is not None and held.type == type:
                share = _shares(now.time, max(self._ends.get(name, 0.0), (first + 1) * HOUR), last)
                free[: share.size] -= held.gpus * share
        return np.maximum(free, 0.0)

    def _requests(self, now: ClusterState, hours: _Hours) -> None:
        """Add the jobs that wait, with the columns that they have from now on."""
        priced = {name: self._request(job, now, hours) for name, job in self.waiting.items()}
        dearest = max((float(costs.max(initial=0.0)) for costs, _ in priced.values()), default=0.0)
        at_once = max(AT_ONCE * dearest, 1e-9)
        for name, (costs, usage) in priced.items():
            self._program.add_request(name, np.append(costs, at_once), usage, total=1.0, relation="==")

    def _request(
        self, job: Job, now: ClusterState, hours: _Hours
    ) -> tuple[NDArray[np.float64], csc_array[Any, Any]]:
        """Costs of a job's columns, and what they use; the last one uses nothing."""
        submission, first = job.submission, hours.first
        assert submission.deadline is not None
        least, most = submission.min_gpus or 1, submission.max_gpus or now.cluster.gpus
        if job.gpus is not None:
            least = most = job.gpus
        columns: list[tuple[Configuration, int]] = []
        costs = [np.zeros(0)]
        entries = [(np.zeros(0, np.int64), np.zeros(0, np.int64), np.zeros(0))]
        for configuration in now.cluster.configurations:
            if not least <= configuration.gpus <= most:
                continue
            seconds = _seconds(job, configuration)
            latest = min(submission.deadline, hours.last * HOUR) - seconds
            if not latest >= now.time:
                continue
            rows, prices = hours.rows[configuration.type], hours.prices[configuration.type]
            # one that starts now, and those that start with an hour: their shares are the same, an hour apart
            begun = configuration.gpus * _shares(now.time, now.time + seconds, hours.last)
            whole = configuration.gpus * _shares(0.0, seconds, hours.last - first)
            # of a job that takes a whole number of hours but for rounding, the last start may be one too late
            later = min(math.floor(latest / HOUR) - first, hours.last - first - whole.size)
            starts = np.arange(1, later + 1)
            held = starts[:, None] + np.arange(whole.size)
            column = len(columns) + np.append(np.zeros(begun.size, np.int64), np.repeat(starts, whole.size))
            row = np.append(rows[: begun.size], rows[held])
            entries.append((row, column, np.append(begun, np.tile(whole, starts.size))))
            costs.append(np.append(prices[: begun.size] @ begun, prices[held] @ whole))
            columns += [
                (configuration, first),
                *((configuration, first + start) for start in starts.tolist()),
            ]
        waits = np.array([start - first for _, start in columns], np.float64)
        price = np.concatenate(costs)
        priced = price + WAITING * max(price.min() if price.size else 0.0, 1e-9) * waits
        at, column, share = (np.concatenate(parts) for parts in zip(*entries, strict=True))
        self._columns[job.name] = columns
        return priced, coo_array((share, (at, column)), (len(hours.resources), len(columns) + 1)).tocsc()


def _deadline_hour(job: Job) -> int:
    """The hour after which a job is late."""
    return math.ceil((job.submission.deadline or 0.0) / HOUR)


@dataclass(frozen=True)
class _Hours:
    """The hours of a program.

    Attributes
    ----------
    first, last : int
        The present one, and the one after the last.
    capacity : dict of str to int
        GPUs of each type of the cluster.
    prices : dict of str to (last - first,) array
        Forecasts.
    rows : dict of str to (last - first,) int array
        Positions of the resources of each type.
    resources : list of (str, int)
        All of them: types and hours.
    """

    first: int
    last: int
    capacity: dict[str, int]
    prices: dict[str, NDArray[np.float64]]
    rows: dict[str, NDArray[np.int64]]
    resources: list[tuple[str, int]]

    def hold(self, now: ClusterState, new: Iterable[Job]) -> bool:
        """Whether they are still those to plan for, with some new jobs too."""
        latest = min(max(map(_deadline_hour, new), default=0), self.first + MOST_HOURS)
        same = self.first == int(now.time // HOUR) and self.capacity == dict(now.cluster.capacity)
        return same and latest <= self.last


def _seconds(job: Job, configuration: Configuration) -> float:
    """Of running to the end; infinite where it cannot."""
    return float(job.seen.clock(configuration)[-1]) + job.seen.restart_seconds


def _shares(begin: float, end: float, last: int) -> NDArray[np.float64]:
    """Share of each hour, from that of the first time on, that lies between two times."""
    first = int(begin // HOUR)
    edges = np.arange(first, min(math.ceil(end / HOUR), last) + 1) * HOUR
    return np.diff(np.clip(edges, begin, end)) / HOUR
