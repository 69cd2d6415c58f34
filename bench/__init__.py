"""Benchmarks: rounds that any solver is measured on, one case alone or a whole suite of them.

Read `course.py` first: a `Course` plays its rounds with one solver and gives a record a round.  A `Case`
(`case.py`) is a course with its options (`settings.py`), its solvers and its checker; `rounds.py` is the
runner that plays one solver on it, with `calm.py` (waiting for the machine) and `checks.py` (is the answer
what it claims to be?).  What comes of it is a line of results (`results.py`, with `machine.py`), which
`statistics.py` sums up and `report/` shows, in figures as `formats.py` writes them.  `suite.py` runs all
cases into a folder and goes on where it was interrupted (`conditions.py`).

Courses of no domain are in `synthetic.py`, `changes.py`, `programs.py` (with `lp.py`) and `updates.py`;
`lines.py` lists their cases, and `recording.py` records a course's edits once.  `solvers.py` knows who takes
part, `composition.py` how integral answers are.  `reproduction.py` and `grid.py` measure the figures of
papers, `copter/cli/reproduce.py` prints them, `report/papers.py` compares.  `deadlines.py`, `tuning.py` and
`cvxpy_rounds.py` are programs of their own, run with ``python -m``.
"""
