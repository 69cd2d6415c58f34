"""The process of a forecast: it plays the policy of a service ahead, and says when jobs would start.

    python -m copter.live.ahead

The process reads a pickled :class:`Question` from its parent, the service.  It writes a line of JSON when it
begins to play, one when jobs have started, and a last one that has `ending`.  So what is known counts,
whatever the policy does.
"""

from __future__ import annotations

import json
import os
import pickle
import signal
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from copter.live.policy_thread import described
from copter.problems.cluster.cluster import Cluster
from copter.problems.cluster.placement import placer_for
from copter.problems.cluster.profiles.base import Profile
from copter.problems.cluster.profiles.tables import CountProfile
from copter.problems.cluster.registry import make_policy
from copter.problems.cluster.simulation.ahead import Ahead
from copter.problems.cluster.simulation.present import Present
from copter.problems.cluster.workload import JobSubmission, Scenario

_SAID_SECONDS = 0.1
"""Seconds between two lines without new starts."""
_LATE_SECONDS = 10
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
    seconds: float

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


def play(question: Question, say: Callable[[dict[str, Any]], object]) -> None:
    """Play the policy, and say new starts and the time of the last round; an exception is the `error`."""
    said, last = set[str](), time.monotonic()
    deadline = last + question.seconds

    def look(now: float) -> None:
        nonlocal last
        new = {name: start for name, start in ahead.starts.items() if name not in said}
        if new or time.monotonic() > last + _SAID_SECONDS:
            said.update(new)
            say({"starts": new, "until": now})
            last = time.monotonic()

    say({})
    try:
        ahead = question.simulation()
        say({"ending": ahead.play_starts(lambda: time.monotonic() >= deadline, look)})
    except BaseException as error:  # also SystemExit of a policy
        say({"ending": "stopped", "error": described(error)})


def main() -> None:
    """Answer one question."""
    out = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)  # a policy may print
    question: Question = pickle.load(sys.stdin.buffer)
    signal.alarm(int(question.seconds) + _LATE_SECONDS)
    play(question, lambda said: print(json.dumps(said), file=out))
    os._exit(0)


if __name__ == "__main__":
    main()
