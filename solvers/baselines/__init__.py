"""Other people's solvers behind the same protocol.

Read `baseline.py` first: what they share.  `highs.py` builds a model every round and `highs_hot.py` keeps one
alive.  `ortools_lp.py`, `cvxpy_lp.py` and `dede_lp.py` are OR-Tools', cvxpy's and DeDe's; `dede_worker.py`
runs in DeDe's own environment.
"""
