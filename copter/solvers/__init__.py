"""Solvers with one interface: copter's proximal point method, HiGHS, OR-Tools and others.

Read `base.py` first: it defines the interface.  `registry.py` lists the solvers by name, `settings.py` checks
their settings, and `features.py` names their abilities. `api.py` has the names for authors of solvers.

- `proximal/` is copter's method; `inner/` solves its subproblems.
- `exact/` proves integral allocations optimal.
- `general/` has :class:`copter.Model`: linear and integer programs of any form.
- `baselines/` wraps the solvers that copter is compared with.
- `cvxpy/` connects copter and cvxpy.
- `generation.py` is column generation, which `copter/problems/placement/` uses.
- `highs_kept.py` keeps a program of requests in HiGHS.
- `milp.py` calls HiGHS' branch and bound; `apart.py` can run it in a separate process.
- `blas.py` limits BLAS to one thread.
- `wrapper.py` wraps another solver; `memory.py` restricts the last round's solution to the requests and rows
  that still exist.
"""
