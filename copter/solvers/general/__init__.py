"""General linear and mixed-integer programs: :class:`Model`, and functions that make one.

    minimise  c'x   subject to   row_lower <= A x <= row_upper,   lower <= x <= upper

Read `model.py` first. A :class:`Model` keeps such a program in HiGHS (:mod:`copter.models.highs_lp`) and
checks each answer (:mod:`copter.proof.general_lp`); `integer.py` solves programs with integral columns, and
`semicontinuous.py` replaces semi-continuous columns by integral ones. `allocation.py` converts an LP that is
an allocation to a ContinualProgram.

Models and solutions are made by `scipy_form.py` (`linprog`, `milp`, `from_arrays`), with arguments and
options in `scipy_arguments.py` and `scipy_options.py`, and by `mathopt.py`. Files are read by
:mod:`copter.models.files`, and cvxpy's problems by :mod:`copter.solvers.cvxpy`.
"""
