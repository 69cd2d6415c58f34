"""Benchmarks: rounds on which any solver is measured, as a single case or as a suite of cases.

Read `course.py` first: a `Course` is a benchmark scenario. It plays its rounds with one solver and yields a
record for each round.  A `Case` (`case.py`) is a course with its options, its solvers and its checker, and
`settings.py` has the settings of a solver. The runner in `rounds.py` plays a course with one solver;
`calm.py` waits until the machine runs at full speed, and `checks.py` checks the answers.  The result of a
case is a line of results (`result_files.py`, with `machine.py`). `statistics.py` summarises lines, and
`report/` shows them, with numbers in the format of `formats.py`.  `suite.py` measures all cases, keeps their
results in a folder, and continues an interrupted run under the same conditions (`conditions.py`).

Courses without a domain are in `synthetic.py`, `changes.py` and `programs.py`.  `domain.py` makes a course of
a domain.  `lines.py` lists the cases without a domain, and `recording.py` records the edits of a course.
`solvers.py` lists the solvers, and `welfare.py` solves Shockwave's relaxation by cvxpy.  `reproduction.py`
and `grid.py` measure figures of papers, `copter/cli/reproduce.py` prints them, and `report/papers.py`
compares them.  `sequences.py` exports sequences of LPs for other solvers.
"""
