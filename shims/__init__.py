"""Integral allocations from fractional ones, feasible and quick.

Read `choose_one.py` first: one column a request, placed by `choose_one_placing.py` and improved by
`choose_one_moves.py` and `choose_one_chains.py` on the columns of `choose_one_columns.py`.  `flow.py`
rounds flows over paths (`flow_passes.py`, `flow_coefficients.py`).
"""
