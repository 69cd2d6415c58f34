"""`copter run traffic`: rounds and links in its folder, and the picture of the network."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from copter.arrays import Flags, Floats
from copter.bench.report.model import Claim, Picture
from copter.bench.settings import Record, SolverSettings
from copter.cli.command import RunOptions
from copter.cli.console import seconds
from copter.cli.plots import picture
from copter.cli.run import COLUMNS, ROUNDS, Run, run_course
from copter.cli.runfolder import Rows
from copter.extras import extra
from copter.problems.traffic import MAX_MIN
from copter.problems.traffic.course import FairCourse, TrafficCourse
from copter.problems.traffic.state import TrafficState
from copter.problems.traffic.topology import Topology

with extra("cli"):
    from matplotlib.collections import LineCollection
    from matplotlib.figure import Figure

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

    def links() -> Iterator[Claim]:
        for capacity, loads, shares in last:
            for link in range(network.n_links):
                ends = network.nodes[network.tail[link]], network.nodes[network.head[link]]
                row = *ends, capacity[link], loads[link], shares[link]
                run.write(_LINKS, dict(zip(_LINK, row, strict=True)))
            caption = f"{network.name} after the last round: links by used share of capacity"
            yield Claim("links", "Links", pictures=(_network(network, shares, capacity <= 0, caption),))

    config = {"nodes": network.n_nodes, "links": network.n_links}
    with Run(options, "traffic", title, files, config) as run:
        watched = replace(course, on_loads=observe)
        run_course(run, watched, chosen, columns, show, course.n_rounds, links)


def _network(topology: Topology, utilisation: Floats, down: Flags, caption: str) -> Picture:
    """Draw a network with its links by utilisation; of two directions, the busier one is visible."""
    place = _places(topology)
    order = np.argsort(utilisation, kind="stable")  # the busiest are drawn last, on top
    ends = np.stack((place[topology.tail[order]], place[topology.head[order]]), axis=1)
    figure = Figure(figsize=(9.0, 6.0), layout="constrained")
    axes = figure.add_subplot()
    dead = down[order]
    share = np.minimum(np.where(np.isfinite(utilisation[order]), utilisation[order], 0.0), 1.0)
    lines = LineCollection(
        list(ends[~dead]), array=share[~dead], cmap="viridis_r", linewidths=0.5 + 2.0 * share[~dead]
    )
    lines.set_clim(0.0, 1.0)
    axes.add_collection(lines)
    failed = LineCollection(list(ends[dead]), colors="tab:red", linestyles="dashed", linewidths=1.2)
    axes.add_collection(failed)
    if dead.any():
        failed.set_label("down")
        axes.legend(loc="upper right", frameon=False)
    axes.plot(place[:, 0], place[:, 1], "o", color="black", markersize=2.0)
    figure.colorbar(lines, ax=axes, label="share of the link's capacity used", shrink=0.7)
    axes.set_axis_off()
    return picture("network", caption, figure)


def _places(topology: Topology) -> Floats:
    if topology.position is not None:
        return topology.position
    import networkx as nx

    found = nx.spring_layout(topology.to_networkx(), seed=0)
    return np.array([found[node] for node in range(topology.n_nodes)])
