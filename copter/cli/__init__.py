"""The `copter` command.

No module of this package imports numpy or a solver before a command runs. Read `main.py` first, then
`command.py`. A command is a frozen dataclass of options (`options.py`, `solvers.py`) with a method `execute`.
Domains declare commands of the groups `copter run` and `copter bench` (`domains.py`); `rounds.py` has the
commands of all domains that declare none. `run.py` and `runfolder.py` contain the common part of all runs,
and `bench.py` the common part of all benchmarks of a case. `suite.py` contains `copter bench all`, `report`
and `compare`. Other commands are in `export.py`, `solve.py` (also `copter solvers`), `compile.py` and
`reproduce.py`, which compares measured figures with those of a paper. Commands write through `console.py` and
draw through `plots.py`.
"""
