"""The report of a run as JSON, checked strictly: from HTTP, or from a file that the run has written."""

from __future__ import annotations

from typing import Annotated

from copter.extras import extra
from copter.live.files import Strict
from copter.live.training.plan import StepTimes, TrainingReport

with extra("live"):
    from pydantic import Field

_MOST_TIMES = 64
"""Largest number of step times in a report.

A run reports one time for each local batch that it used since its last report."""
_Finite = Annotated[float, Field(allow_inf_nan=False, ge=-1e300, le=1e300)]
_Share = Annotated[float, Field(allow_inf_nan=False, ge=0, le=1e15)]
_Whole = Annotated[int, Field(ge=0, le=2**53)]


class Times(Strict):
    """Times of similar steps, see :class:`.training.plan.StepTimes`."""

    local_batch: Annotated[int, Field(ge=1, le=2**31)]
    count: Annotated[int, Field(ge=1, le=2**31)]
    log_seconds: Annotated[float, Field(ge=-50, le=50, allow_inf_nan=False)]


class ReportBody(Strict):
    """The report of a run, see :class:`.training.plan.TrainingReport`."""

    progress: _Share
    steps: _Whole
    running_seconds: _Share
    times: Annotated[tuple[Times, ...], Field(max_length=_MOST_TIMES, strict=False)] = ()
    squared_norm: _Finite | None = None
    variance: Annotated[float, Field(ge=0, le=1e300, allow_inf_nan=False)] | None = None
    batch_size: Annotated[int, Field(ge=0, le=2**31)]
    saved_progress: _Share

    def report(self) -> TrainingReport:
        """Return the body as a report."""
        times = tuple(StepTimes(**dict(one)) for one in self.times)
        return TrainingReport(**{**dict(self), "times": times})
