"""Other people's solvers behind the same protocol."""
