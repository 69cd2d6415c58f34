"""The proximal point method: steps, working sets that grow, and when they end.

Read `loop.py` first, beneath the class in `solver.py`.  `state.py` is the data that goes around, `run.py`
what one solve shares, `columns.py` which columns are looked at, `steps.py` the steps on these, `accept.py`
when a solve ends: with an optimum, a ray, or at its deadline (`copter/clock.py`).  `incremental.py` is for
rounds in which few requests changed: there requests become inactive, and active again.  `inactive.py` is the
value that it keeps of inactive requests, `inactive_index.py` an index of that value, `full_pass.py` names the
reasons why it may not decide a round, and `audit.py` compares it with all columns.  `partial.py` and
`starting_prices.py` are for programs of many requests, `finish.py` (HiGHS) and `rational.py` for what stalls,
`tuning.py` has the numbers, `ahead.py` compiles kernels beforehand.
"""
