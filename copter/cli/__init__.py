"""The `copter` command.  Nothing here imports numpy or a solver before a command runs.

Read `main.py` first, then `command.py`: a command is a frozen dataclass of options (`options.py`,
`solvers.py`) and a function that takes it.  Domains add theirs to the groups `copter run` and `copter bench`
(`domains.py`); what all runs do is in `run.py` and `runfolder.py`, what all benchmarks of a case do in
`bench.py`.  `suite.py` has `copter bench all`, `report` and `compare`.  The other commands are in
`measurements.py`, `solve.py`, `solvers.py` (the list of them), `compile.py` and `reproduce.py`, which prints
the figures of a paper beside ours.  `console.py` is where commands write, `plots.py` what they draw.
"""
