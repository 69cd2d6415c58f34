"""Feasible allocations from fractional ones, quickly.

Read `choose_one.py` first: one column a request, on the columns of `choose_one_columns.py`.
`choose_one_placing.py` places requests, `choose_one_chains.py` repairs what fits nowhere by moving others,
and `choose_one_moves.py` improves.  `flow.py` cuts flows over paths to the capacities and fills up what is
left (`flow_passes.py`, `flow_coefficients.py`); its answers are fractional.
"""
