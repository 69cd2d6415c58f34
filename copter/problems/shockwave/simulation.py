"""Replay of a trace under a policy, with the settings of the authors' simulator.

Rounds take two minutes.  A job that did not run in the previous round first spends 20 s on dispatch and on
loading its checkpoint (:class:`copter.problems.cluster.simulation.resize.DispatchRestart`).  A job may
complete within a round; its GPUs are free from the next round on.  GPUs are counted, not placed.  Batch sizes
change at the times of the trace, also within a round; in the authors' simulator they change at the end of a
round.

Source: Shockwave, section 7 (rounds of two minutes), section 8.1 and the authors' public code.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from copter.problems.cluster.experiment import Setup
from copter.problems.cluster.policy import Policy
from copter.problems.cluster.results import ClusterRecord, JobRecord, Segment
from copter.problems.cluster.simulation.resize import DispatchRestart, Resize
from copter.problems.cluster.simulation.simulator import Simulator
from copter.problems.cluster.workload import Scenario
from copter.problems.shockwave.metrics import JobResult, MarketMetrics
from copter.problems.shockwave.policy import ROUND_SECONDS
from copter.problems.shockwave.traces import RegimeJob, check_names
from copter.problems.shockwave.workloads import RESTART_SECONDS, scenario_of


@dataclass(frozen=True, kw_only=True)
class ReplaySetup(Setup):
    """Setup in which policies of `copter run cluster` replay a trace on a number of GPUs."""

    regime_jobs: Sequence[RegimeJob]
    gpus: int
    placement: str = "none"
    round_seconds: float | None = ROUND_SECONDS

    def scenario(self, seed: int) -> Scenario:
        """Return the scenario with the jobs of the trace."""
        return scenario_of(self.regime_jobs, self.gpus)

    def resize(self) -> Resize:
        """Return the cost of a start in the authors' simulator."""
        return DispatchRestart(RESTART_SECONDS)


@dataclass(frozen=True)
class ReplayResult:
    """Outcome of a replay.

    `jobs`: admitted jobs. `rejected`: jobs that need more GPUs than the cluster has, so they never enter.
    `segments`: intervals in which a job held GPUs.
    """

    policy: str
    gpus: int
    jobs: tuple[JobResult, ...]
    rejected: tuple[str, ...]
    rounds: tuple[ClusterRecord, ...]
    segments: tuple[Segment, ...]
    metrics: MarketMetrics

    @property
    def extended(self) -> float:
        """Share of the rounds of jobs, less one for each job, in which a job kept its GPUs (its lease)."""
        starts = sum(one.starts + one.restarts for one in self.rounds)
        ran = sum(one.running for one in self.rounds)
        might = ran - len(self.jobs)
        return (ran - starts) / might if might > 0 else 1.0


def replay(
    jobs: Sequence[RegimeJob],
    gpus: int,
    policy: Policy,
    *,
    round_seconds: float = ROUND_SECONDS,
    restart_seconds: float = RESTART_SECONDS,
) -> ReplayResult:
    """Replay a trace to its end.

    Parameters
    ----------
    policy : Policy
        A new policy of rigid jobs.

    Raises
    ------
    PolicyError
        If the policy names an unknown job, or gives more GPUs than there are.
    StarvationError
        If the policy never gives GPUs to the remaining jobs.
    """
    if not restart_seconds >= 0 or not round_seconds > restart_seconds:
        raise ValueError(f"round_seconds = {round_seconds}: must be more than a restart, {restart_seconds}")
    check_names("jobs", jobs)
    simulator = Simulator(
        scenario_of(jobs, gpus),
        policy,
        round_seconds=round_seconds,
        resize=DispatchRestart(restart_seconds),
    ).play()
    seconds = {job.name: job.seconds for job in jobs}
    contention = (len(jobs) - len(simulator.rejected)) / gpus
    results = tuple(_result(job, seconds[job.name], contention) for job in simulator.job_results())
    return ReplayResult(
        policy.name,
        gpus,
        results,
        simulator.rejected,
        tuple(simulator.records),
        tuple(simulator.segments),
        MarketMetrics.of(results, gpus, min((job.arrival for job in results), default=0.0)),
    )


def _result(job: JobRecord, seconds: float, contention: float) -> JobResult:
    return JobResult(
        name=job.name,
        gpus=job.gpus,
        arrival=job.submitted,
        finished=job.finished,
        exclusive_seconds=seconds,
        starts=job.restarts + 1,
        ftf=job.jct / (seconds * max(1.0, contention)),
        ftf_live=job.jct / (seconds * max(1.0, job.contention)),
    )
