"""Sections of the page of a run of policies: completion times, fairness, load, and the GPUs of each job."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from copter.arrays import Floats
from copter.bench.report.model import Claim, Picture
from copter.cli.plots import cumulative, over_time, picture
from copter.extras import extra
from copter.problems.cluster.experiment import PolicyOutcome
from copter.problems.cluster.report.fairness import finish_time_fairness, first_waits
from copter.problems.cluster.results import Segment

with extra("cli"):
    import matplotlib as mpl
    from matplotlib.figure import Figure
    from matplotlib.patches import Patch

_TIMES, _SLOTS = 480, 160
"""Width and largest height of a timeline in pixels."""
_HUES = 10


def sections(outcomes: Sequence[PolicyOutcome]) -> list[Claim]:
    """Return the sections about some outcomes; those over time are of the first seed."""
    by_policy: dict[str, list[PolicyOutcome]] = {}
    for outcome in outcomes:
        by_policy.setdefault(outcome.policy, []).append(outcome)
    first = {name: listed[0] for name, listed in by_policy.items()}
    return [
        Claim("completion", "Job completion times", pictures=(_completion(by_policy),)),
        Claim(
            "fairness",
            "Finish time fairness",
            "Completion time over the time on a fair share alone; above 1 is unfair.",
            (_fairness(by_policy),),
        ),
        Claim("load", "Jobs and GPUs over time", pictures=_load(first)),
        Claim("gpus", "GPUs of each job over time", pictures=tuple(map(_timelines, first.values()))),
    ]


def _completion(by_policy: Mapping[str, Sequence[PolicyOutcome]]) -> Picture:
    samples = {
        name: [job.jct / 3600.0 for one in listed for job in one.jobs if job.jct > 0]
        for name, listed in by_policy.items()
    }
    return cumulative("jct", samples, "job completion time (hours)", "Share of the jobs that complete within")


def _fairness(by_policy: Mapping[str, Sequence[PolicyOutcome]]) -> Picture:
    samples = {
        name: [
            float(ratio)
            for one in listed
            for ratio in finish_time_fairness(one.scenario, one.jobs, waits=first_waits(one.jobs, one.rounds))
            if np.isfinite(ratio)
        ]
        for name, listed in by_policy.items()
    }
    return cumulative("ftf", samples, "finish time fairness", "Share of the jobs with a ratio of at most")


def _load(first: Mapping[str, PolicyOutcome]) -> tuple[Picture, Picture]:
    hours = {name: [record.time / 3600.0 for record in one.rounds] for name, one in first.items()}
    jobs = {name: [record.jobs for record in one.rounds] for name, one in first.items()}
    gpus = {name: [sum(record.gpus.values()) for record in one.rounds] for name, one in first.items()}
    return (
        over_time("jobs", hours, jobs, "jobs in the cluster", "Jobs in the cluster"),
        over_time("used", hours, gpus, "GPUs in use", "GPUs in use"),
    )


def _timelines(outcome: PolicyOutcome) -> Picture:
    """Return the timelines of a policy, one for each GPU type."""
    types = [type for type in outcome.scenario.cluster.types if type.gpus]
    end = max((segment.end for segment in outcome.segments), default=1.0)
    figure = Figure(figsize=(9.0, 2.6), layout="constrained")
    grid = figure.subplots(1, len(types), squeeze=False)[0]
    for axes, type in zip(grid, types, strict=True):
        mine = [segment for segment in outcome.segments if segment.type == type.name]
        axes.imshow(
            _timeline(mine, outcome, type.gpus, end),
            origin="lower",
            aspect="auto",
            interpolation="nearest",
            extent=(0, end / 3600.0, 0, type.gpus),
        )
        axes.set_title(type.name, fontsize="small", loc="left")
        axes.tick_params(labelsize="x-small")
    grid[0].set_ylabel("GPUs", fontsize="small")
    figure.supxlabel("simulated time (hours)", fontsize="small")
    caption, known = f"{outcome.policy}, by application", list(_applications(outcome))
    if len(known) <= _HUES:
        hues = zip(known, _colours(len(known)), strict=False)
        handles = [Patch(color=hue, label=name) for name, hue in hues]
        figure.legend(handles=handles, loc="outside lower left", ncols=5, fontsize="small", frameon=False)
    else:
        caption += f": {len(known)} applications, ten colours in turn"
    return picture(f"gpus-{outcome.policy}", caption, figure)


def _applications(outcome: PolicyOutcome) -> dict[str, int]:
    return {name: k for k, name in enumerate(sorted({job.application for job in outcome.scenario.jobs}))}


def _colours(count: int) -> Floats:
    """Return a colour for each application, from ten hues in turn."""
    return np.array([mpl.colormaps["tab10"](k % _HUES)[:3] for k in range(max(count, 1))])


def _timeline(segments: Sequence[Segment], outcome: PolicyOutcome, gpus: int, end: float) -> Floats:
    """Return the colours of the GPUs of one type over time, white where a GPU is idle."""
    rows = min(gpus, _SLOTS)
    order = {job.name: k for k, job in enumerate(outcome.jobs)}
    applications = _applications(outcome)
    colours = _colours(len(applications))
    of = {job.name: applications[job.application] for job in outcome.jobs}
    held = np.zeros(_TIMES, np.int64)
    picture = np.ones((rows, _TIMES, 3))
    times = (np.arange(_TIMES) + 0.5) * end / _TIMES
    for segment in sorted(segments, key=lambda one: order[one.job]):
        first, last = np.searchsorted(times, (segment.begin, segment.end))
        colour = colours[of[segment.job]]
        shade = colour if order[segment.job] % 2 else 0.65 * colour + 0.35
        for at in range(int(first), int(last)):
            bottom = held[at] * rows // gpus
            held[at] += segment.gpus
            picture[bottom : held[at] * rows // gpus, at] = shade
    return picture
