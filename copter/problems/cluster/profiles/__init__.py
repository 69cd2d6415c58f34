"""Profiles: the speed of a job's progress under each configuration, as a function of its progress.

Read `base.py` first: it defines the levels of a profile, and the methods that follow from its one abstract
method, `speeds`. The other modules define sources of the speeds: `tables.py` (measured tables and rules),
`goodput.py` (a throughput model for each GPU type, from `throughput.py`, times statistical efficiency),
`builtin.py` (the papers' jobs under that model) and `analytic.py` (a model in relative units for hundreds of
nodes).
"""
