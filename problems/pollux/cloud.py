"""Training one large model in the cloud: cluster size by goodput against cluster size by throughput.

Throughput does not change in the course of training: a scheduler that scales by it (Or et al., 2020) goes out
to many nodes and a large batch size at once and stays there.  Goodput begins small and grows with the
statistical efficiency of large batches.

Source: Pollux section 5.3.3.
"""

from __future__ import annotations

from dataclasses import dataclass

from copter.problems.cluster.cluster import Cluster, GpuType
from copter.problems.cluster.profiles.base import Profile
from copter.problems.cluster.profiles.measured import MeasuredProfile
from copter.problems.cluster.simulation.placement import SiaPlacer
from copter.problems.cluster.simulation.resize import FixedDelay
from copter.problems.cluster.simulation.simulator import Simulator
from copter.problems.cluster.workload import JobSubmission, Scenario
from copter.problems.pollux.autoscale import AutoscalingPollux

GPUS_PER_NODE, MAX_NODES = 4, 16


@dataclass(frozen=True)
class CloudRun:
    """A model trained in the cloud.

    Attributes
    ----------
    hours : float
        Until it is trained.
    node_hours : float
        Paid for.
    nodes : tuple of (float, int)
        Hours from which on there were so many nodes.
    """

    hours: float
    node_hours: float
    nodes: tuple[tuple[float, int], ...]


def train_in_the_cloud(profile: Profile, *, by_goodput: bool, max_nodes: int = MAX_NODES) -> CloudRun:
    """Train a model on as many nodes as its utility asks for.

    Parameters
    ----------
    profile : Profile
        On the type "t4".
    by_goodput : bool
        Otherwise the batch size is the largest one throughout.
    """
    fixed = not by_goodput and isinstance(profile, MeasuredProfile)
    job = JobSubmission(
        "job",
        0.0,
        "",
        "model",
        "adaptive" if by_goodput else "strong-scaling",
        batch_size=profile.max_batch if fixed and isinstance(profile, MeasuredProfile) else None,
    )
    simulator = Simulator(
        Scenario(Cluster([GpuType("t4", GPUS_PER_NODE, 1)]), [job], {"model": profile}),
        AutoscalingPollux(max_nodes=max_nodes),
        placer=SiaPlacer(),
        resize=FixedDelay(),
    )
    rounds = list(simulator.run())
    finished = simulator.job_results()[0].finished
    paid = 0.0
    nodes: list[tuple[float, int]] = []
    for one in rounds:
        count = sum(one.there.values()) // GPUS_PER_NODE
        paid += count * min(one.seconds, finished - one.time)
        if not nodes or nodes[-1][1] != count:
            nodes.append((one.time / 3600.0, count))
    return CloudRun(finished / 3600.0, paid / 3600.0, tuple(nodes))
