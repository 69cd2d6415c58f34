"""The whole benchmark: every family of programs through every solver, one folder of results."""
