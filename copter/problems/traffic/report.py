"""`copter run traffic`: rounds and links in its folder."""

from __future__ import annotations

from dataclasses import replace

from copter.arrays import Floats
from copter.bench.settings import Record, SolverSettings
from copter.cli.command import RunOptions
from copter.cli.console import seconds
from copter.cli.run import COLUMNS, ROUNDS, Run, run_course
from copter.cli.runfolder import Rows
from copter.problems.traffic import MAX_MIN
from copter.problems.traffic.course import FairCourse, TrafficCourse
from copter.problems.traffic.state import TrafficState

_LINKS = "links.csv"
_ROUND = {
    "parallel_seconds_estimated": "estimated seconds of the round with a machine for each part of POP",
    "change": "kind of change before the round",
    "answer_objective": "cost of the feasible flow (max-flow: minus the flow)",
    "overload": "largest relative excess of a link's load over its capacity",
}
_MEASURES = {
    "total_flow": "sum of all feasible flows",
    "mlu": "largest used share of a link's capacity",
}
_FAIR = {
    "limited": "demands that a bottleneck limits (max-min)",
    "bottlenecks": "groups of links that limit demands (max-min)",
    "shortfall": "largest share of its fair rate that a demand lacks (max-min)",
    "solves": "linear programs that the round solved (max-min)",
}
_LINK = {
    "tail": "node at which the link begins",
    "head": "node at which the link ends",
    "capacity": "capacity in the last round; 0 if the link is down",
    "load": "flow on the link",
    "utilisation": "load over capacity",
}


def run_traffic(course: TrafficCourse, chosen: SolverSettings, options: RunOptions) -> None:
    """Play the rounds of a course with a solver or a method, and report them with the links at the end."""
    instance, fair = course.instance, isinstance(course, FairCourse)
    network, measure = instance.topology, course.measure
    what = f"{network.name}, {instance.paths.n_pairs:,} demands, {chosen.name}"
    title = f"Traffic engineering, {MAX_MIN if fair else course.objective}: {what}"
    columns = {**COLUMNS, **_ROUND, measure: _MEASURES[measure], **(_FAIR if fair else {})}
    files = {
        ROUNDS: Rows("a row per round:", columns),
        _LINKS: Rows("a row per link, after the last round:", _LINK),
    }
    last: list[tuple[Floats, Floats, Floats]] = []

    def observe(traffic: TrafficState, loads: Floats) -> None:
        last[:] = [(traffic.effective_capacity, loads, traffic.utilisation(loads))]

    def show(record: Record) -> str:
        return f"{measure} {record[measure]:.6g} solve {seconds(record['solve_seconds'])}"

    config = {"nodes": network.n_nodes, "links": network.n_links}
    with Run(options, "traffic", title, files, config) as run:
        watched = replace(course, on_loads=observe)
        run_course(run, watched, chosen, columns, show, course.n_rounds)
        for capacity, loads, shares in last:
            for link in range(network.n_links):
                ends = network.nodes[network.tail[link]], network.nodes[network.head[link]]
                row = *ends, capacity[link], loads[link], shares[link]
                run.write(_LINKS, dict(zip(_LINK, row, strict=True)))
