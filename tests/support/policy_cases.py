"""Clusters, rigid jobs and rounds that the tests of the baselines share."""

import numpy as np
from hypothesis import strategies as st

from copter.problems.cluster.cluster import Cluster, GpuType
from copter.problems.cluster.jobs import Timer
from copter.problems.cluster.policy import ClusterState
from copter.problems.cluster.profiles.tables import CountProfile
from copter.problems.cluster.simulation.jobs import SimulatedJob
from copter.problems.cluster.simulation.simulator import Simulator
from copter.problems.cluster.workload import JobSubmission, Scenario
from copter.problems.policies import look


def cluster_of(*gpus):
    """One type for each number, with nodes of one GPU: packing never stands in the way."""
    return Cluster(GpuType(f"t{k}", 1, count) for k, count in enumerate(gpus))


def profile_of(name, speeds, *, gpus=1, work=1000.0, restart=0.0):
    """A rigid job's: speed by type, 0 where it cannot run."""
    return CountProfile(name, restart, work, [gpus], {f"t{k}": [v] for k, v in enumerate(speeds) if v})


def submission_of(name, *, gpus=1, time=0.0):
    return JobSubmission(name, time, "", name, "rigid", gpus)


def state_of(name, speeds, *, gpus=1, work=1000.0, time=0.0, timer=None):
    profile = profile_of(name, speeds, gpus=gpus, work=work)
    return SimulatedJob(submission_of(name, gpus=gpus, time=time), profile, "rigid", timer or Timer())


def round_of(cluster, states, *, time=0.0, seconds=360.0):
    return look(ClusterState(time, 0, seconds, cluster, {state.name: state for state in states}))


def scenario_of(cluster, jobs):
    """Jobs as (name, speeds, GPUs, work, time)."""
    profiles = {
        name: profile_of(name, speeds, gpus=gpus, work=work, restart=20.0)
        for name, speeds, gpus, work, _ in jobs
    }
    return Scenario(cluster, [submission_of(n, gpus=g, time=t) for n, _, g, _, t in jobs], profiles)


def simulate(scenario, policy, **settings):
    simulator = Simulator(scenario, policy, **settings)
    for _ in simulator.run():
        pass
    return simulator


def random_scenario(seed, *, count=14, gpus=(4, 3), seconds=3000.0):
    """Jobs of up to 4 GPUs on two types, some of which run on the first only."""
    rng = np.random.default_rng(seed)
    jobs = []
    for k in range(count):
        quick = float(rng.uniform(1.0, 4.0)) * (rng.random() < 0.8)
        size = int(rng.choice([1, 1, 2, 3]))
        jobs.append((f"j{k}", (1.0, quick), size, float(rng.exponential(seconds)) + 60.0, float(k) * 150.0))
    return scenario_of(cluster_of(*gpus), jobs)


@st.composite
def job_lists(draw, types=2, most=6, gpus=3, prefix="j"):
    """States of jobs with any speeds, each of which runs on the first type or on another."""
    states = []
    for k in range(draw(st.integers(1, most))):
        speeds = [draw(st.sampled_from([0.0, 0.5, 1.0, 1.7, 4.0])) for _ in range(types)]
        if not any(speeds):
            speeds[0] = 1.0
        size = draw(st.integers(1, gpus))
        states.append(state_of(f"{prefix}{k}", speeds, gpus=size, work=draw(st.floats(10.0, 5000.0))))
    return states
