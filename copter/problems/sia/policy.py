"""The Sia policy as a continual program: events of a cluster become edits, once in each round.

Every job is one request with ``sum(x) == 1``.  Its column 0 is "no allocation", which uses nothing and costs
lambda.  Each other column is a configuration that can run the job.  It takes its GPUs from the resource of
its GPU type.

Costs are those of :mod:`copter.problems.sia.columns`.  A request has the array of costs of its application
and level, the restart factor as its scale, and two overrides to which the factor does not apply: "no
allocation" and the current configuration.  So a round in which jobs only age is one bulk update, whatever the
number of columns.

A job may choose from these configurations in a round:

- adaptive and strong-scaling jobs: configurations of at most ``scale_up_limit`` times the GPUs that they
  have, and always the smallest configuration of each type, with which a job starts (thesis section 3.3.1);
  without a limit, all configurations that can run them;
- rigid jobs: configurations of their GPU count;
- jobs during a restart, and running jobs that must not be preempted: their current configuration only
  (pinned);
- reserved jobs: the same configurations, without "no allocation".

If nodes of pinned jobs go away, jobs in a restart are no longer pinned (they are *released*), beginning with
the job whose restart ends last. If the non-preemptible jobs of a type alone hold more GPUs than the type has,
or if the round is infeasible, the policy raises an error.

Source: Sia, thesis sections 3.3.4 and 4.4.1.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Hashable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from copter.arrays import Floats, Ints
from copter.problems.cluster.cluster import Cluster, Configuration
from copter.problems.cluster.profiles.base import Profile
from copter.problems.cluster.profiles.tables import ReplicaProfile
from copter.problems.sia.columns import Objective, RowCache, Sources
from copter.problems.sia.interface import InfeasibleRoundError, JobShim, SiaError, SiaJob, SiaRound
from copter.problems.sia.jobs import FREE, NONE, PINNED, REQUIRED, JobTable, limits, losers, modes
from copter.problems.sia.requests import JobRequests, Pick
from copter.program.program import ContinualProgram
from copter.rounds.events import EventDomain, event
from copter.rounds.record import Move, binding_of
from copter.shims.choose_one import Choice, ChooseOneShim, Rounded

if TYPE_CHECKING:
    from copter.solution import Solution

_LEVELS = 1 << 32


class SiaPolicy(EventDomain):
    """Sia's choice of configurations, kept up to date by events: a domain of :class:`copter.Rounds`.

    Parameters
    ----------
    cluster : Cluster
        Cluster at the start; the policy makes a copy.
    p, lam : float
        Fairness exponent, and cost of leaving a job without GPUs, see
        :class:`~copter.problems.sia.columns.Objective`.
    scale_up_limit : float, optional
        Largest factor by which a job's GPUs may grow in a round; None for any configuration, as in the
        thesis' program.
    program : ContinualProgram, optional
        Empty program to edit, for example a program that records its edits.
    shim : JobShim, optional
        Default: :class:`copter.shims.choose_one.ChooseOneShim`.

    Examples
    --------
    >>> from copter.problems.cluster.cluster import Cluster, Configuration, GpuType
    >>> from copter.problems.cluster.profiles.tables import ReplicaProfile
    >>> from copter import make_solver
    >>> policy = SiaPolicy(Cluster([GpuType("T4", gpus_per_node=4, nodes=2)]))
    >>> profile = ReplicaProfile("inference", 60.0, 1e6, {"T4": (1, 400.0)})
    >>> policy.submit(SiaJob("a", profile, submitted=0.0))
    >>> policy.play(make_solver("copter"), ("at", 60.0)).allocation
    {'a': Configuration(nodes=1, gpus=1, type='T4')}
    """

    def __init__(
        self,
        cluster: Cluster,
        *,
        p: float = -0.5,
        lam: float = 1.1,
        scale_up_limit: float | None = 2.0,
        program: ContinualProgram | None = None,
        shim: JobShim | None = None,
    ) -> None:
        if scale_up_limit is not None and not scale_up_limit >= 1:
            raise ValueError(f"scale_up_limit = {scale_up_limit}: must be at least 1, or None")
        self.cluster = cluster.copy()
        self.objective = Objective(p, lam)
        self.scale_up_limit = scale_up_limit
        self.program = ContinualProgram() if program is None else program
        self._shim = ChooseOneShim(unplaced="allow") if shim is None else shim  # _picked checks unplaced jobs
        for limit in self.cluster.limits:
            self.program.add_resource(limit.name, upper=limit.capacity)
        self._rows = RowCache(self.cluster.configurations, self.objective)
        self._table = JobTable()
        self._requests = JobRequests(self.program, self._table)
        self._sources = Sources()
        self._slots: dict[Hashable, int] = {}
        self._ids: dict[int, Hashable] = {}
        self._arrived: list[int] = []
        self._left: list[Hashable] = []
        self._nodes: dict[str, int] = {}
        self._released: list[Hashable] = []
        self._fresh: set[Hashable] = set()
        self.now = 0.0

    # ---- jobs ------------------------------------------------------------------------------------

    def __len__(self) -> int:
        return len(self._slots)

    def __contains__(self, job: Hashable) -> bool:
        return job in self._slots

    @property
    def allocation(self) -> dict[Hashable, Configuration | None]:
        """Current configuration of every job."""
        return dict(zip(self._slots, self._named(self._table.current[self._order()]), strict=True))

    def configurations_of(self, job: Hashable) -> list[Configuration | None]:
        """Return the configuration of each column of a job's request; None for "no allocation"."""
        return self._named(self._requests.choices(self._slot(job)).columns)

    # ---- events ----------------------------------------------------------------------------------

    @event
    def submit(self, job: SiaJob) -> None:
        """Add a job that arrived.

        Raises
        ------
        SiaError
            If there is a job with this id, or `gpus` does not fit `kind`.
        """
        if job.id in self._slots:
            raise SiaError(f"job {job.id!r} exists already")
        if (job.kind == "rigid") != (job.gpus is not None):
            raise SiaError(f"job {job.id!r}: gpus = {job.gpus}: must be given for rigid jobs and no others")
        table, slot = self._table, self._table.add()
        self._slots[job.id], self._ids[slot] = slot, job.id
        least, most = (job.min_gpus, job.max_gpus) if job.gpus is None else (job.gpus, job.gpus)
        self._set_source(slot, self._sources.take(job.profile, job.kind, least or 1, most))
        table.submitted[slot], table.penalty[slot] = job.submitted, self.objective.lam
        table.preemptible[slot], table.reserved[slot] = job.preemptible, job.reserved
        self._arrived.append(slot)

    @event
    def complete(self, job: Hashable) -> None:
        """Remove a job that is complete or was withdrawn."""
        slot = self._slot(job)
        self._fresh.discard(job)
        del self._slots[job], self._ids[slot]
        if slot in self._arrived:
            self._arrived.remove(slot)
        else:
            self._left.append(job)
            self._requests.drop(slot)
        self._sources.release(int(self._table.source[slot]))
        self._table.remove(slot)

    @event
    def update(
        self, job: Hashable, *, level: int | None = None, restarting_until: float | None = None
    ) -> None:
        """Set the level that a job has reached, or the time in seconds until which it restarts."""
        slot = self._slot(job)
        if level is not None:
            self.update_levels([job], [level])
        if restarting_until is not None:
            self._table.restart_until[slot] = restarting_until

    @event
    def update_levels(self, jobs: Sequence[Hashable], levels: Sequence[int] | Ints) -> None:
        """Set the levels that many jobs have reached, in the profiles that the policy uses for the jobs.

        At a fixed batch size, some profiles have one level only.
        """
        slots = np.array([self._slot(job) for job in jobs], np.int64)
        values = np.asarray(levels, np.int64)
        wrong = (values < 0) | (values >= self._table.levels[slots])
        if wrong.any():
            at = int(wrong.argmax())
            raise SiaError(f"job {jobs[at]!r}: level = {values[at]}: must be a level of its profile")
        self._table.level[slots] = values

    @event
    def update_profile(self, job: Hashable, profile: Profile) -> None:
        """Set a new profile of a job; the job keeps its level, or gets the last one if the profile has fewer.

        Parameters
        ----------
        job : hashable
            Id of the job.
        profile : Profile
            New profile; at the job's fixed batch size if the job is not adaptive.
        """
        slot = self._slot(job)
        old = int(self._table.source[slot])
        limits = self._sources[old].least, self._sources[old].most
        self._set_source(slot, self._sources.take(profile, "adaptive", *limits))
        self._sources.release(old)

    @event
    def update_penalties(self, jobs: Sequence[Hashable], penalties: Floats) -> None:
        """Set the costs of leaving some jobs without GPUs; they replace lambda.

        Parameters
        ----------
        jobs : sequence of job ids
            The jobs.
        penalties : (n,) array
            Cost of each job, finite and not negative.
        """
        if not (np.isfinite(penalties).all() and (penalties >= 0).all()):
            raise SiaError(f"penalties = {penalties}: must be finite and not negative")
        self._table.penalty[[self._slot(job) for job in jobs]] = penalties

    @event
    def report(
        self, job: Hashable, configuration: Configuration | None, restarts: int, restarting_until: float
    ) -> None:
        """Set a job's actual configuration; call this after a change that no round of the policy made.

        Parameters
        ----------
        configuration : Configuration or None
            Actual configuration.
        restarts : int
            Changes of configuration so far.
        restarting_until : float
            Time in seconds until which the job restarts; in the past if it runs.
        """
        slot, table = self._slot(job), self._table
        held = NONE if configuration is None else self.cluster.configurations.get(configuration)
        table.current[slot], table.restarts[slot] = held, restarts
        table.restart_until[slot] = restarting_until

    @event
    def set_nodes(self, type: str, nodes: int) -> None:
        """Set the number of nodes of a GPU type from the next round on."""
        if type not in self.cluster.names:
            raise SiaError(f"unknown GPU type {type!r}: must be one of {list(self.cluster.names)}")
        if nodes < 0:
            raise SiaError(f"GPU type {type!r}: nodes = {nodes}: must not be negative")
        self._nodes[type] = nodes

    @event
    def at(self, seconds: float) -> None:
        """Set the time of the next round in seconds, on the clock of :attr:`SiaJob.submitted`."""
        if not seconds >= self.now:
            raise SiaError(f"at = {seconds}: must be at least {self.now:g}")
        self.now = float(seconds)

    # ---- a round ---------------------------------------------------------------------------------

    def round(self, solution: Solution) -> SiaRound:
        """Return the configurations for a solution of the program; the policy does not change.

        Raises
        ------
        InfeasibleRoundError
            If jobs that must have GPUs do not fit.
        NoAllocationError
            If the solution has no allocation.
        """
        if solution.status == "infeasible":
            why = f"{solution.status}: {solution.reason}"
            raise InfeasibleRoundError(f"no allocation at {self.now:g} s: {why}")
        rounded = self.shim.round(self.program, solution)
        return self._decided(self._picked(rounded.choice), solution, rounded)

    def fallback(self) -> SiaRound:
        """Return a missed round, in which jobs keep configurations whose nodes exist; change nothing."""
        table, slots = self._table, self._order()
        picked = table.current[slots].copy()
        picked[np.isin(slots, losers(table, slots.tolist(), self.cluster))] = NONE
        return self._decided(picked, None, None)

    def accept(self, decided: SiaRound) -> None:
        """Set the configurations of a round; jobs with a new configuration restart."""
        table, (slots, picked) = self._table, decided.taken
        table.current[slots] = picked
        begun = slots[picked >= 0]
        table.restarts[begun] += table.started[begun]
        table.started[begun] = True
        table.restart_until[begun] = self.now + table.restart_seconds[begun]
        self._fresh.clear()

    def assign(
        self, choice: Mapping[Hashable, int | None], now: float
    ) -> dict[Hashable, Configuration | None]:
        """Set configurations from the choice of a shim: the column of each request, or None.

        Returns
        -------
        dict of job id to Configuration or None
            New configurations of the jobs whose configuration changed.  These jobs restart.

        Raises
        ------
        InfeasibleRoundError
            If a job that must have GPUs has none; nothing has changed then.
        """
        self.now = now
        decided = self._decided(self._picked(choice), None, None)
        self.accept(decided)
        return decided.changes

    def _decided(self, picked: Ints, solution: Solution | None, rounded: Rounded | None) -> SiaRound:
        """Return the round with given configurations of the jobs in order of arrival, -1 for none."""
        slots, names = self._order(), list(self._slots)
        current = self._table.current[slots]
        moved = np.flatnonzero(picked != current)
        who = [names[k] for k in moved.tolist()]
        now, was = self._named(picked[moved]), self._named(current[moved])
        known = len(names) - len(self._fresh)
        return SiaRound(
            dict(zip(names, self._named(picked), strict=True)),
            dict(zip(who, now, strict=True)),
            self._released,
            solution,
            rounded,
            churn=sum(job not in self._fresh for job in who) / known if known else math.nan,
            moves=tuple(map(_move, who, was, now)),
            binding=binding_of(solution),
            taken=(slots[moved], picked[moved]),
        )

    @property
    def shim(self) -> JobShim:
        """The policy's shim."""
        return self._shim

    def prepare(self) -> None:
        """Turn all events since the last round into edits of the program.

        Raises
        ------
        InfeasibleRoundError
            If non-preemptible or reserved jobs do not fit.  The program is unchanged then, and the events
            remain for the next call.
        """
        if self._nodes:
            self._apply_nodes()
        table, slots, now = self._table, self._table.slots(), self.now
        mode, released = modes(table, slots, self.cluster, now)
        self._released = [self._ids[slot] for slot in released.tolist()]
        limit = limits(table, slots, self.cluster, self.scale_up_limit)
        row = table.source[slots] * _LEVELS + table.level[slots]
        changed = (row != table.sent_row[slots]) | (mode != table.sent_mode[slots])
        changed |= (limit != table.sent_limit[slots]) | (table.current[slots] != table.sent_current[slots])
        # The next line is the last that can raise; edits begin after it.  All new jobs are in `changed`.
        picks = self._pick(slots[changed], mode[changed], limit[changed])
        self._resize()
        if self._left:
            self.program.remove_requests(self._left)
            self._left = []
        self._requests.add(self._ids, self._arrived, picks, self.cluster.limits)
        self._fresh.update(self._ids[slot] for slot in self._arrived)
        self._arrived = []
        self._requests.refresh(self._ids, picks, self.cluster.limits)
        table.sent_row[slots], table.sent_limit[slots] = row, limit
        table.sent_current[slots] = table.current[slots]
        priced = changed | (table.column[slots] >= 0) | (table.penalty[slots] != table.sent_penalty[slots])
        self._requests.rescale(self._ids, slots[priced], self.objective, now)
        table.sent_penalty[slots] = table.penalty[slots]
        self._requests.sweep()

    def _picked(self, choice: Mapping[Hashable, int | None]) -> Ints:
        """Return the jobs' configurations in a shim's choice, in order of arrival, -1 for none."""
        table, slots = self._table, self._order()
        if isinstance(choice, Choice):
            column = choice.of(table.request[slots])
        else:
            given = (choice[job] for job in self._slots)
            column = np.fromiter((-1 if each is None else each for each in given), np.int64, slots.size)
        unmet = np.flatnonzero((column < 0) & (table.sent_mode[slots] != FREE))
        if unmet.size:
            job = self._ids[int(slots[unmet[0]])]
            raise InfeasibleRoundError(f"job {job!r} must have GPUs and got none at {self.now:g} s")
        return self._requests.configurations(slots, column)

    def figures(self, answer: SiaRound) -> dict[str, float]:
        """Return the figures of an answer for reports."""
        running = sum(configuration is not None for configuration in answer.allocation.values())
        return {"jobs": len(answer.allocation), "running": running, "integral_churn": answer.churn}

    def violations(self, answer: SiaRound) -> Iterator[str]:
        """Yield GPU types with too many allocated GPUs, counted job by job."""
        used: Counter[str] = Counter()
        for configuration in answer.allocation.values():
            if configuration is not None:
                used[configuration.type] += configuration.gpus
        for type, gpus in used.items():
            if gpus > self.cluster.capacity[type]:
                yield f"GPU type {type!r}: {gpus} GPUs: must be at most {self.cluster.capacity[type]}"

    def events(self, rng: np.random.Generator) -> Iterator[tuple[Any, ...]]:
        """Yield random arrivals and ends of jobs, and changes of the number of nodes."""
        yield "at", self.now + 60.0
        jobs = list(self.allocation)
        for _ in range(int(rng.integers(0, 3)) if len(jobs) < 16 else 0):
            name = f"job {int(rng.integers(1 << 40))}"
            speeds = {
                type: (int(2 ** rng.integers(3)), float(rng.uniform(50, 400))) for type in ("T4", "A100")
            }
            yield "submit", SiaJob(name, ReplicaProfile(name, 60.0, 1e6, speeds), self.now)
        if len(jobs) > 4 and rng.random() < 0.5:
            yield "complete", jobs[int(rng.integers(len(jobs)))]
        if rng.random() < 0.3:
            yield "set_nodes", str(rng.choice(["T4", "A100"])), int(rng.integers(1, 5))

    # ---- internal methods ------------------------------------------------------------------------

    def _order(self) -> Ints:
        """Return the slots of the jobs in order of arrival."""
        return np.fromiter(self._slots.values(), np.int64, len(self._slots))

    def _named(self, configurations: Ints) -> list[Configuration | None]:
        """Return the configurations with given numbers, None for a negative number."""
        known = self.cluster.configurations
        return [known[k] if k >= 0 else None for k in configurations.tolist()]

    def _slot(self, job: Hashable) -> int:
        try:
            return self._slots[job]
        except KeyError:
            raise SiaError(f"unknown job {job!r}") from None

    def _apply_nodes(self) -> None:
        """Apply changes of nodes to the cluster; a job whose configuration no longer exists loses it."""
        old = self.cluster.configurations.codes
        for type, nodes in self._nodes.items():
            self.cluster.set_nodes(type, nodes)
        self._nodes = {}
        configurations = self.cluster.configurations
        self._rows = RowCache(configurations, self.objective)
        table, slots = self._table, self._table.slots()
        current = table.current[slots]
        held = current >= 0
        current[held] = configurations.find_codes(old[current[held]])
        table.current[slots] = current
        table.sent_row[slots] = NONE

    def _resize(self) -> None:
        """Set the program's capacities to the cluster's."""
        for limit in self.cluster.limits:
            if limit.capacity != self.program.resources[limit.name].upper:
                self.program.update_resources(limit.name, upper=limit.capacity)

    def _set_source(self, slot: int, number: int) -> None:
        table, profile = self._table, self._sources[number].profile
        table.source[slot], table.levels[slot] = number, profile.n_levels
        table.level[slot] = min(table.level[slot], profile.n_levels - 1)
        table.restart_seconds[slot] = profile.restart_seconds

    def _pick(self, slots: Ints, modes: Ints, limits: Ints) -> dict[int, Pick]:
        """Return costs, columns and mode of jobs by slot; infeasible configurations are not pinned."""
        table, picks = self._table, {}
        known = (table.source, table.level, table.current, table.reserved)
        fields = [array.tolist() for array in (slots, *(field[slots] for field in known), modes, limits)]
        for slot, source, level, current, reserved, mode, limit in zip(*fields, strict=True):
            row = self._rows.get(source, level, self._sources[source])
            if mode == PINNED:
                only = row.runnable.only(current)
                if only is not None:
                    picks[slot] = row, only, PINNED
                    continue
                mode = REQUIRED if reserved else FREE
            if mode == REQUIRED and not row.costs.size:
                raise InfeasibleRoundError(f"job {self._ids[slot]!r} is reserved, but nothing can run it")
            picks[slot] = row, row.runnable.choices(limit, mode == FREE), mode
        return picks


def _move(job: Hashable, was: Configuration | None, now: Configuration | None) -> Move:
    """Return the move of a job between configurations; the amount is its GPUs."""
    held = was if now is None else now
    return Move(job, was, now, 0.0 if held is None else float(held.gpus))
