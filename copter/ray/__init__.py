"""Programs spread over the actors of a Ray cluster; needs the extra ``ray`` when one is made."""

from copter.lazy import attach

__getattr__, __dir__, __all__ = attach(__name__, __file__)
