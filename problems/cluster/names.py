"""Words of the command line, apart from what they stand for, so that `--help` loads no more."""

ESTIMATORS = ("oracle", "bootstrap", "no-profile", "type-blind", "overestimate")
"""What policies know of the jobs' speed: see :mod:`.estimators`."""

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
