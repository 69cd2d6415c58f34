"""Solver for large allocation LPs that change a little between rounds.

- `program/`: the program that users edit. `store/`: its arrays in memory. `ray/`: programs whose columns are
  in other processes.
- `solution.py`: the solution. `explanation.py`: why a request has its columns in a solution and no others.
- `proof/`: bounds, rays and certificates. `terms/`: convex terms.
- `models/`: general LPs, MPS and LP files, and MathOpt models. `durable/`: snapshots and journals.
- `rounds/`: the protocol of a domain, and the loop that runs its rounds.
- `clock.py`: deadline and cancellation of a solve. `native.py`: both for calls into native libraries.
  `status.py`: how a solve ended.
- `errors.py`: exceptions. `keywords.py`: similar names in errors. `extras.py` and `installed.py`: optional
  packages and entry points. `lazy.py`: imports at the first use. `metrics.py`: figures for monitoring.
  `cli/`: the command `copter`.
- `compile/` and `sums/`: compilation and exact sums in kernels. `parallel.py`: threads. `arrays.py`: types of
  arrays, and infinite bounds. `tasks/`: tasks in other processes.
- `solvers/`, `shims/` (rounding), `problems/` (domains), `bench/` (benchmarks), `live/` (the service).
"""

from copter.lazy import attach

__version__ = "0.1.0"

__getattr__, __dir__, __all__ = attach(__name__, __file__)
# These names need the extra `cvxpy`, so `from copter import *` does not import them.
__all__ = [name for name in __all__ if name not in ("COPTER", "from_cvxpy")]
