"""Problem domains: each turns its events into edits of a continual program.

`sia/`, `load_balancing/` and `traffic/` are the thesis' own; `shockwave/` is another scheduler of GPUs, and
`placement/` places tasks on single servers.  `cluster/` is the simulator in which these and their baselines
(`pollux/`, `afs/`, `baselines/`) schedule the same jobs.  A domain's `__init__` says what is in it.  Where a
domain has them, `example.py` is a small one for `copter check`, `cli.py` has its commands, `course.py` what
it benchmarks, `lines.py` the cases of the suite, `report.py` what a run prints, and `reproductions.py` with
the table beside it the figures of its paper.  `reading.py` reads JSON and CSV for all of them, `pop.py` has
what POP's methods share, `deadlines.py` measures how late rounds are.
"""
