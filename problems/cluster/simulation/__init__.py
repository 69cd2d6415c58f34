"""The simulator of clusters.

`simulator.py` comes first: what happens in which order.  `jobs.py` is the state of a job that is there,
`placement.py` finds nodes for what a policy chose, `resize.py` says what a change costs and how jobs that
share nodes slow each other down, `results.py` has the records that are left in the end.
"""
