"""Solvers of the subproblem of a proximal step, on a working set of scaled columns.

Read `working_set.py` first; `gather.py` makes a working set, in the units of `scaling.py`.  There are two
methods: semismooth Newton on the prices and coordinate descent.

- `newton.py` is Newton's method for large sets, with `newton_kernels.py`, `sums.py`, `sampling.py`,
  `elastic.py`.
- `compiled_newton.py` is Newton's method for small sets and for convex terms.
- `small_simplex.py` solves small sets from the last allocation, in one compiled call.
- `descent.py` and `convex_descent.py` are coordinate descent.
- `convex_terms.py` and `convex_kernels.py` contain the mathematics of convex terms.
- `tuning.py` contains the parameters.
"""
