"""Solvers behind one protocol: copter's proximal point method, HiGHS and OR-Tools."""

from copter.lazy import attach

__getattr__, __dir__, __all__ = attach(__name__, __file__)
