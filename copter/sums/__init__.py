"""Sums that do not depend on their order.

`compensated.py` carries the rounding error of each addition along, so that sums may be cut in any way;
`exact.py` keeps integers, so that a term that is taken off again leaves no trace.  Both are kernels.
"""
