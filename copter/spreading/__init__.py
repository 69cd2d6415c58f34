"""Independent tasks, run one after the other in this process, in processes of their own, or on Ray.

Read `tasks.py` first: a `Task` is a function with its arguments, a `Spread` is where tasks run, and what
becomes of one comes back as `Ended`.  `processes.py` is the only code of copter that starts, watches and
kills worker processes; benchmarks, simulations and `copter reproduce` all use it.  `on_ray.py` needs the
extra `ray`.
"""
