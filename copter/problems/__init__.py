"""Problem domains, each of which turns its events into edits of a continual program.

`sia/`, `load_balancing/` and `traffic/` are the domains of the thesis.  `shockwave/` is another scheduler of
GPUs, and `placement/` places tasks on single servers.  `cluster/` is the simulator in which the schedulers
and their baselines (`pollux/`, `afs/`, `policies/`) schedule the same jobs.

The `__init__` of a domain describes its modules.  Several domains have modules with these names: `cli.py` has
the commands, `course.py` the benchmark scenarios, `lines.py` the cases of the suite, `report.py` the output
of a run, and `reproductions.py`, with the table of the same name, the figures of the domain's paper.

Several domains share `reading.py` (readers of JSON and CSV), `pop.py` (the common part of POP) and
`examples.py` (small instances for `copter check`).
"""
