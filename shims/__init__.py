"""Shims: from a fractional solution to a feasible integral allocation."""
