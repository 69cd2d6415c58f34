"""Continual optimization: large allocation programs kept alive and solved warm, round by round."""

from pathlib import Path

from copter.lazy import attach

__version__ = "0.1.0"

# In the root of a checkout, Python finds this folder before the package that is installed. Its subpackages
# (solvers, problems and so on) are then beside it; once installed, all are in it.
_CHECKOUT = Path(__file__).parents[1]
if (_CHECKOUT / "solvers/__init__.py").exists() and (_CHECKOUT / "pyproject.toml").exists():
    __path__.append(str(_CHECKOUT))

__getattr__, __dir__, __all__ = attach(__name__, __file__)
