"""Small Sia policies, their jobs and rounds of a given outcome, for the tests of the policy."""

from dataclasses import dataclass

import numpy as np

from copter.problems.sia import (
    Cluster,
    GpuType,
    SiaPolicy,
    TableProfile,
)
from copter.solvers.registry import make_solver

LAM = 1.1
PAIR = Cluster([GpuType("A", 2, 1), GpuType("B", 4, 1)])  # 1A, 2A, 1B, 2B, 4B


@dataclass
class Exact:
    """Takes the integral answer of a MILP solver as it is."""

    def round(self, program, solution):
        self.choice = {job: int(np.argmax(x)) for job, x in solution.x.items()}
        self.objective, self.gap, self.seconds = solution.objective, 0.0, 0.0
        return self


def make(cluster, **options):
    return SiaPolicy(cluster, shim=Exact(), **options)


def milp():
    return make_solver("highs-milp", tolerance=1e-9)


def table(goodput, cluster=PAIR, *, seconds=0.0, name="m"):
    levels = np.atleast_2d(np.asarray(goodput, float))
    progress = np.arange(1.0, len(levels) + 1)
    return TableProfile(name, seconds, progress, list(cluster.configurations), levels)


def force(policy, now, **wanted):
    """A round in which each job gets the configuration named, or None."""
    policy.at(now)
    policy.prepare()
    choice = {}
    for job in policy.program.request_ids:
        configuration = wanted.get(job)
        index = -1 if configuration is None else policy.cluster.configurations.index(configuration)
        choices = policy._requests.choices(policy._slots[job])
        choice[job] = choices.columns.tolist().index(index)
    return policy.assign(choice, now)


def columns(policy, job):
    """What a job may choose from this round."""
    names = [None, *policy.cluster.configurations]
    return [names[k + 1] for k in policy._requests.choices(policy._slots[job]).columns.tolist()]


def gpus(policy, job):
    return [c and (c.type, c.gpus) for c in columns(policy, job)]


BIG = Cluster([GpuType("A", 4, 4), GpuType("B", 8, 2)])  # A: 1 2 4 8 12 16, B: 1 2 4 8 16
RISING = table(list(BIG.configurations.gpus.astype(float)), BIG)
