"""Backends, which start and stop runs: processes on this machine, or actors of a Ray cluster.

Read `base.py` first: it defines the interface of a backend.  `local.py` and `on_ray.py` implement it,
`registry.py` makes a backend by its name, and `agent.py` runs the processes of one run on one node.
`cgroups.py` confines these processes on this machine.
"""
