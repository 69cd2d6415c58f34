"""AFS: elastic sharing of GPUs by job length and by the speedup from more GPUs (Hwang et al., NSDI 2021).

The policies are :class:`AfsL`, :class:`AfsP` and :class:`AfsS`; :func:`afs_shares` is Algorithm 1.

Read `allocation.py` (the shares of GPUs) and `policies.py` (the base class of policies at events, and these
three) first.  `roster.py` keeps the jobs as arrays for them.  `models.py` and `traces.py` are the workloads;
`reproductions.py` and its table are the figures of the paper.
"""

from copter.lazy import attach

__getattr__, __dir__, __all__ = attach(__name__, __file__)
