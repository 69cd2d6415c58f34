"""Programs whose columns are in other processes: the actors of a Ray cluster.

Read `program.py` first: `RayProgram`, which users make.  It is a `DistributedProgram` (`distributed.py`) on
a `DistributedStore` (`store.py`): the tables are in this process, edits are logged and sent.  `executor.py`
runs tasks on the parts and fetches columns, which `column_cache.py` keeps until they are edited.
`part_store.py` is the store of one part.  `workers.py` says what has parts; `on_actors.py` are actors that
do, `actors.py` one of them, made again when it dies, `holder.py` what runs in its process, `session.py` the
Ray itself.  Only `on_actors.py`, `actors.py` and `session.py` import Ray, which comes with the extra ``ray``.
The solver's sums on actors are in `solvers/inner/offloaded_sums.py`.
"""

from copter.lazy import attach

__getattr__, __dir__, __all__ = attach(__name__, __file__)
