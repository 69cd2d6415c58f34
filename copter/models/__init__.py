"""Linear programs of other people: their form, and the files they come in.

Read `general_lp.py` first: costs, matrix and bounds with names; then `model.py`, a program that follows
such an LP and answers in its words.  `reductions.py` are steps to an easier LP with a way back,
`formulation.py` the last one, to requests and resources.  `mps.py`, `lp_format.py` and `text.py` read
files (`files.py`), `mathopt.py` models of OR-Tools, `arrays.py` writes a program as an LP.  `highs.py` is
the one way to HiGHS, in the units of `highs_units.py`; `highs_runs.py` are its runs on an LP.
"""
