"""Continual optimization: large allocation programs kept alive and solved warm, round by round.

`program/` is what a user edits, `store/` where it lies in memory, `ray/` where its columns are in other
processes.  `proof/` has bounds and certificates, `solution.py` the answer, `terms/` convex terms, `models/`
the way from general LPs, cvxpy and MathOpt, `durable/` snapshots and the journal, `rounds/` what a domain
implements and who plays its rounds.  `clock.py` is the deadline
and the cancel of every solve, `native.py` keeps to it in libraries, `errors.py` has all errors, `metrics.py`
figures for monitoring.  `compile/` and `sums/` are for kernels, `parallel.py` for threads, `tasks/` for
tasks in other processes, `cli/` is the command.  The solvers, shims, domains, benchmarks and the service are
packages beside these.
"""

from importlib.util import find_spec
from pathlib import Path

from copter.lazy import attach

__version__ = "0.1.0"

# In the root of a checkout, Python finds this folder before the package that is installed. Its subpackages
# (solvers, problems and so on) are then beside it; once installed, all are in it, or found as parts of it.
_CHECKOUT = Path(__file__).parents[1]
if (_CHECKOUT / "solvers/__init__.py").exists() and find_spec("copter.solvers") is None:
    __path__.append(str(_CHECKOUT))

__getattr__, __dir__, __all__ = attach(__name__, __file__)
# These need the extra `cvxpy`; a star does not.
__all__ = [name for name in __all__ if name not in ("COPTER", "from_cvxpy")]
