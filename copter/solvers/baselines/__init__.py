"""Solvers of other authors with the interface of copter's solvers.

Read `baseline.py` first: it contains the shared code.  `highs.py` builds a model every round; `highs_hot.py`
updates one model with the edits.  `ortools_lp.py` runs OR-Tools' solvers.
"""
