"""Shims: fast heuristics that convert a fractional allocation to a feasible one.

Read `choose_one.py` first: it chooses one column for each request, by the data of `choose_one_columns.py`.
`choose_one_placing.py` places requests, `choose_one_chains.py` repairs by ejection chains, and
`choose_one_moves.py` improves the result.  `flow.py` makes flows over paths feasible: it cuts them to the
capacities and fills the remaining capacity (`flow_passes.py`, `flow_coefficients.py`). Its results are
fractional. `counts.py` makes whole amounts, also for rows with lower bounds (`counts_repair.py`).
"""
