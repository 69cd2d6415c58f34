"""Solvers behind one protocol: copter's proximal point method, HiGHS and OR-Tools.

Read `base.py` first: what a solver is; `registry.py` has them by name, `settings.py` and `features.py` what
can be set and asked.  `proximal/` is copter's own on the subproblems of `inner/`, `exact/` proves integral
allocations, `general/` is for LPs of any form, `baselines/` are other people's, `cvxpy/` is cvxpy's way here.
`generation.py` is column generation, which `problems/placement/` uses.  `milp.py` calls HiGHS' branch and
bound, in a process of its own where `apart.py` says so; `blas.py` keeps BLAS to one thread.  `wrapper.py` and
`rebuild.py` stand around another solver, `memory.py` finds last round's answer again.
"""

from copter.lazy import attach

__getattr__, __dir__, __all__ = attach(__name__, __file__)
