"""Benchmarks: rounds that any solver is measured on, one case alone or a whole suite of them.

Read `course.py` first: a `Course` plays its rounds with one solver and gives a record a round.  A `Case`
(`case.py`) is a course with its options, its solvers and its checker; `rounds.py` is the runner that plays
one solver on it, with `calm.py` (waiting for the machine) and `checks.py` (is the answer what it claims to
be?). What comes of it is a line of results (`results.py`), which `statistics.py` sums up and `report/` shows.
`suite.py` runs all cases into a folder and goes on where it was interrupted (`conditions.py`).

Courses of no domain are in `synthetic.py`, `programs.py` (with `lp.py`), `updates.py` and `recording.py`, and
`lines.py` lists their cases; `solvers.py` knows who takes part.  `reproduction.py` is for papers' tables.
`deadlines.py`, `tuning.py` and `cvxpy_rounds.py` are programs of their own, run with ``python -m``.
"""
