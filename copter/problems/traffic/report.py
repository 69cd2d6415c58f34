"""Files of a traffic run: rounds, links, figures and plots in its folder, and the table at its end."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np

from copter.arrays import Flags, Floats
from copter.bench.settings import SolverSettings
from copter.cli.command import RunOptions
from copter.cli.run import COLUMNS, RoundsRun
from copter.cli.runfolder import RunFolder
from copter.extras import extra
from copter.problems.traffic import MAX_MIN
from copter.problems.traffic.course import FairCourse, Instance, TrafficCourse
from copter.problems.traffic.state import TrafficState
from copter.problems.traffic.topology import Topology

with extra("cli"):
    from matplotlib.collections import LineCollection
    from matplotlib.figure import Figure

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


class TrafficRun(RoundsRun):
    """Rounds of a course, with the output folder, if any."""

    def __init__(
        self,
        course: TrafficCourse,
        instance: Instance,
        chosen: SolverSettings,
        options: RunOptions,
        path: Path | None,
    ) -> None:
        self.course = replace(course, on_loads=self._observe)
        self.instance = instance
        self._last: tuple[Floats, Floats, Floats] | None = None
        network, measure = instance.topology, course.measure
        what = f"{network.name}, {instance.paths.n_pairs:,} demands, {chosen.name}"
        fair = isinstance(course, FairCourse)
        columns = {**COLUMNS, **_ROUND, measure: _MEASURES[measure], **(_FAIR if fair else {})}
        config = {"nodes": network.n_nodes, "links": network.n_links}
        left = course.left_out
        title = f"Traffic engineering, {MAX_MIN if fair else course.objective}: {what}"
        super().__init__(options, path, title, columns, course.figures, left_out=left, config=config)

    def _observe(self, traffic: TrafficState, loads: Floats) -> None:
        self._last = traffic.effective_capacity, loads, traffic.utilisation(loads)

    def write(self, folder: RunFolder) -> None:
        """Write the plots, and the links with a picture of the network."""
        super().write(folder)
        if self._last is not None:
            self._write_links(folder, *self._last)

    def _write_links(self, folder: RunFolder, capacity: Floats, loads: Floats, shares: Floats) -> None:
        topology = self.instance.topology
        rows = (
            {
                "tail": topology.nodes[topology.tail[link]],
                "head": topology.nodes[topology.head[link]],
                "capacity": capacity[link],
                "load": loads[link],
                "utilisation": shares[link],
            }
            for link in range(topology.n_links)
        )
        folder.write_rows("links.csv", _LINK, rows, "a row per link, after the last round:")
        figure = _draw_network(topology, shares, capacity <= 0, f"{topology.name} after the last round")
        folder.save_figure("network.png", figure, "the network, with links by used share of capacity")


def _draw_network(topology: Topology, utilisation: Floats, down: Flags, title: str) -> Figure:
    """Draw a network with its links by utilisation; of two directions, the busier one is visible.

    `utilisation` (links,). `down` (links,): links without capacity, drawn dashed.
    """
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
    axes.set_title(title, loc="left")
    axes.set_axis_off()
    return figure


def _places(topology: Topology) -> Floats:
    if topology.position is not None:
        return topology.position
    import networkx as nx

    found = nx.spring_layout(topology.to_networkx(), seed=0)
    return np.array([found[node] for node in range(topology.n_nodes)])
