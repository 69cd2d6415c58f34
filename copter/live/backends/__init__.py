"""Backends, which start and stop runs: processes on this machine, actors of a Ray cluster or Slurm jobs.

Read `base.py` first: it defines the interface of a backend.  `local.py`, `on_ray.py` and `slurm.py` implement
it, `registry.py` makes a backend by its name, and `agent.py` runs the processes of one run on one node.
`cgroups.py` confines these processes on this machine.
"""
