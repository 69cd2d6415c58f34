"""One simulator of GPU clusters for every scheduler: clusters, jobs, their speed, policies, metrics.

A :class:`Simulator` plays a :class:`Scenario` (a cluster, jobs, the profile of each application) under a
:class:`Policy`: at each round, or at each event, the policy says which configuration every job gets, the
placer finds nodes for it, changes cost what the resize model says, and jobs progress at the goodput of their
profile.  Policies are made by name with :func:`make_policy`.

Read `cluster.py` (GPU types, configurations), `workload.py` (jobs as they are handed in) and `policy.py`
(what a scheduler sees and answers) first, then

- `rounds.py` (a round of any policy, simulated or live), `jobs.py`, `placement.py` (finds nodes for what a
  policy chose) and `results.py` (the records that are left in the end);
- `simulation/`: the simulator, the state of its jobs, what a change costs;
- `profiles/`: how fast a job is under a configuration; `estimation/`: what a scheduler learns of that;
- `traces/`: workloads of the papers; `presets.py`: their clusters; `nodes.py`: nodes that come, go and fail;
- `report/`: figures, fairness, run folders and sweeps; `experiment.py`: policies over seeds;
- `registry.py`: policies and traces by name, from the entry points in `pyproject.toml`; `cli.py`: the
  commands.
"""

from copter.lazy import attach

__getattr__, __dir__, __all__ = attach(__name__, __file__)

# Words that commands and models share; they stand here so that `--help` loads no model.

ESTIMATORS = ("oracle", "bootstrap", "no-profile", "remember", "type-blind", "overestimate")
"""What policies know of the jobs' speed: see :mod:`copter.problems.cluster.estimation.estimators`."""

PLACERS = ("auto", "sia", "shared", "none")
"""Who finds nodes, see :mod:`.placement`: with shared distributed jobs may share a node, none counts GPUs,
auto is shared for policies of rigid jobs, sia for others."""

SWEEPS = (
    "jobs",
    "round-seconds",
    "estimator",
    "placement",
    "interference",
    "failures",
    "cluster",
    "trace",
)
"""What `copter bench cluster` varies, besides settings of policies and of traces."""

NAMED_SWEEPS = ("estimator", "placement", "cluster", "trace")
"""Those of them whose values are names, "none" included."""
