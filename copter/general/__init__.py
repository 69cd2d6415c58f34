"""General linear programs: `linprog`, `milp`, MPS files, and their way into a ContinualProgram.

    minimise  c'x   subject to   row_lower <= A x <= row_upper,   lower <= x <= upper

:mod:`~copter.general.model` holds such a program, :mod:`~copter.general.files` reads one, and
:mod:`~copter.general.program` turns it into requests and resources.  It is solved by presolve, the own solver
and HiGHS in :mod:`~copter.general.hybrid`, and :mod:`~copter.general.proof` checks what came out.
:mod:`~copter.general.scipy_form` and :mod:`~copter.general.integer` have scipy's arguments and results.
"""

from copter.general.files import read_mps
from copter.general.hybrid import Answer, solve_lp
from copter.general.integer import milp
from copter.general.model import GeneralLP
from copter.general.program import GeneralProgram, to_program
from copter.general.scipy_form import linprog

__all__ = [
    "Answer",
    "GeneralLP",
    "GeneralProgram",
    "linprog",
    "milp",
    "read_mps",
    "solve_lp",
    "to_program",
]
