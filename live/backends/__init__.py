"""Backends, which start and stop runs: processes of this machine, actors of a Ray cluster, jobs of Slurm.

Read `base.py` first: the interface of a backend.  `local.py`, `on_ray.py` and `slurm.py` implement it,
`registry.py` has them by name, and `agent.py` runs the processes of one run on one node.
"""
