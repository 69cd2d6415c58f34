"""Kernels for sums that do not depend on the order of their terms.

`compensated.py` keeps the rounding error of each addition, so that a sum can be split into parts in any way.
`exact.py` uses integers, so that subtracting a term restores the previous sum in all bits.
"""
