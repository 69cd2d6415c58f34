"""Integral allocations that are proved optimal.

Read `solver.py` first, then `search.py`: fixing by reduced costs, and what is left (`rest.py`) by dynamic
programming (`multichoice.py`) or a tree (`tree.py`).  `certain.py` proves in exact arithmetic;
`checks.py` says whether that is needed.
"""
