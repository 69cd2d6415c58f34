"""cvxpy and copter: ``copter.COPTER`` solves its problems, ``copter.from_cvxpy`` makes programs of them."""

from copter.extras import extra

with extra("cvxpy"):
    import cvxpy  # noqa: F401
