"""The process of a forecast: it plays the policy of a service ahead, and finds when jobs would start.

    python -m copter.live.ahead

The process reads a pickled :class:`Question` from its parent, the service, and writes its answer as JSON.
"""

from __future__ import annotations

import json
import os
import pickle
import signal
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from copter.live.policy_thread import described
from copter.problems.cluster.placement import placer_for
from copter.problems.cluster.registry import make_policy
from copter.problems.cluster.simulation.ahead import Ahead
from copter.problems.cluster.simulation.present import Present
from copter.problems.cluster.workload import Scenario

_LATE_SECONDS = 10
"""Seconds after the time limit at which the process ends in any case, also if the service was killed."""
_NICE = 19
"""Increase of the nice value of the process, which gives it the lowest priority."""


@dataclass(frozen=True)
class Question:
    """The present state of a service, and the policy to be played from this state.

    Attributes
    ----------
    policy, settings, round_seconds : str, mapping, float or None
        Name and settings of the policy, and the length of its rounds; None for a policy without rounds.
    scenario : Scenario
        Nodes in use, jobs, and their known profiles.
    present : Present
        State of the jobs.
    seconds : float
        Time limit for playing.
    """

    policy: str
    settings: Mapping[str, Any]
    round_seconds: float | None
    scenario: Scenario
    present: Present
    seconds: float


def play(question: Question) -> dict[str, Any]:
    """Return the starts, the time of the last round and the ending, or the `error` of the policy."""
    deadline, rounds = time.monotonic() + question.seconds, list[float]()
    try:
        policy = make_policy(question.policy, **question.settings)
        ahead = Ahead(
            question.scenario,
            policy,
            question.present,
            round_seconds=question.round_seconds,
            placer=placer_for(policy),
        )
        ending = ahead.play_starts(lambda: time.monotonic() >= deadline, rounds.append)
        return {"starts": ahead.starts, "until": max(rounds, default=None), "ending": ending}
    except BaseException as error:  # also SystemExit of a policy
        return {"error": f"the policy {question.policy!r} failed: {described(error)}"}


def main() -> None:
    """Answer one question."""
    os.nice(_NICE)
    out = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # a policy may print
    question: Question = pickle.load(sys.stdin.buffer)
    signal.alarm(int(question.seconds) + _LATE_SECONDS)
    json.dump(play(question), out)
    out.flush()
    os._exit(0)


if __name__ == "__main__":
    main()
