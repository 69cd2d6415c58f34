"""General linear programs: their form, files, and conversion to programs.

Read `general_lp.py` first (costs, matrix and bounds with names), then `model.py` (a program that follows such
an LP and returns solutions in its names).

- `reductions.py` has reversible steps to an easier LP. `formulation.py` converts an LP to requests and
  resources.
- `files.py` reads and writes files, with `mps.py`, `lp_format.py` and `text.py`.
- `mathopt.py` converts models of OR-Tools MathOpt. `arrays.py` converts a program to an LP.
- `highs.py` is the interface to HiGHS, with the units of `highs_units.py`. `highs_runs.py` runs HiGHS on an
  LP.
"""
