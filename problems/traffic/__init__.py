"""WAN traffic engineering: which paths the demands of a network take (thesis section 5.1.2)."""

from copter.lazy import attach

__getattr__, __dir__, __all__ = attach(__name__, __file__)
