"""Integral allocations that are proved optimal.

Read `solver.py` first, then `search.py`, which fixes columns by reduced costs.  The residual MILP (`rest.py`)
is solved by dynamic programming (`multichoice.py`) or by branch and bound (`tree.py`).  `certain.py` is a
branch and bound in exact arithmetic; `checks.py` decides if it is needed.
"""
