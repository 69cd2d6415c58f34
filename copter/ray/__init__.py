"""Programs whose columns are in other processes: the actors of a Ray cluster.

Read `program.py` first, which has `RayProgram`. It is a `DistributedProgram` (`distributed.py`) on a
`DistributedStore` (`store.py`): the tables are in this process, and edits are logged and sent to the parts.

- `executor.py` runs tasks on the parts. `columns.py` fetches columns from them.
- `part_store.py` is the store of one part. `workers.py` is the protocol of workers, which hold the parts.
- `on_actors.py` has workers on actors. `actors.py` is one actor, which is started again if it dies.
  `holder.py` is the object in its process. `session.py` is the connection to Ray.

Only `on_actors.py`, `actors.py` and `session.py` import Ray, which is part of the extra ``ray``.
"""

from copter.lazy import attach

__getattr__, __dir__, __all__ = attach(__name__, __file__)
