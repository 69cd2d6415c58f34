"""cvxpy interface: the solver ``copter.COPTER``, and ``copter.from_cvxpy``, which makes a Model.

`solver.py` is the solver. `model.py` keeps a problem with parameters as a Model; `folding.py` reads rows with
one entry as bounds.
"""

from copter.extras import extra

with extra("cvxpy"):
    import cvxpy  # noqa: F401
