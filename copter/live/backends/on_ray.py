"""Runs as actors of a Ray cluster: one actor on every node of a run starts the agent there.

A run has a placement group, so it begins on all of its nodes or on none.  The run keeps its GPUs until it has
ended on all nodes.  Actors and the group are detached and have names, so a service finds them again after it
was killed. A node has the name given to ``ray start --node-name``; without a name, Ray uses the node's
address as its name. The backend does not use Ray's ids of nodes, because they change when a node restarts.

Ray itself decides which nodes it adds and removes; this backend does not request any.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import Any

from copter.extras import extra
from copter.live.backends import agent
from copter.live.backends.base import (
    LATE_SECONDS,
    BackendError,
    Run,
    RunState,
    begun,
    claim,
    ended,
    environment_of,
    has_begun,
    merged,
    passed_on,
)
from copter.live.untrusted import UntrustedFileError
from copter.ray.session import NoClusterError, Session, probe

with extra("ray"):
    import ray
    from ray.util.placement_group import (
        PlacementGroup,
        placement_group,
        placement_group_table,
        remove_placement_group,
    )
    from ray.util.scheduling_strategies import PlacementGroupSchedulingStrategy

_KILL_SECONDS = 3.0
"""Seconds in which an actor must kill its part of a run; then the actor and its agent are killed."""
_NAMESPACE = "copter"


class _Node:
    """An actor that starts the agent of a run on a node; when one of the two ends, the other ends too."""

    def __init__(self, folder: str, node: int, python: str, passed: Sequence[str]) -> None:
        devices = ray.get_runtime_context().get_accelerator_ids().get("GPU", [])
        parent = os.getpid()
        with open(os.path.join(folder, f"agent-{node}.txt"), "ab") as errors:
            self._agent = subprocess.Popen(
                [python, "-I", "-S", agent.__file__, folder, str(node)],
                env=environment_of(passed) | {agent.DEVICES: ",".join(devices)},
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=errors,
                start_new_session=True,
                preexec_fn=lambda: agent.die_with(parent, signal.SIGUSR2),
            )
        self._part = folder, node
        threading.Thread(target=self._end_with_it, daemon=True).start()

    def signal(self, number: int) -> None:
        """Send a signal to the agent, or kill all processes of the part."""
        if number == signal.SIGKILL:
            agent.kill_part(*self._part, self._agent.pid)
        else:
            self._agent.send_signal(number)

    def _end_with_it(self) -> None:
        self._agent.wait()
        while not agent.kill_part(*self._part, None):  # kill what a killed agent left behind
            pass
        os.kill(os.getpid(), signal.SIGTERM)  # on SIGTERM, a Ray worker shuts down in an orderly way


class RayBackend:
    """Backend that runs jobs as actors of a Ray cluster.

    Parameters
    ----------
    cluster : str
        Id of the service's cluster, part of the names of its actors.
    hosts : sequence of str
        Names of the cluster's nodes in Ray.
    address : str, optional
        Address of the Ray cluster.  Without an address, the backend uses the Ray of this process, or starts
        Ray on this machine; this Ray and its runs end with the process.
    resources : mapping of str to str
        Name of the Ray resource of a GPU type, if it is not ``GPU``; for example ``TPU``.
    cpus_per_gpu : float
        Processors that Ray reserves for each GPU.
    python : str
        Python interpreter on the nodes, version 3.9 or later.
    environment : sequence of str
        Names of variables of the nodes that jobs get in addition to :data:`.base.PASSED_ON`.

    Raises
    ------
    BackendError
        If there is no Ray at the address.
    """

    name = "ray"
    picks_devices = True
    notice = ""

    def __init__(
        self,
        cluster: str,
        hosts: Sequence[str],
        *,
        address: str | None = None,
        resources: Mapping[str, str] | None = None,
        cpus_per_gpu: float = 1.0,
        python: str = sys.executable,
        environment: Sequence[str] = (),
    ) -> None:
        self._passed = passed_on(environment)
        self._cluster, self._hosts, self._address = cluster, tuple(hosts), address
        self._resources, self._cpus, self._python = dict(resources or {}), cpus_per_gpu, python
        self._missing: dict[str, float] = {}  # when the actors of a run were first found to be missing
        self._session: Session | None = None
        with self._answering():
            pass

    def down(self) -> Mapping[str, str]:
        """Return the nodes that Ray has lost or never had, with the reason for each."""
        why = {}
        with self._answering():
            nodes = _nodes()
        for host in self._hosts:
            if host not in nodes:
                why[host] = "unknown to Ray"
            elif not nodes[host]["Alive"]:
                why[host] = f"Ray lost it: {nodes[host]['DeathReasonMessage'] or 'no reason is known'}"
        return why

    def start(self, run: Run) -> None:
        """Request a placement group and actors in it; Ray starts them when there is room."""
        with self._answering():
            down, nodes = self.down(), _nodes()
            resource = self._resources.get(run.type, "GPU")
            for host, count in zip(run.hosts, run.gpus, strict=True):
                if host in down or host not in nodes:
                    raise BackendError(f"run {run.id}: node {host}: {down.get(host, 'unknown to Ray')}")
                has = nodes[host]["Resources"].get(resource, 0.0)
                if has < count:
                    raise BackendError(f"run {run.id}: node {host} has {has:g} {resource}, not {count}")
            self._create(run, [nodes[host]["NodeManagerAddress"] for host in run.hosts], resource)

    def stop(self, run: Run) -> None:
        """Send SIGTERM to the agents; a part that has not begun will never begin."""
        with self._answering():
            for node in range(len(run.hosts)):
                claim(run.folder, node)
            if not has_begun(run):
                self.kill(run)
                return
            for node in range(len(run.hosts)):
                if begun(run.folder, node) and (actor := self._actor(run, node)):
                    actor.signal.remote(signal.SIGTERM)

    def kill(self, run: Run) -> None:
        """Let the actors kill the processes of the run and the agents, and then kill the actors."""
        with self._answering():
            nodes = range(len(run.hosts))
            for node in nodes:
                with suppress(UntrustedFileError):  # no agent can begin in this folder
                    claim(run.folder, node)
            actors = [actor for node in nodes if (actor := self._actor(run, node))]
            begins = True
            with suppress(UntrustedFileError):
                begins = has_begun(run)
            if actors and begins:
                told = [actor.signal.remote(signal.SIGKILL) for actor in actors]
                ray.wait(told, num_returns=len(told), timeout=_KILL_SECONDS)
            for actor in actors:
                ray.kill(actor)
            group = _groups().get(self._name(run))
            if group is not None:
                remove_placement_group(PlacementGroup(ray.PlacementGroupID(bytes.fromhex(group))))

    def states(self, runs: Sequence[Run]) -> Mapping[str, RunState]:
        """Return the states that follow from the folders and from the actors of Ray."""
        with self._answering():
            down, actors, groups = self.down(), _actors(), _groups()
            states = {}
            for run in runs:
                try:
                    states[run.id] = self._state(run, down, actors, groups)
                except UntrustedFileError as error:  # the other runs are unaffected
                    self.kill(run)
                    states[run.id] = RunState("failed", str(error))
            return states

    def close(self) -> None:
        """Disconnect from Ray; the actors continue."""
        if self._session is not None:
            self._session.leave()
            self._session = None

    def _state(
        self, run: Run, down: Mapping[str, str], actors: set[str], groups: Mapping[str, str]
    ) -> RunState:
        known, now = [ended(run.folder, node) for node in range(len(run.hosts))], time.monotonic()
        state = merged([each or RunState() for each in known])
        if state.outcome is None:
            left = [node for node, each in enumerate(known) if each is None]
            failed = [run.hosts[node] for node in left if run.hosts[node] in down]
            if failed:
                state = RunState("lost", f"node {failed[0]}: {down[failed[0]]}")
            elif all(self._name(run, node) in actors for node in left):
                self._missing.pop(run.id, None)
                return RunState(waiting=not has_begun(run))
            elif has_begun(run) and now - self._missing.setdefault(run.id, now) < LATE_SECONDS:
                return RunState()  # files of the run may still arrive
            else:
                why = "its actor ended or never existed"
                state = RunState("lost", why, by_itself=has_begun(run))
        if self._name(run) in groups or any(self._name(run, n) in actors for n in range(len(run.hosts))):
            self.kill(run)  # end the remaining parts and free the GPUs
        return state

    def _create(self, run: Run, addresses: Sequence[str], resource: str) -> None:
        bundles: list[dict[str, float]] = [
            {f"node:{address}": 0.001, resource: count, "CPU": self._cpus * count}
            for address, count in zip(addresses, run.gpus, strict=True)
        ]
        there = _groups().get(self._name(run))
        if there is None:
            group = placement_group(bundles, "STRICT_SPREAD", name=self._name(run), lifetime="detached")
        else:
            group = PlacementGroup(ray.PlacementGroupID(bytes.fromhex(there)))
        actors = _actors()
        for node, count in enumerate(run.gpus):
            if self._name(run, node) in actors:
                continue
            own = {"num_gpus": count} if resource == "GPU" else {"resources": {resource: count}}
            ray.remote(_Node).options(
                name=self._name(run, node),
                namespace=_NAMESPACE,
                lifetime="detached",
                num_cpus=self._cpus * count,
                scheduling_strategy=PlacementGroupSchedulingStrategy(group, node),
                **own,
            ).remote(str(run.folder), node, self._python, self._passed)

    def _actor(self, run: Run, node: int) -> Any:
        try:
            return ray.get_actor(self._name(run, node), namespace=_NAMESPACE)
        except ValueError:
            return None

    def _name(self, run: Run, node: int | None = None) -> str:
        return f"copter-{self._cluster}-{run.id}" + ("" if node is None else f"-{node}")

    @contextmanager
    def _answering(self) -> Iterator[None]:
        """Connect to Ray if it answers, and disconnect if its head node has ended.

        Ray ends a connected process one minute after the end of its head node, and calls block until then.
        Therefore the method probes the head node first.
        """
        try:
            if self._session is None:
                self._session = Session.join(self._address, os.cpu_count() or 1)
            probe(ray.get_runtime_context().gcs_address)
        except NoClusterError as error:
            self.close()
            raise BackendError(str(error)) from error
        try:
            yield
        except (ray.exceptions.RayError, ConnectionError, TimeoutError) as error:
            raise BackendError(f"Ray: {error}") from error


def _nodes() -> dict[str, dict[str, Any]]:
    """Return the nodes by name; a living node replaces a dead one of the same name."""
    return {node["NodeName"]: node for node in sorted(ray.nodes(), key=lambda node: bool(node["Alive"]))}


def _actors() -> set[str]:
    """Return the names of the actors that have not ended, including those that wait for their nodes."""
    named = ray.util.list_named_actors(all_namespaces=True)
    return {each["name"] for each in named if each["namespace"] == _NAMESPACE}


def _groups() -> dict[str, str]:
    """Return the hexadecimal ids of placement groups by name."""
    table = placement_group_table().values()
    return {each["name"]: each["placement_group_id"] for each in table if each["state"] != "REMOVED"}
