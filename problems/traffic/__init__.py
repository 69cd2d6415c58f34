"""WAN traffic engineering: which paths the demands of a network take (thesis section 5.1.2)."""

from typing import Literal, TypeAlias, get_args

from copter.lazy import attach

__getattr__, __dir__, __all__ = attach(__name__, __file__)

# Words that commands and models share; they stand here so that `--help` loads no model.

Objective: TypeAlias = Literal["max-flow", "min-mlu"]
OBJECTIVES: tuple[Objective, ...] = get_args(Objective)

MODELS = ("gravity", "poisson", "poisson-flat", "bimodal")
"""Models of traffic matrices, see :mod:`copter.problems.traffic.matrices`."""

Drift: TypeAlias = Literal["independent", "source", "global", "permute"]
DRIFTS: tuple[Drift, ...] = get_args(Drift)
CHANGES: tuple[str, ...] = (*DRIFTS, "failures", "sequence")
"""What changes from round to round; "sequence" takes the matrices of a file in turn."""

PathKind: TypeAlias = Literal["edge-disjoint", "shortest"]
PATH_KINDS: tuple[PathKind, ...] = get_args(PathKind)

METHODS = ("lp-top", "pop-K", "pop-K-ray", "shortest")
"""What solves no whole program; -K stands for a number."""
