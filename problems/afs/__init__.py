"""AFS: elastic sharing of GPUs by job length and by how well jobs use more (Hwang et al., NSDI 2021).

The policies are :class:`AfsL`, :class:`AfsP` and :class:`AfsS`; :func:`afs_shares` is Algorithm 1.
"""

from copter.lazy import attach

__getattr__, __dir__, __all__ = attach(__name__, __file__)
