"""The process of a forecast: it plays the policy of a service ahead, and reports when jobs would start.

    python -m copter.live.ahead

The process reads a pickled :class:`Question` from its parent, the service, and writes an answer as JSON.  The
policy runs in a thread of its own.  After the seconds of the question, the process reports what is known so
far, whatever the policy does, and ends.
"""

from __future__ import annotations

import json
import math
import os
import pickle
import signal
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from threading import Thread
from typing import Any, NamedTuple

from copter.live.policy_thread import described
from copter.problems.cluster.cluster import Cluster
from copter.problems.cluster.placement import placer_for
from copter.problems.cluster.profiles.base import Profile
from copter.problems.cluster.profiles.tables import CountProfile
from copter.problems.cluster.registry import make_policy
from copter.problems.cluster.simulation.ahead import Ahead, Ending
from copter.problems.cluster.simulation.jobs import SimulatedJob
from copter.problems.cluster.simulation.present import Present
from copter.problems.cluster.workload import JobSubmission, Scenario

_LATER_SECONDS = 1.0
"""A start is later than another one if there are more than this many seconds between them."""
_LATE_SECONDS = 10.0
"""Seconds after the time for playing at which the process ends, also if no service is there to end it."""


class Rigid(NamedTuple):
    """A rigid job as far as it is known: its seconds in all, its number of GPUs, and their types."""

    seconds: float
    gpus: int
    types: tuple[str, ...]

    def profile(self) -> Profile:
        """Return the profile; the seconds begin with a start of the job, so restarts take no time."""
        return CountProfile("rigid", 0.0, self.seconds, [self.gpus], {type: [1.0] for type in self.types})


@dataclass(frozen=True)
class Question:
    """A present of the service, and the policy that is to be played from it.

    Attributes
    ----------
    policy, settings, round_seconds : str, mapping, float or None
        Name and settings of the policy, and the length of its rounds; None for a policy without rounds.
    cluster : Cluster
        Nodes in use.
    jobs, profiles : tuple of JobSubmission, mapping of str to Profile or Rigid
        Jobs, and what is known of each of them, by its name.
    present : Present
        State of the jobs.
    new : str or None
        Job without which the policy is to be played as well, for comparison.
    seconds : float
        Time limit.
    """

    policy: str
    settings: Mapping[str, Any]
    round_seconds: float | None
    cluster: Cluster
    jobs: tuple[JobSubmission, ...]
    profiles: Mapping[str, Profile | Rigid]
    present: Present
    new: str | None
    seconds: float

    def without(self) -> Question:
        """Return the same question without the new job."""
        jobs = tuple(job for job in self.jobs if job.name != self.new)
        there = {name: job for name, job in self.present.jobs.items() if name != self.new}
        after = {name: others for name, others in self.present.after.items() if name != self.new}
        return replace(self, jobs=jobs, present=replace(self.present, jobs=there, after=after), new=None)

    def simulation(self) -> Ahead:
        """Return the simulation, before the first call of the policy."""
        policy = make_policy(self.policy, **self.settings)
        jobs = [replace(job, application=job.name) for job in self.jobs]
        profiles = {
            name: one.profile() if isinstance(one, Rigid) else one for name, one in self.profiles.items()
        }
        return Ahead(
            Scenario(self.cluster, jobs, profiles),
            policy,
            self.present,
            round_seconds=self.round_seconds,
            placer=placer_for(policy),
        )


@dataclass
class Answer:
    """The starts that were found; another thread may read them while more are found.

    Attributes
    ----------
    starts : dict of str to float
        Time in seconds at which each job that has no GPUs would start, as far as known.
    until : float
        Time in seconds of the last round that was played; NaN before the first one.
    ending : {"started", "idle", "stopped"}
        Why the simulation ended; "stopped" as long as it has not.
    later, fewer : list of str or None
        Jobs that would start later because of the new job, and jobs that would have fewer GPUs when it
        starts; None if unknown.
    error : str
        Type and text of the policy's exception; empty without one.
    """

    starts: dict[str, float] = field(default_factory=dict)
    until: float = math.nan
    ending: Ending = "stopped"
    later: list[str] | None = None
    fewer: list[str] | None = None
    error: str = ""

    def find(self, question: Question) -> None:
        """Play the policy and note what comes out; an exception becomes the `error`."""
        try:
            self._find(question, time.monotonic() + question.seconds)
        except BaseException as error:  # also SystemExit of a policy
            self.error = described(error)

    def said(self) -> dict[str, Any]:
        """Return what is known so far as a dictionary for JSON."""
        later = self.later
        return {
            "starts": dict(self.starts),
            "until": None if math.isnan(self.until) else self.until,
            "ending": self.ending,
            "later": later,
            "fewer": self.fewer,
            "error": self.error,
        }

    def _find(self, question: Question, deadline: float) -> None:
        def late() -> bool:
            return time.monotonic() >= deadline

        ahead, new, with_it = question.simulation(), question.new, dict[str, int]()

        def look(now: float, jobs: Mapping[str, SimulatedJob]) -> None:
            self.until = now
            if new is not None and new in ahead.starts and not with_it:
                with_it.update(_gpus(jobs))

        self.starts = ahead.starts
        self.ending = ahead.play_starts(late, look)
        if new is None or new not in ahead.starts:
            return
        without_it, begin = dict[str, int](), ahead.starts[new]

        def look_without(now: float, jobs: Mapping[str, SimulatedJob]) -> None:
            if now >= begin and not without_it:
                without_it.update(_gpus(jobs))

        other = question.without().simulation()
        if other.play_starts(late, look_without, until=begin) == "stopped" or self.ending == "stopped":
            return
        later = [
            name
            for name, begins in other.starts.items()
            if ahead.starts.get(name, math.inf) > begins + _LATER_SECONDS
        ]
        self.fewer = [
            name for name, gpus in with_it.items() if gpus < without_it.get(name, 0) and name not in later
        ]
        self.later = later  # last, because the other thread reads it first


def _gpus(jobs: Mapping[str, SimulatedJob]) -> dict[str, int]:
    """Return the number of GPUs that each job has."""
    return {name: 0 if job.allocation is None else job.allocation.gpus for name, job in jobs.items()}


def main() -> None:
    """Answer one question."""
    out = os.dup(1)
    os.dup2(2, 1)  # a policy may print
    question: Question = pickle.load(sys.stdin.buffer)
    signal.signal(signal.SIGALRM, signal.SIG_DFL)  # it ends the process, also if the policy keeps the lock
    signal.setitimer(signal.ITIMER_REAL, question.seconds + _LATE_SECONDS)
    answer = Answer()
    thread = Thread(target=answer.find, args=(question,), daemon=True)
    thread.start()
    thread.join(question.seconds)
    with os.fdopen(out, "w") as file:
        file.write(json.dumps(answer.said()) + "\n")
    os._exit(0)  # the policy may still be computing


if __name__ == "__main__":
    main()
