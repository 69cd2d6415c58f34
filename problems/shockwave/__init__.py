"""Shockwave: Nash social welfare over time, for jobs whose batch size changes while they train.

:func:`replay` runs a trace under a policy of rigid jobs, such as :class:`Shockwave`.  A plan is made
from a :class:`Window`, its relaxation, and :class:`copter.problems.shockwave.plan.PlanShim`.
:func:`solve_market` finds the equilibrium of a volatile Fisher market.

Source: Zheng and others, "Shockwave: Fair and Efficient Cluster Scheduling for Dynamic Adaptation in Machine
Learning", NSDI 2023.
"""

from copter.lazy import attach

__getattr__, __dir__, __all__ = attach(__name__, __file__)
