"""The example `digits.py` with paced steps, on slots that simulate GPUs.

    python paced_digits.py APPLICATION SPEED [arguments of digits.py]

By the measured model of the application (:class:`copter.problems.cluster.profiles.throughput`), a step takes
T = s T_grad + T_iter seconds on its GPUs.  Here it takes T divided by the speed.  The job's first process
waits until its accumulating passes and its steps have taken that long, and all others wait for the sum of
the gradients.  Other work (checkpoints, restarts, reports) takes its real time.

Waits end late because the system needs time to wake a process, and averaging itself takes time.  So a step is
timed from the scheduled end of the step before, and makes up for its delay, but by at most half a step.  No
step is shorter than half of the model's, and on average steps are never faster than the model.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from pathlib import Path

from copter.live.training.plan import ProcessPlace
from copter.live.training.training import TrainingStep
from copter.problems.cluster.profiles.builtin import builtin_goodput_profiles
from copter.problems.cluster.profiles.throughput import ThroughputParameters

EXAMPLES = Path(__file__).parents[2] / "docs" / "examples" / "training"
_MOST_CAUGHT_UP = 0.5
"""Largest share of a step by which it may be shorter than the model's."""


class Pacing:
    """Waits that make steps as long as those of a model, divided by a speed."""

    def __init__(
        self,
        model: ThroughputParameters,
        speed: float,
        nodes: int,
        gpus: int,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._model, self._speed, self._nodes, self._gpus = model, speed, nodes, gpus
        self._clock, self._sleep = clock, sleep
        self._began = self._pass_seconds = self._seconds = 0.0
        self._due: float | None = None

    def begin(self, local_batch: int, accumulation: int) -> None:
        """Begin a step."""
        seconds = self._model.step_seconds(self._nodes, self._gpus, local_batch, accumulation)
        self._seconds = float(seconds) / self._speed
        self._pass_seconds = float(self._model.grad_seconds(local_batch)) / self._speed
        now = self._clock()
        earliest = now - _MOST_CAUGHT_UP * self._seconds
        self._began = now if self._due is None else max(self._due, earliest)
        self._due = self._began + self._seconds

    def end_pass(self, number: int) -> None:
        """Wait for the end of an accumulating pass; the first has the number 0."""
        self._wait(self._began + (number + 1) * self._pass_seconds)

    def end_step(self) -> None:
        """Wait for the end of the step."""
        self._wait(self._began + self._seconds)

    def _wait(self, until: float) -> None:
        if (left := until - self._clock()) > 0:
            self._sleep(left)


def paced(application: str, *arguments: object) -> list[str]:
    """Return the command of a job: the application, the speed, and the arguments of digits.py."""
    return [sys.executable, __file__, application, *map(str, arguments)]


def main() -> None:
    """Pace the steps of the first process."""
    script, application, speed, *arguments = sys.argv
    sys.argv = [script, *arguments]
    place, usual = ProcessPlace.here(), TrainingStep.passes
    assert place is not None
    if place.rank == 0:
        model = builtin_goodput_profiles()[application].models[place.type].parameters
        pacing = Pacing(model, float(speed), len(place.gpus), sum(place.gpus))

        def passes(step):
            pacing.begin(len(step._parts[0]), step.pass_count - 1)
            for number, part in enumerate(usual(step)):
                yield part
                pacing.end_step() if number + 1 == step.pass_count else pacing.end_pass(number)

        TrainingStep.passes = passes
    sys.path.insert(0, str(EXAMPLES))
    import digits

    digits.main()


if __name__ == "__main__":
    main()
