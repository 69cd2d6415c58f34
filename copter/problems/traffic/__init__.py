"""WAN traffic engineering: the choice of paths for the demands of a network (thesis section 5.1.2).

Read `topology.py` (networks), `paths.py` (sets of paths) and `model.py` (the continual program) first;
`state.py` has the state of a round for the model, and a checker.  `fairness.py` has max-min fair flows.
`search.py` finds paths and caches them on disk; `disjoint.py` finds edge-disjoint paths.  `matrices.py` makes
or reads demands; `baselines.py` has methods that do not solve the whole program.
`cli.py`, `lines.py`, `report.py`, `course.py` and `reproductions.py` have the commands, the benchmarks and
the figures of papers.
"""

from typing import Literal, TypeAlias, get_args

from copter.lazy import attach

__getattr__, __dir__, __all__ = attach(__name__, __file__)

# Names that commands and models share.  They are here so that `--help` need not import the models.

Objective: TypeAlias = Literal["max-flow", "min-mlu"]
OBJECTIVES: tuple[Objective, ...] = get_args(Objective)
MAX_MIN = "max-min"
"""Name of max-min fairness, :mod:`copter.problems.traffic.fairness`."""

MODELS = ("gravity", "poisson", "poisson-flat", "bimodal")
"""Models of traffic matrices; see :mod:`copter.problems.traffic.matrices`."""

Drift: TypeAlias = Literal["independent", "source", "global", "permute"]
DRIFTS: tuple[Drift, ...] = get_args(Drift)
CHANGES: tuple[str, ...] = (*DRIFTS, "single", "failures", "sequence")
"""Changes from round to round; "sequence" uses the matrices of a file in turn."""

PathKind: TypeAlias = Literal["edge-disjoint", "shortest"]
PATH_KINDS: tuple[PathKind, ...] = get_args(PathKind)

METHODS = ("lp-top", "pop-K", "shortest")
"""Methods that do not solve the whole program; K is a number."""
