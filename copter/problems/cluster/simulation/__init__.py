"""The simulator of clusters.

Read `simulator.py` first: it defines the order of events.  `jobs.py` has the state of a simulated job, and
`resize.py` the cost of changes and the slowdown of jobs that share nodes.  `present.py` has the state from
which a simulation can begin, and `ahead.py` plays from such a state to find when jobs start.
"""
