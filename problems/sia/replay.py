"""Replay of a workload under Sia: the cluster simulator, with all that is known of each round's program.

Rounds last 60 seconds.  At the start of a round the jobs submitted by then enter the queue, the policy
decides, and its allocation holds for the whole round.  A job whose configuration changed, or that starts,
first spends its restart seconds without progress; then it runs at the goodput of its level, through as many
levels as the time allows.  It completes in the middle of the round; its GPUs are free from the next one on.

Source: the experiments of the thesis (section 4.5) and the authors' simulator use rounds of 60 seconds.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

import numpy as np

from copter.problems.cluster.nodes import NodeChange
from copter.problems.cluster.simulation.results import JobRecord
from copter.problems.cluster.simulation.results import RoundRecord as ClusterRecord
from copter.problems.cluster.simulation.simulator import Simulator
from copter.problems.cluster.workload import Scenario
from copter.problems.sia.evolution import Evolution
from copter.problems.sia.policy import SiaPolicy
from copter.problems.sia.records import RoundRecord
from copter.problems.sia.scheduler import ROUND_SECONDS, Sia
from copter.proof.integer import integer_figures

if TYPE_CHECKING:
    from copter.solvers.base import Solver


class Replay:
    """Simulation of a cluster under the Sia policy.

    Parameters
    ----------
    policy : SiaPolicy, optional
        By default one with its defaults; a given one must be fresh, on the scenario's cluster.
    hours : float, optional
        Only jobs submitted in the first so many hours take part.  The replay goes on until all are
        complete.
    max_hours : float, optional
        Stop at this simulated time, complete or not.
    deadline : float, optional
        Seconds that the solver may take in a round.

    Examples
    --------
    >>> from copter.problems.sia.generator import generate
    >>> from copter.solvers import make_solver
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
        deadline: float | None = None,
    ) -> None:
        if hours is not None and not hours > 0:
            raise ValueError(f"hours = {hours}: must be positive")
        until = math.inf if hours is None else hours * 3600.0
        self.jobs = [job for job in scenario.jobs if job.time < until]
        self.policy = SiaPolicy(scenario.cluster) if policy is None else policy
        self.records: list[RoundRecord] = []
        self.simulator = self._simulator(
            Scenario(scenario.cluster, self.jobs, scenario.profiles),
            Sia(policy=self.policy, solver=solver, deadline=deadline, round_seconds=round_seconds),
            node_changes,
            max_hours,
        )
        self._evolution = Evolution(self.policy)

    def _simulator(
        self, scenario: Scenario, sia: Sia, changes: Iterable[NodeChange], max_hours: float | None
    ) -> Simulator:
        self.scheduler = sia
        return Simulator(scenario, sia, events=changes, max_hours=max_hours)

    def run(self) -> Iterator[RoundRecord]:
        """Simulate, giving the record of each round as it ends; hours without jobs are skipped."""
        for played in self.simulator.run():
            record = self._record(played)
            self.records.append(record)
            yield record

    def _record(self, played: ClusterRecord) -> RoundRecord:
        decided = self.scheduler.last
        assert decided is not None
        solution, rounded, program = decided.solution, decided.rounded, self.policy.program
        shares = {type: played.gpus[type] / max(gpus, 1) for type, gpus in played.there.items()}
        return RoundRecord(
            round=played.index,
            time=played.time,
            arrived=played.arrived,
            completed=played.completed,
            restarts=played.starts + played.restarts,
            queue=played.jobs - played.running,
            running=played.running,
            utilisation=sum(played.gpus.values()) / max(sum(played.there.values()), 1),
            utilisation_by_type=shares,
            t_edit=decided.edit_seconds,
            t_solve=decided.solve_seconds,
            t_shim=decided.shim_seconds,
            t_total=decided.edit_seconds + decided.solve_seconds + decided.shim_seconds,
            t_store=decided.store_seconds,
            t_certify=decided.certify_seconds,
            status=str(solution.status),
            gap=solution.gap,
            primal_residual=solution.primal_residual,
            integral_gap=math.nan if rounded is None else rounded.gap,
            objective=solution.objective,
            bound=solution.bound,
            integral_objective=math.nan if rounded is None else rounded.objective,
            n_variables=program.n_variables,
            n_rows=program.n_rows,
            nnz=program.nnz,
            iterations=solution.iterations,
            churn=solution.churn,
            integral_churn=decided.churn,
            warm_started=solution.warm_started,
            **integer_figures(solution.integer),
            missed=rounded is None,
            **self._evolution.measure(solution),
        )

    def _proven(self) -> list[float]:
        """Of each round with a proof, or a search for one, whether it was found."""
        return [record.proven for record in self.records if not math.isnan(record.proven)]

    # ---- results ---------------------------------------------------------------------------------

    @property
    def completed(self) -> int:
        """Number of jobs complete so far."""
        return self.simulator.completed

    def job_results(self) -> list[JobRecord]:
        """What became of each job that entered, in order of submission."""
        return self.simulator.job_results()

    def summary(self) -> dict[str, float | int | None]:
        """Figures of the whole run so far; NaN where nothing completed or no round was simulated.

        The makespan is the time from the first submission to the last completion.  Restarts do not count
        first starts.  Utilisation is GPU time given to jobs over GPU time there was, from the first round to
        the last.  ``max_gap`` is the largest certified gap of a fractional answer, ``max_integral_gap`` of
        an allocation; rounds without an answer, in which jobs kept what they had, are counted apart.
        ``integral_churn`` is the mean over the rounds that had jobs of the round before.
        ``rounds_proven`` is the share of the rounds whose allocation is proven optimal, None if no proof was
        asked for.
        """
        answered = [record for record in self.records if not record.missed]
        jobs, played = self.job_results(), self.simulator.records
        done = [job for job in jobs if not math.isnan(job.finished)]
        jct = np.array([job.jct for job in done]) / 3600.0
        total = np.array([record.t_total for record in self.records])
        moved = np.array([record.integral_churn for record in self.records])
        moved = moved[np.isfinite(moved)]
        there = sum(sum(record.there.values()) * record.seconds for record in played)
        given = sum(sum(record.gpus.values()) * record.seconds for record in played)
        nan = math.nan
        makespan = max(job.finished for job in done) - jobs[0].submitted if done else nan
        return {
            "average_jct_hours": float(jct.mean()) if done else nan,
            "p99_jct_hours": float(np.quantile(jct, 0.99)) if done else nan,
            "makespan_hours": makespan / 3600.0,
            "jobs_completed": len(done),
            "jobs_submitted": len(jobs),
            "restarts_per_job": float(np.mean([job.restarts for job in jobs])) if jobs else nan,
            "utilisation": given / there if there else nan,
            "rounds": len(self.records),
            "policy_p50_s": float(np.quantile(total, 0.5)) if total.size else nan,
            "policy_p99_s": float(np.quantile(total, 0.99)) if total.size else nan,
            "policy_max_s": float(total.max()) if total.size else nan,
            "rounds_missed": len(self.records) - len(answered),
            "max_gap": max((record.gap for record in answered), default=nan),
            "max_integral_gap": max((record.integral_gap for record in answered), default=nan),
            "integral_churn": float(moved.mean()) if moved.size else nan,
            "rounds_proven": float(np.mean(proven)) if (proven := self._proven()) else None,
            "max_queue": max((record.queue for record in self.records), default=0),
        }
