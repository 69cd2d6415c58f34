"""One simulator of GPU clusters for all schedulers: clusters, jobs, their speed, policies, metrics.

A :class:`Simulator` plays a :class:`Scenario` (a cluster, jobs, the profile of each application) under a
:class:`Policy`.  At each round, or at each event, the policy chooses a configuration for every job, and the
placer finds nodes for it.  A change of an allocation costs the time that the resize model gives, and a job
progresses at the goodput of its profile.  :func:`make_policy` makes a policy by its name.

Read `cluster.py` (GPU types, configurations), `workload.py` (submitted jobs) and `policy.py` (the input and
the decision of a scheduler) first, then

- `rounds.py` (a round of any policy, simulated or live), `jobs.py`, `placement.py` (finds nodes for the
  configurations of a policy) and `results.py` (the records of a simulation);
- `simulation/`: the simulator, the state of its jobs, the cost of changes;
- `profiles/`: the speed of a job under a configuration; `estimation/`: estimates of that speed;
- `traces/`: workloads of the papers; `presets.py`: their clusters; `nodes.py`: nodes that come, go and fail;
- `report/`: metrics, fairness and run folders; `experiment.py`: policies over seeds;
- `registry.py`: policies and traces by name, from the entry points in `pyproject.toml`; `cli.py`: the
  commands.
"""

from copter.lazy import attach

__getattr__, __dir__, __all__ = attach(__name__, __file__)

# Names that commands and modules share.  They are here so that `--help` need not import the modules.

ESTIMATORS = ("oracle", "bootstrap", "no-profile", "remember", "type-blind", "overestimate")
"""Names of estimators of the jobs' speed, see :mod:`copter.problems.cluster.estimation.estimators`."""

PLACERS = ("auto", "sia", "shared", "none")
"""Names of placers, see :mod:`.placement`.

With "shared", two distributed jobs may share a node; "none" only counts GPUs; "auto" is "shared" for policies
of rigid jobs and "sia" for all other policies."""
