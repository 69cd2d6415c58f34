"""Where a program lies: flat arrays by slot, edited in place.

Read `layout.py` first: the tables and pools; then `edit.py`, one change in flat arrays, and `store.py`,
which makes it.  `slabs.py` are arrays that grow, `kernels.py` the compiled half of edits, `term_table.py`
the convex terms.  Kernels read the store through `view.py`; everybody else asks the `executor.py` to run
a task on it, or for some of its columns, wherever these are: `remote.py`, `column_cache.py`,
`workers.py`, `part_store.py`, `spread.py` and `offloaded.py` are for columns that are elsewhere.
`reading.py` and `compiled.py` read whole requests and programs, `allocation.py` is an x of few nonzeros.
"""
