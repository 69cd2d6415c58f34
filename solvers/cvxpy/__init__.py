"""cvxpy and copter: ``copter.COPTER`` solves its problems, ``copter.from_cvxpy`` makes programs of them."""

try:
    import cvxpy  # noqa: F401
except ModuleNotFoundError as error:
    raise ImportError(f"{error.name} is not installed: pip install 'copter-opt[cvxpy]'") from error
