"""Continual optimization: large allocation programs kept alive and solved warm, round by round."""

from copter.lazy import attach

__version__ = "0.1.0"
__getattr__, __dir__, __all__ = attach(__name__, __file__)
