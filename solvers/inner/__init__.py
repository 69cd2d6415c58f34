"""The subproblem of a proximal step: a working set in units of its own, and two methods for it.

Read `working_set.py` first; `gather.py` takes it out of the program, in the units of `scaling.py`.
`newton.py` is semismooth Newton on the prices (`newton_kernels.py`, `sums.py`, `sampling.py`,
`elastic.py`, and `offloaded_sums.py` on other machines), `compiled_newton.py` the same for small sets and
convex terms, `descent.py` and `convex_descent.py` are coordinate descent.  `convex_terms.py` and
`convex_kernels.py` are what convex terms need, `tuning.py` has the numbers.
"""
