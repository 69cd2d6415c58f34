"""Store of a program in memory: flat arrays by slot, edited in place.

Read `store.py` first. It describes the tables and the effect of edits.

- `local.py` keeps the columns in growable arrays of this process. `slabs.py` has these arrays.
- `edit.py` is one change as flat arrays. `kernels.py` has the compiled parts of edits.
- `edit_log.py` has the requests that were edited since a revision. `term_table.py` has the convex terms.
- `view.py` is the form in which kernels read a store.
- `executor.py` runs tasks on the columns, or fetches columns, in this process or on workers (`copter/ray/`).
- `reading.py` and `compiled.py` read whole requests and programs. `changes.py` finds the differences between
  two states of a program, for a flat model of it.
- `subproblem.py` makes a store from a few requests. `allocation.py` has sparse allocations.

The package does not import programs, proofs or solvers.
"""
