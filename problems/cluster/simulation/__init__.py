"""The simulator of clusters.

`simulator.py` comes first: what happens in which order.  `jobs.py` is the state of a job that is there,
`resize.py` says what a change costs and how jobs that share nodes slow each other down.
"""
