"""Reload of the cluster's file: what has changed, and what a running service cannot change.

A node keeps its number and its host while a run is on it, because the journal has the numbers of the nodes.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from copter.live.cluster import LiveCluster, first_numbers
from copter.live.files import ClusterFile, GpuNodes
from copter.live.reservations import Reservation, node_names

_FIXED = ("options", "pace")
"""Fields from which the backend and the launcher are made when the service starts."""


def changes(old: ClusterFile, new: ClusterFile) -> list[str]:
    """Return a sentence about each change of a cluster's file."""
    return list(_changes(old, new))


def _changes(old: ClusterFile, new: ClusterFile) -> Iterator[str]:
    before, after = ({one.type: one for one in file.gpus} for file in (old, new))
    for type, one in after.items():
        if type not in before:
            yield f"type {type!r} is new: nodes = {one.nodes}, gpus_per_node = {one.gpus_per_node}"
        else:
            yield from _differences(before[type], one, f"type {type!r}: ")
    for type in before:
        if type not in after:
            yield f"type {type!r} is gone"
    stay = [type for type in before if type in after]
    if stay != [type for type in after if type in before]:
        yield "the order of the types is another one"
    yield from _differences(old, new)


def _differences(old: ClusterFile | GpuNodes, new: ClusterFile | GpuNodes, where: str = "") -> Iterator[str]:
    """Yield a sentence about each field with another value, without the types of GPUs."""
    for name in type(new).model_fields:
        was, now = getattr(old, name), getattr(new, name)
        if was == now or name == "gpus":
            continue
        if isinstance(now, tuple):
            yield f"{where}{name} has changed"
        else:
            was, now = ("the default" if value is None else value for value in (was, now))
            yield f"{where}{name} is {now}, and was {was}"


def refusal(
    state: LiveCluster,
    old: ClusterFile,
    new: ClusterFile,
    reservations: Iterable[Reservation],
    *,
    numbered: bool,
) -> str:
    """Return why a running service cannot use a new file of its cluster; empty if it can.

    `reservations`: all of them, also those that are over. `numbered` is true if all nodes are on this machine
    and runs get numbers of its GPUs.
    """
    for name in _FIXED:
        if getattr(old, name) != getattr(new, name):
            return f"{name}: cannot change while the service runs; restart it"
    stay = reservable(state, new)
    for one in reservations:
        gone = [node for node in one.nodes if one.status != "over" and node not in stay]
        if gone:
            why = f"must stay, without max_nodes: reserved by {one.name!r}; end the reservation first"
            return f"gpus: {node_names(gone)}: {why}"
    hosts = {
        (one.type, node): one.host(node) for one in new.gpus for node in range(one.max_nodes or one.nodes)
    }
    node_of = {host: node for node, host in hosts.items()}
    moved = _renumbered(state, new) if numbered else set()
    before, renumbers = {(type, node) for type, node, _ in state.nodes()}, state.nodes() != state.nodes(new)
    for job in state.running():
        assert job.run is not None
        type, nodes = job.run.place
        if numbered and renumbers and not all((type, node) in before for node, _ in nodes):
            return f"gpus: job {job.name!r} is still ending on a node that is gone; reload when it has ended"
        for (number, _), host in zip(nodes, job.run.hosts, strict=True):
            node = type, number
            if hosts.get(node, host) != host or node_of.get(host, node) != node:
                shown, why = f"node {type}-{number}", f"must stay host {host!r}"
            elif node in moved:
                shown, why = f"node {type}-{number}", "must keep the numbers of its GPUs"
            else:
                continue
            return f"gpus: {shown} {why} while job {job.name!r} is on it; drain it first, or append new nodes"
    return ""


def reservable(state: LiveCluster, file: ClusterFile) -> dict[tuple[str, int], int]:
    """Return the GPUs of each node that a reservation may have, for the nodes of a file.

    A type with `max_nodes` is left out, because the policy adds and removes its nodes.
    """
    fixed = {one.type for one in file.gpus if one.max_nodes is None}
    return {(type, node): gpus for type, node, gpus in state.nodes(file) if type in fixed}


def _renumbered(state: LiveCluster, new: ClusterFile) -> set[tuple[str, int]]:
    """Return the nodes that have other GPUs of the machine in a new file, or GPUs of another node."""
    before, after = state.nodes(), state.nodes(new)
    was, becomes = first_numbers(before), first_numbers(after)
    owners = {becomes[type, node] + gpu: (type, node) for type, node, gpus in after for gpu in range(gpus)}
    last = dict.fromkeys(was, 0)  # a node may have had more GPUs when a run began
    for job in state.running():
        assert job.run is not None
        type, nodes = job.run.place
        for (node, _), devices in zip(nodes, job.run.devices, strict=True):
            last[type, node] = max(last.get((type, node), 0), 1 + max(devices, default=-1))
    return {
        (type, node)
        for type, node, gpus in before
        if becomes.get((type, node), was[type, node]) != was[type, node]
        or any(
            owners.get(was[type, node] + gpu, (type, node)) != (type, node)
            for gpu in range(max(gpus, last[type, node]))
        )
    }
