"""The program in memory: flat arrays by slot, edited in place.

Read `store.py` first: the tables, and what an edit does wherever the columns are.  `local.py` keeps the
columns in pools of this process, `edit.py` is one change in flat arrays, `slabs.py` are arrays that grow,
`kernels.py` the compiled half of edits, `edit_log.py` which requests were edited since when, `term_table.py`
the convex terms.  Kernels read a store through `view.py`; everybody else asks the `executor.py` to run a task
on it, or for some of its columns, and so does not depend on where they are (`copter/ray/`: other processes).
`reading.py` and `compiled.py` read whole requests and programs, `subproblem.py` has a few requests as a store
of their own, `allocation.py` is an x of few nonzeros. It knows no program, proof or solver.
"""
