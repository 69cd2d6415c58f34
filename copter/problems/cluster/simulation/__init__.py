"""The simulator of clusters.

Read `simulator.py` first: the order of events.  `jobs.py` is the state of a simulated job.  `resize.py` is
the cost of changes, and the slowdown of jobs that share nodes.  `present.py` is a state from which a
simulation begins, and `ahead.py` plays from there to find when jobs start.
"""
