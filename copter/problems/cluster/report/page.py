"""report.html: one page with the pictures and tables of a run, without other files.

Line plots are SVG; timelines, with a block of colour for each GPU and time, are PNG.  Each timeline shows one
policy and GPU type of the first seed.  A row is a GPU of that type, counted from below in the order of
arrival of the jobs that hold the GPUs.  A colour is an application, with light and dark jobs in turn.
"""

from __future__ import annotations

import base64
import html
import io
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from copter.arrays import Floats
from copter.cli.console import seconds
from copter.cli.plots import cumulative
from copter.extras import extra
from copter.problems.cluster.experiment import PolicyOutcome
from copter.problems.cluster.report.fairness import finish_time_fairness, first_waits
from copter.problems.cluster.report.sweep import number
from copter.problems.cluster.results import Segment

with extra("cli"):
    import matplotlib
    from matplotlib.figure import Figure


_TIMES, _SLOTS = 480, 160
"""Width and largest height of a timeline in pixels."""
_STYLE = """
body { font: 15px/1.5 system-ui, sans-serif; margin: 2rem auto; max-width: 70rem; padding: 0 1rem }
h1 { font-size: 1.5rem } h2 { font-size: 1.15rem; margin-top: 2.2rem }
table { border-collapse: collapse; font-variant-numeric: tabular-nums; display: block; overflow-x: auto }
th, td { padding: .25rem .7rem; border-bottom: 1px solid #ddd; text-align: right; white-space: nowrap }
th:first-child, td:first-child { text-align: left }
svg, img { max-width: 100%; height: auto } p { max-width: 45rem } .small { color: #666; font-size: 13px }
"""


_TABLE = {
    "average_jct_hours": "average JCT (h)",
    "p50_jct_hours": "p50 (h)",
    "p99_jct_hours": "p99 (h)",
    "makespan_hours": "makespan (h)",
    "gpu_hours_per_job": "GPU-h/job",
    "restarts_per_job": "restarts",
    "utilisation": "used",
    "worst_ftf": "worst FTF",
    "unfair_fraction": "unfair",
    "jobs_completed": "jobs",
}


def table_rows(policies: dict[str, dict[str, float]]) -> Sequence[tuple[str, ...]]:
    """Return the rows of the table of policies."""
    return [
        (
            name,
            *(number(one[key], one[f"{key}_std"]) for key in _TABLE),
            seconds(one["policy_p50_s"]),
            seconds(one["policy_p99_s"]),
        )
        for name, one in policies.items()
    ]


def table_columns() -> tuple[str, ...]:
    """Return the column headings of the table of policies."""
    return ("policy", *_TABLE.values(), "policy p50", "p99")


def write_page(
    path: Path, title: str, outcomes: Sequence[PolicyOutcome], policies: Mapping[str, Mapping[str, float]]
) -> None:
    """Write report.html."""
    by_policy: dict[str, list[PolicyOutcome]] = {}
    for outcome in outcomes:
        by_policy.setdefault(outcome.policy, []).append(outcome)
    rows = table_rows({name: dict(one) for name, one in policies.items()})
    parts = [
        f"<h1>{html.escape(title)}</h1>",
        "<h2>Figures</h2>",
        _table(table_columns(), rows),
        "<p class=small>Means over the seeds, ± standard deviation; 95% intervals are in summary.json.</p>",
        "<h2>Job completion times</h2>",
        _svg(_completion(by_policy)),
        "<h2>Finish time fairness</h2>",
        "<p class=small>Completion time over the time on a fair share alone; above 1 is unfair.</p>",
        _svg(_fairness(by_policy)),
        "<h2>Jobs and GPUs over time</h2>",
        _svg(_load(by_policy)),
        "<h2>GPUs of each job over time</h2>",
        f"<p class=small>First seed; {_legend(outcomes)}</p>",
        *(_timelines(name, listed[0]) for name, listed in by_policy.items()),
    ]
    page = f"<!doctype html><meta charset=utf-8><title>{html.escape(title)}</title>"
    viewport = '<meta name=viewport content="width=device-width">'
    path.write_text(f"{page}{viewport}<style>{_STYLE}</style>\n" + "\n".join(parts) + "\n", encoding="utf-8")


