"""Linear programs as arrays: their form, their files, and HiGHS.

Read `linear_program.py` first (costs, matrix and bounds with names). `files.py` reads and writes files, with
`mps.py`, `lp_format.py` and `text.py`. `arrays.py` converts a program to an LP.

`highs.py` is the interface to HiGHS. `highs_lp.py` keeps a general LP in HiGHS, and checks the statuses that
HiGHS reports.

:class:`copter.Model` is in :mod:`copter.solvers.general`.
"""
