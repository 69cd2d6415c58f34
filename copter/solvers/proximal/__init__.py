"""Proximal point method: steps, growing working sets, and stopping rules.

Read the class in `solver.py` first, then the list of engines in `engines.py`, then `loop.py`.

- `loop.py` is the method on all columns; `fastest.py` prefers simplex if it was faster in earlier rounds.
- `state.py` contains the data that one solve leaves to the next, `run.py` the data within a solve.
- `columns.py` selects columns, and `steps.py` takes the steps on them.
- `accept.py` ends a solve with an optimum, a ray, or at the deadline (`copter/clock.py`).
- `incremental.py` solves rounds with few changes: requests become inactive, and active again.
- `inactive.py` is the immutable set of inactive requests, `inactive_index.py` an index of it.
- `full_pass.py` lists the reasons for reading all columns; `inactive_faults.py` checks
  inactive requests that were read from a file.
- `partial.py` and `starting_prices.py` are for programs of many requests.
- `finish.py` lets HiGHS solve sets on which the method stalls.
- `tuning.py` contains the parameters; `ahead.py` compiles kernels in advance.
"""
