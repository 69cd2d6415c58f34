"""The interface for training scripts, which run in the jobs.

Read `plan.py` first: it defines the messages between the service and a run.  Scripts use `training.py`.
`group.py` has the processes of a run on one machine, `loader.py` the order of examples, `layout.py` gradients
as one vector, `checkpoints.py` the checkpoints, `reporting.py` the reports to the service, and `torch.py` the
interface for PyTorch.
"""

from copter.lazy import attach

__getattr__, __dir__, __all__ = attach(__name__, __file__)
