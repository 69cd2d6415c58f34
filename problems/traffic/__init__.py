"""WAN traffic engineering: which paths the demands of a network take (thesis section 5.1.2).

Read `topology.py` (networks), `paths.py` (sets of paths) and `model.py` (the program that lives on) first;
`state.py` is what the model and a checker know of a round.  `search.py` finds paths, by `yen.py` or
`disjoint.py`, and keeps them on disk; `matrices.py` makes or reads demands; `baselines.py` has what does not
solve the whole program.  `cli.py`, `report.py`, `course.py` and `reproductions.py` are commands, benchmarks
and figures.
"""

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
CHANGES: tuple[str, ...] = (*DRIFTS, "single", "failures", "sequence")
"""What changes from round to round; "sequence" takes the matrices of a file in turn."""

PathKind: TypeAlias = Literal["edge-disjoint", "shortest"]
PATH_KINDS: tuple[PathKind, ...] = get_args(PathKind)

METHODS = ("lp-top", "pop-K", "pop-K-ray", "shortest")
"""What solves no whole program; -K stands for a number."""
