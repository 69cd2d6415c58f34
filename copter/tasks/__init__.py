"""Independent tasks, run one after the other in this process, in processes of their own, or on Ray.

Read `tasks.py` first: a `Task` is a function with its arguments, a `Spread` is where tasks run, and what
becomes of one comes back as `Ended`.  `processes.py` starts, watches and kills the processes that run tasks;
benchmarks, simulations and `copter reproduce` use it.  `on_ray.py` needs the extra `ray`.
"""
