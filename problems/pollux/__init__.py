"""Pollux: co-adaptive scheduling for goodput, by a genetic algorithm (Pollux sections 3 and 4)."""

from copter.lazy import attach

__getattr__, __dir__, __all__ = attach(__name__, __file__)
