"""Replay of a recorded run of a live cluster: with the same reports, and in the simulator.

:func:`play_again` applies the events of a journal in order and asks a new policy with the same settings
wherever one was asked.  Its decisions must equal the recorded ones, to the node.

:func:`simulate` plays the completed jobs in the simulator, with their measured throughput, gradient noise and
restart seconds.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import median

from copter.errors import FileError
from copter.live.archive import whole_history
from copter.live.cluster import LiveCluster, as_place
from copter.live.events import Closed, Decided, Event, Opened, Place, Submitted
from copter.live.files import ClusterFile
from copter.live.jobs import LiveJob
from copter.live.journal import JOURNAL, LiveJournal
from copter.live.policy_thread import NO_DECISION
from copter.live.rounds import look_at, make_rounds
from copter.problems.cluster.estimation.estimators import NoProf
from copter.problems.cluster.placement import placer_for
from copter.problems.cluster.profiles.base import Profile
from copter.problems.cluster.registry import make_policy
from copter.problems.cluster.rounds import ClusterRounds, Decision
from copter.problems.cluster.simulation.simulator import Simulator
from copter.problems.cluster.workload import JobSubmission, Scenario

_REPORT_NOISE = 0.02
"""Standard deviation of the logarithm of a reported step time, in the simulation of a record."""


@dataclass(frozen=True)
class _Difference:
    """A round, asked at `time`, whose decision differs from the recorded one."""

    time: float
    recorded: Mapping[str, Place | None]
    answered: Mapping[str, Place | None]


def play_again(folder: Path) -> tuple[int, list[_Difference]]:
    """Ask the policy of a record again; return the number of rounds, and the rounds that differ."""
    journal = LiveJournal(folder / JOURNAL, read_only=True)
    events = whole_history(journal)
    journal.close()
    decisions = [event for _, event in events if isinstance(event, Decided)]
    asked = {event.seen: event.asked for event in decisions}
    silent = {event.seen for event in decisions if event.error.startswith(NO_DECISION)}
    opened = _first(events, folder)
    state = LiveCluster(ClusterFile.model_validate(dict(opened.cluster)), opened.kind)
    rounds = _rounds(opened, state)
    decision: Decision | None = None
    different: list[_Difference] = []
    for number, event in events:
        if isinstance(event, Decided):
            if decision is not None:
                rounds.carry_out(decision)
            answered, state.changes = state.changes, {}
            recorded = {name: None if one is None else as_place(one) for name, one in event.places.items()}
            if recorded != answered or (decision is None) != bool(event.error):
                different.append(_Difference(event.asked, recorded, answered))
        with journal.applying(number, event):
            state.apply(event)
        if isinstance(event, Opened):
            rounds = _rounds(event, state)
        if number in asked:
            state.timer.time = asked[number]
            now, decision = look_at(rounds), None
            if number in silent:  # asking again could take as long again; a new policy follows anyway
                continue
            try:
                decision = rounds.decide(now)
            except KeyboardInterrupt:
                raise
            except BaseException:  # the record has an error here too, or the round counts as different
                decision = None
    return len(asked), different


def _rounds(opened: Opened, state: LiveCluster) -> ClusterRounds[LiveJob]:
    return make_rounds(make_policy(opened.policy, **opened.settings), state, opened.round_seconds)


def _first(events: list[tuple[int, Event]], folder: Path) -> Opened:
    """Return the first event, which must be an Opened event."""
    first = events[0][1] if events else None
    if not isinstance(first, Opened):
        raise FileError(folder / JOURNAL, "does not begin with the start of a service")
    return first


@dataclass(frozen=True)
class _Recorded:
    """The completed jobs of a journal, with their measured profiles.

    Attributes
    ----------
    jct : dict of str to float
        Seconds from submission to completion.
    opened : Opened
        The start of the service, with its first policy.
    report_seconds : float
        Median time between two reports.
    """

    scenario: Scenario
    jct: dict[str, float]
    opened: Opened
    report_seconds: float


def _measured_scenario(folder: Path) -> _Recorded:
    """Return the completed jobs of a record as a scenario for the simulator."""
    journal = LiveJournal(folder / JOURNAL, read_only=True)
    events = whole_history(journal)
    journal.close()
    opened = _first(events, folder)
    state = LiveCluster(ClusterFile.model_validate(dict(opened.cluster)), opened.kind)
    jobs: list[JobSubmission] = []
    every: list[float] = []
    profiles: dict[str, Profile] = {}
    submitted: dict[str, float] = {}
    jct: dict[str, float] = {}
    for _, event in events:
        if isinstance(event, Submitted):
            submitted[event.job] = event.time
        if isinstance(event, Closed) and event.ending == "completed" and event.job in state.jobs:
            job = state.jobs[event.job]
            job.learn()
            jct[event.job] = event.time - submitted[event.job]
            profiles[event.job] = job.measured()
            every.append(job.file.report_seconds)
            jobs.append(job.file.submission(event.job, submitted[event.job]))
        state.apply(event)
    if not jobs:
        raise FileError(folder / JOURNAL, "must have a completed job")
    begin = min(job.time for job in jobs)
    named = [_renamed(job, begin) for job in sorted(jobs, key=lambda job: job.time)]
    scenario = Scenario(state.file.cluster(), named, profiles)
    return _Recorded(scenario, jct, opened, median(every))


def _renamed(job: JobSubmission, begin: float) -> JobSubmission:
    """Return a submission with its own application, and its time relative to the first one."""
    return replace(job, application=job.name, time=max(job.time - begin, 0.0))


def simulate(folder: Path) -> dict[str, float]:
    """Simulate the jobs of a record under the policy with which the record begins.

    As in the live run, the policy knows the jobs by their reports only.  Each change costs the job its
    measured restart seconds.  The cluster is the last one; jobs that it cannot run are left out.  Return the
    number of the other ``jobs``, their average JCT in seconds as ``live_jct`` and ``simulated_jct``, and the
    ``ratio`` of the simulated to the live one.
    """
    recorded = _measured_scenario(folder)
    opened = recorded.opened
    policy = make_policy(opened.policy, **opened.settings)
    simulator = Simulator(
        recorded.scenario,
        policy,
        round_seconds=opened.round_seconds,
        placer=placer_for(policy),
        estimator=NoProf(noise=_REPORT_NOISE, report_seconds=recorded.report_seconds),
    ).play()
    results = simulator.job_results()
    if not results:
        raise FileError(folder / JOURNAL, "must have a completed job that its last cluster can run")
    live = sum(recorded.jct[job.name] for job in results) / len(results)
    simulated = sum(job.jct for job in results) / len(results)
    return {
        "jobs": len(results),
        "live_jct": live,
        "simulated_jct": simulated,
        "ratio": simulated / live,
    }
