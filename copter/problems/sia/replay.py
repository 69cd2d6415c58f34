"""Replay of a workload under Sia: the cluster simulator, with data about each round's program.

Rounds last 60 seconds.  At the start of a round, the jobs that were submitted by then enter the queue, and
the policy decides for the whole round.  A job whose configuration changed, or that starts, makes no progress
for its restart seconds.  Then it runs at the goodput of its level, through as many levels as the time allows.
It may complete during the round; its GPUs are free from the next round on.

Source: the experiments of the thesis (section 4.5) and the authors' simulator use rounds of 60 seconds.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterable, Iterator
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np

from copter.bench.course import RoundTimes, solved_record
from copter.problems.cluster.nodes import NodeChange
from copter.problems.cluster.results import ClusterRecord, JobRecord
from copter.problems.cluster.simulation.simulator import Simulator
from copter.problems.cluster.workload import Scenario
from copter.problems.sia.columns import JobChoices
from copter.problems.sia.policy import SiaPolicy
from copter.problems.sia.scheduler import ROUND_SECONDS, Sia
from copter.proof.whole import integrality_loss
from copter.solution import Solution

if TYPE_CHECKING:
    from copter.solvers.base import Solver


_SAME = 1e-3
"""Tolerance for comparing values of variables."""
NAMES = ("changed", "added", "removed", "integral", "path_x", "path_n")


class Replay:
    """Simulation of a cluster under the Sia policy.

    scenario : Scenario
        Cluster, jobs and profiles.
    solver : Solver
        Solver of the policy's program.
    policy : SiaPolicy, optional
        New policy on the scenario's cluster; default: one with default settings.
    round_seconds : float
        Length of a round.
    hours : float, optional
        Only jobs submitted in the first `hours` take part.  The replay continues until all are complete.
    max_hours : float, optional
        Simulated time at which the replay stops, even if jobs are incomplete.
    node_changes : iterable of NodeChange
        Changes of the numbers of nodes.
    time_limit : float, optional
        Seconds of a round.

    Examples
    --------
    >>> from copter.problems.sia.generator import generate
    >>> from copter import make_solver
    >>> replay = Replay(generate(gpus=64, jobs_per_day=96, hours=1.0), make_solver("copter"))
    >>> for record in replay.run():
    ...     pass
    >>> replay.summary()["jobs_completed"]
    4
    """

    def __init__(
        self,
        scenario: Scenario,
        solver: Solver,
        *,
        policy: SiaPolicy | None = None,
        round_seconds: float = ROUND_SECONDS,
        hours: float | None = None,
        max_hours: float | None = None,
        node_changes: Iterable[NodeChange] = (),
        time_limit: float | None = None,
    ) -> None:
        if hours is not None and not hours > 0:
            raise ValueError(f"hours = {hours}: must be positive")
        until = math.inf if hours is None else hours * 3600.0
        self.jobs = [job for job in scenario.jobs if job.time < until]
        self.policy = SiaPolicy(scenario.cluster) if policy is None else policy
        self.round_seconds, self.max_hours = round_seconds, max_hours
        self.records: list[SiaRecord] = []
        self.solver = solver
        self.simulator = self._simulator(
            Scenario(scenario.cluster, self.jobs, scenario.profiles),
            Sia(policy=self.policy, solver=solver, time_limit=time_limit, round_seconds=round_seconds),
            node_changes,
            max_hours,
        )
        self._evolution = _Evolution(self.policy)

    def _simulator(
        self, scenario: Scenario, sia: Sia, changes: Iterable[NodeChange], max_hours: float | None
    ) -> Simulator:
        self.scheduler = sia
        return Simulator(scenario, sia, events=changes, max_hours=max_hours)

    def run(self) -> Iterator[SiaRecord]:
        """Simulate, and yield the record of each round; hours without jobs are skipped."""
        for played in self.simulator.run():
            record = self._record(played)
            self.records.append(record)
            yield record

    def _record(self, played: ClusterRecord) -> SiaRecord:
        last, program = self.scheduler.last, self.policy.program
        assert last is not None and last.solution is not None
        decided, rounded, solution = last.answer, last.answer.rounded, last.solution
        times = RoundTimes.of(last, self.solver)
        own = {
            "round": played.index,
            "time": played.time,
            "arrived": played.arrived,
            "completed": played.completed,
            "restarts": played.starts + played.restarts,
            "queue": played.jobs - played.running,
            "running": played.running,
            "utilisation": sum(played.gpus.values()) / max(sum(played.there.values()), 1),
            "utilisation_by_type": {
                type: played.gpus[type] / max(gpus, 1) for type, gpus in played.there.items()
            },
            "answer_gap": math.nan if rounded is None else rounded.gap,
            "integrality_loss": (
                math.nan if rounded is None else integrality_loss(rounded.objective, solution.bound)
            ),
            "answer_objective": math.nan if rounded is None else rounded.objective,
            "integral_churn": decided.churn,
            "missed": rounded is None,
            **self._evolution.measure(solution),
        }
        measured = solved_record(self.solver.name, played.index, program, solution, times) | own
        return SiaRecord(**{field.name: measured[field.name] for field in fields(SiaRecord)})

    def _proven(self) -> list[float]:
        """Return whether a proof was found, for each round with a search for one."""
        return [record.proven for record in self.records if not math.isnan(record.proven)]

    # ---- results ---------------------------------------------------------------------------------

    @property
    def completed(self) -> int:
        """Number of completed jobs."""
        return self.simulator.completed

    def job_results(self) -> list[JobRecord]:
        """Return the record of each job that entered, in order of submission."""
        return self.simulator.job_results()

    def summary(self) -> dict[str, float | int | None]:
        """Return the metrics of the run so far; NaN if no job completed or no round was simulated.

        The makespan is the time from the first submission to the last completion.  Restarts do not include
        first starts.  Utilisation is GPU time given to jobs over GPU time available, from the first round to
        the last.  ``max_gap`` is the largest certified gap of a fractional answer.  ``max_integral_gap`` is
        the largest gap of an allocation, relative to the cost that the relaxation leaves undecided.  Rounds
        without an answer, in which jobs kept their configurations, are counted separately.
        ``integrality_loss_median`` and ``integrality_loss_max`` are the allocations' costs above the
        certified bound, relative to their costs. ``integral_churn`` is the mean over rounds with jobs of the
        round before. ``rounds_proven`` is the share of the rounds whose allocation is proven optimal, None if
        no proof was requested.
        """
        answered = [record for record in self.records if not record.missed]
        losses = [record.integrality_loss for record in answered]
        total = np.array([record.seconds for record in self.records])
        moved = np.array([record.integral_churn for record in self.records])
        moved = moved[np.isfinite(moved)]
        nan = math.nan
        return outcome(self.simulator) | {
            "rounds": len(self.records),
            "policy_p50_s": float(np.quantile(total, 0.5)) if total.size else nan,
            "policy_p99_s": float(np.quantile(total, 0.99)) if total.size else nan,
            "policy_max_s": float(total.max()) if total.size else nan,
            "rounds_missed": len(self.records) - len(answered),
            "max_gap": max((record.gap for record in answered), default=nan),
            "max_integral_gap": max((record.answer_gap for record in answered), default=nan),
            "integrality_loss_median": float(np.median(losses)) if losses else nan,
            "integrality_loss_max": max(losses, default=nan),
            "integral_churn": float(moved.mean()) if moved.size else nan,
            "rounds_proven": float(np.mean(proven)) if (proven := self._proven()) else None,
            "max_queue": max((record.queue for record in self.records), default=0),
        }


def outcome(simulator: Simulator) -> dict[str, float | int | None]:
    """Return the metrics of a simulation under any policy, see :meth:`Replay.summary`."""
    jobs, played, nan = simulator.job_results(), simulator.records, math.nan
    done = [job for job in jobs if not math.isnan(job.finished)]
    jct = np.array([job.jct for job in done]) / 3600.0
    there = sum(sum(record.there.values()) * record.seconds for record in played)
    given = sum(sum(record.gpus.values()) * record.seconds for record in played)
    makespan = max(job.finished for job in done) - jobs[0].submitted if done else nan
    return {
        "average_jct_hours": float(jct.mean()) if done else nan,
        "p99_jct_hours": float(np.quantile(jct, 0.99)) if done else nan,
        "makespan_hours": makespan / 3600.0,
        "jobs_completed": len(done),
        "jobs_submitted": len(jobs),
        "restarts_per_job": float(np.mean([job.restarts for job in jobs])) if jobs else nan,
        "utilisation": given / there if there else nan,
    }


@dataclass(frozen=True)
class SiaRecord:
    """Record of a round: the cluster's state, the policy's times, and the evolution of its program."""

    round: Annotated[int, "number of the round among rounds with at least one job, from 0"]
    time: Annotated[float, "time of its start in seconds"]
    arrived: Annotated[int, "jobs that arrived"]
    completed: Annotated[int, "jobs that completed"]
    restarts: Annotated[int, "jobs that started or restarted on another configuration"]
    queue: Annotated[int, "jobs without GPUs"]
    running: Annotated[int, "jobs with GPUs"]
    utilisation: Annotated[float, "share of all GPUs that jobs have"]
    utilisation_by_type: dict[str, float]
    edit_seconds: Annotated[
        float,
        "seconds of updating the solver's program: copter's edits (store_seconds), or the update or "
        "rebuild of a baseline's own model",
    ]
    solve_seconds: Annotated[
        float, "seconds of the solver: with the certificate for copter's solvers, its own run for a baseline"
    ]
    rounding_seconds: Annotated[float, "seconds of rounding to an integral allocation"]
    seconds: Annotated[float, "seconds of the policy: edit, solve and shim"]
    store_seconds: Annotated[
        float, "seconds of turning events into edits; not part of a baseline's `seconds`"
    ]
    certify_seconds: Annotated[
        float, "seconds of reading and certifying a baseline's answer; not in `seconds`"
    ]
    status: Annotated[str, "reported status of the solver"]
    gap: Annotated[float, "certified relative gap of the fractional answer"]
    primal_residual: Annotated[float, "relative primal residual of the fractional answer"]
    answer_gap: Annotated[
        float, "certified gap of the integral allocation, over the cost that the relaxation leaves undecided"
    ]
    integrality_loss: Annotated[
        float, "cost of the integral allocation above the certified bound, relative to its cost"
    ]
    objective: Annotated[float, "cost of the fractional answer"]
    bound: Annotated[float, "certified lower bound on the cost of any allocation"]
    answer_objective: Annotated[float, "cost of the integral allocation"]
    n_variables: Annotated[int, "columns of the program"]
    n_rows: Annotated[int, "rows of the program, including the jobs' sum rows"]
    nnz: Annotated[int, "nonzeros in the resource rows"]
    iterations: Annotated[int, "inner iterations of the solver"]
    churn: Annotated[float, "share of the nonzeros that changed since the last round"]
    integral_churn: Annotated[float, "share of the last round's jobs whose configuration changed"]
    warm_started: Annotated[bool, "whether the solver had a warm start from the last round"]
    proven: Annotated[float, "1 if the integral allocation is proven optimal; nan without --exact"]
    columns_left: Annotated[float, "columns that branch and bound had to search in the proof"]
    t_integer: Annotated[float, "seconds of the solver after the relaxation"]
    missed: Annotated[bool, "whether the solver had no answer in time; then every job kept its configuration"]
    changed: Annotated[
        float, "share of the variables of both this and the last program whose value changed by over 1e-3"
    ]
    added: Annotated[float, "share of the variables that are new"]
    removed: Annotated[float, "share of the last round's variables that were removed"]
    integral: Annotated[float, "share of the variables of the fractional answer at 0 or 1, within 1e-3"]
    path_x: Annotated[float, "squared distance of the fractional answer from the last round's"]
    path_n: Annotated[float, "change of the number of variables since the last round"]

    def as_row(self) -> dict[str, Any]:
        """Return the record as a row of a table, with a column ``utilisation_<type>`` for each GPU type."""
        row = {field.name: getattr(self, field.name) for field in fields(self)}
        by_type = row.pop("utilisation_by_type")
        return row | {f"utilisation_{type}": share for type, share in by_type.items()}


class _Evolution:
    """Change of a program from round to round, and integrality of its fractional answers.

    A variable is a job's share x of one configuration, or of "no allocation".  Between rounds t - 1 and t,
    with C the variables of both programs,

        changed  =  |{v in C: |x_t(v) - x_{t-1}(v)| > 1e-3}| / |C|
        added    =  1 - |C| / |V_t|,               removed = 1 - |C| / |V_{t-1}|
        integral =  |{v in V_t: x_t(v) within 1e-3 of 0 or 1}| / |V_t|
        path_x   =  ||x_t - x_{t-1}||^2,         path_n = | |V_t| - |V_{t-1}| |

    where values are 0 for variables of the other program.  The sums of the last two over the rounds are the
    path lengths P_x and P_eta of Definition 1, where eta is the number of variables, because there are fewer
    rows.

    Source: thesis section 4.3.1, Definition 1, and Figures 4.2 and 4.4.
    """

    def __init__(self, policy: SiaPolicy) -> None:
        self.policy = policy
        self._choices: dict[Hashable, JobChoices] = {}
        self._values: dict[tuple[Hashable, int], float] = {}
        self._variables = 0

    def measure(self, solution: Solution) -> dict[str, float]:
        """Compare a round's answer with that of the round before.

        `solution`: solution of the program in its present state. Result: the shares and lengths of the class,
        by :data:`NAMES`; NaN if there is no answer to compare.
        """
        if not solution.found:
            return dict.fromkeys(NAMES, math.nan)
        choices = self.policy.choices()
        values = self._nonzeros(solution, choices)
        variables = self.policy.program.n_variables
        common, changed = self._common(choices), 0
        path = 0.0
        for variable in self._values | values:
            before, now = self._values.get(variable, 0.0), values.get(variable, 0.0)
            if before != now:
                path += (now - before) ** 2
                changed += abs(now - before) > _SAME and self._in_both(variable, choices)
        between = sum(_SAME < value < 1.0 - _SAME for value in values.values())
        figures = {
            "changed": changed / common if common else math.nan,
            "added": 1.0 - common / variables if variables else math.nan,
            "removed": 1.0 - common / self._variables if self._variables else math.nan,
            "integral": 1.0 - between / variables if variables else math.nan,
            "path_x": path,
            "path_n": float(abs(variables - self._variables)),
        }
        self._choices, self._values, self._variables = choices, values, variables
        return figures

    def _nonzeros(
        self, solution: Solution, choices: dict[Hashable, JobChoices]
    ) -> dict[tuple[Hashable, int], float]:
        """Return the nonzero values, by job and code of the configuration, -1 for none."""
        codes = self.policy.cluster.configurations.codes
        slots = self.policy.program.slot_of
        jobs = {slots[job]: job for job in choices}
        values = {}
        for slot, column, value in zip(*(part.tolist() for part in solution.x.arrays()), strict=True):
            job = jobs[slot]
            configuration = int(choices[job].columns[column])
            values[job, int(codes[configuration]) if configuration >= 0 else -1] = value
        return values

    def _common(self, choices: dict[Hashable, JobChoices]) -> int:
        """Return the number of variables in both programs."""
        common = 0
        for job, now in choices.items():
            before = self._choices.get(job)
            if before is None:
                continue
            if before.key == now.key:
                common += now.columns.size
            else:
                common += np.intersect1d(_codes(before), _codes(now)).size
                common += before.has_null and now.has_null
        return common

    def _in_both(self, variable: tuple[Hashable, int], choices: dict[Hashable, JobChoices]) -> bool:
        job, code = variable
        both = [table.get(job) for table in (self._choices, choices)]
        return all(
            one is not None and (one.has_null if code < 0 else bool((_codes(one) == code).any()))
            for one in both
        )


def _codes(choices: JobChoices) -> np.ndarray:
    """Return the codes of the configurations of some choices."""
    return np.frombuffer(choices.key[1], np.int64)
