"""Names that commands and models of traffic engineering share; importing them takes nothing else."""

from __future__ import annotations

from typing import Literal, TypeAlias, get_args

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
