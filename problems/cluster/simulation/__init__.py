"""The simulator of clusters.

Read `simulator.py` first: the order of events.  `jobs.py` is the state of a simulated job.  `resize.py` is
the cost of changes, and the slowdown of jobs that share nodes.
"""