def _table(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    head = "".join(f"<th>{html.escape(name)}" for name in columns)
    body = "".join("<tr>" + "".join(f"<td>{html.escape(cell)}" for cell in row) for row in rows)
    return f"<table><thead><tr>{head}</thead><tbody>{body}</tbody></table>"


def _svg(figure: Figure) -> str:
    target = io.StringIO()
    figure.savefig(target, format="svg", metadata={"Date": None})
    text = target.getvalue()
    return text[text.index("<svg") :]


def _completion(by_policy: Mapping[str, Sequence[PolicyOutcome]]) -> Figure:
    samples = {
        name: [job.jct / 3600.0 for one in listed for job in one.jobs if job.jct > 0]
        for name, listed in by_policy.items()
    }
    return cumulative(samples, "job completion time (hours)", "Jobs complete within")


def _fairness(by_policy: Mapping[str, Sequence[PolicyOutcome]]) -> Figure:
    samples = {
        name: [
            float(ratio)
            for one in listed
            for ratio in finish_time_fairness(one.scenario, one.jobs, waits=first_waits(one.jobs, one.rounds))
            if np.isfinite(ratio)
        ]
        for name, listed in by_policy.items()
    }
    return cumulative(samples, "finish time fairness", "Jobs with a ratio of at most")


def _load(by_policy: Mapping[str, Sequence[PolicyOutcome]]) -> Figure:
    figure = Figure(figsize=(9.0, 4.6 + 0.2 * (len(by_policy) // 4)), layout="constrained")
    above, below = figure.subplots(2, 1, sharex=True)
    for name, listed in by_policy.items():
        hours = [record.time / 3600.0 for record in listed[0].rounds]
        above.step(hours, [record.jobs for record in listed[0].rounds], where="post", linewidth=1, label=name)
        used = [sum(record.gpus.values()) for record in listed[0].rounds]
        below.step(hours, used, where="post", linewidth=1)
    above.set_ylabel("jobs in the cluster")
    below.set_ylabel("GPUs in use")
    below.set_xlabel("simulated time (hours)")
    above.legend(fontsize="small", frameon=False, ncols=4)
    for axes in (above, below):
        axes.grid(alpha=0.3)
        axes.spines[["top", "right"]].set_visible(False)
    return figure


def _applications(outcome: PolicyOutcome) -> dict[str, int]:
    return {name: k for k, name in enumerate(sorted({job.application for job in outcome.scenario.jobs}))}


def _colours(count: int) -> Floats:
    """Return a colour for each application, from ten hues in turn."""
    return np.array([matplotlib.colormaps["tab10"](k % 10)[:3] for k in range(max(count, 1))])


def _legend(outcomes: Sequence[PolicyOutcome]) -> str:
    known = _applications(outcomes[0])
    if len(known) > 10:
        return f"{len(known)} applications, ten colours in turn"
    names = []
    for name, k in known.items():
        red, green, blue = (int(255 * part) for part in _colours(len(known))[k])
        names.append(f'<span style="color:rgb({red},{green},{blue})">■</span> {html.escape(name)}')
    return " ".join(names)


def _timelines(name: str, outcome: PolicyOutcome) -> str:
    """Return the timelines of a policy as one image, one for each GPU type."""
    types = [type for type in outcome.scenario.cluster.types if type.gpus]
    end = max((segment.end for segment in outcome.segments), default=1.0)
    figure = Figure(figsize=(9.0, 2.0), layout="constrained")
    grid = figure.subplots(1, len(types), squeeze=False)[0]
    for axes, type in zip(grid, types, strict=True):
        mine = [segment for segment in outcome.segments if segment.type == type.name]
        picture = _timeline(mine, outcome, type.gpus, end)
        axes.imshow(
            picture,
            origin="lower",
            aspect="auto",
            interpolation="nearest",
            extent=(0, end / 3600.0, 0, type.gpus),
        )
        axes.set_title(type.name, fontsize="small", loc="left")
        axes.tick_params(labelsize="x-small")
    grid[0].set_ylabel("GPUs", fontsize="small")
    figure.supxlabel("simulated time (hours)", fontsize="small")
    target = io.BytesIO()
    figure.savefig(target, format="png", dpi=110)
    data = base64.b64encode(target.getvalue()).decode()
    shown = html.escape(name)
    return f'<h3>{shown}</h3><img alt="GPUs of {shown}" src="data:image/png;base64,{data}">'


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
