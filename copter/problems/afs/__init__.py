"""AFS: elastic sharing of GPUs by job length and by the speedup from more GPUs (Hwang et al., NSDI 2021).

The policies are :class:`AfsL`, :class:`AfsP` and :class:`AfsS`; :func:`afs_shares` is Algorithm 1.

Read `allocation.py` (the shares of GPUs) and `policies.py` (the three policies and their base class) first.
`roster.py` keeps the jobs as arrays for the policies.  `models.py` and `traces.py` make the workloads;
`reproductions.py` and its table have the claims of the paper.
"""

from copter.lazy import attach

__getattr__, __dir__, __all__ = attach(__name__, __file__)
