"""The job's side: what a training script imports.

`plan.py` comes first: what a run is told and what it says.  `training.py` is what scripts use, `group.py` its
processes on one machine, `loader.py` the order of examples, `layout.py` gradients as one vector,
`checkpoints.py` what outlives a run, `reporting.py` the service, `pacing.py` slots that stand for GPUs,
`torch.py` the same for PyTorch.
"""

from copter.lazy import attach

__getattr__, __dir__, __all__ = attach(__name__, __file__)
