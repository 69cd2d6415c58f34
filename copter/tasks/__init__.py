"""Independent tasks, run in this process, in processes of their own, or on Ray.

Read `tasks.py` first. A `Task` is a function with its arguments, a `TaskRunner` runs tasks, and a
`FinishedTask` has the result of a task. `processes.py` starts, monitors and ends the processes that run
tasks; benchmarks, simulations and `copter reproduce` use it. `on_ray.py` needs the extra `ray`.
"""
