"""cvxpy interface: the solver ``copter.COPTER``, and ``copter.from_cvxpy``, which makes a program."""

from copter.extras import extra

with extra("cvxpy"):
    import cvxpy  # noqa: F401
