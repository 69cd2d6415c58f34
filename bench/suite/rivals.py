"""Solvers that are measured and nothing else: no names of :func:`copter.solvers.make_solver`."""

from __future__ import annotations

from copter.solvers.registry import SolverEntry

_CVXPY = "copter.solvers.baselines.cvxpy_lp:CvxpyLP"
_DEDE = "copter.solvers.baselines.dede_lp:DeDe"

RIVALS = {
    entry.name: entry
    for entry in (
        SolverEntry("clarabel", _CVXPY, "cvxpy, Clarabel, compiled every round", {"backend": "clarabel"}),
        SolverEntry("scs", _CVXPY, "cvxpy, SCS, compiled every round", {"backend": "scs"}),
        SolverEntry("osqp", _CVXPY, "cvxpy, OSQP, compiled every round", {"backend": "osqp"}),
        SolverEntry("dede", _DEDE, "DeDe, ADMM on Ray, stops at 1% less change", {"rule": "own"}),
        SolverEntry("dede-ours", _DEDE, "DeDe, ADMM on Ray, stops within our tolerance", {"rule": "ours"}),
    )
}
"""By name."""
DEDE = ("dede", "dede-ours")
"""Those that need an environment of their own."""
