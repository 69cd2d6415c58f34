"""One simulator of GPU clusters for every scheduler: clusters, jobs, their speed, policies, metrics.

A :class:`Simulator` plays a :class:`Scenario` (a cluster, jobs, the profile of each application) under a
:class:`Policy`: at each round, or at each event, the policy says which configuration every job gets, the
placer finds nodes for it, changes cost what the resize model says, and jobs progress at the goodput of their
profile.  Policies are made by name with :func:`make_policy`.
"""

from copter.lazy import attach

__getattr__, __dir__, __all__ = attach(__name__, __file__)
