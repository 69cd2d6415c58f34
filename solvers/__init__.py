"""Solvers behind one protocol: copter's proximal point method, HiGHS and OR-Tools."""
