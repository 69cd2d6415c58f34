"""General linear programs: `linprog`, `milp`, MPS files, and their way into a ContinualProgram.

    minimise  c'x   subject to   row_lower <= A x <= row_upper,   lower <= x <= upper

:mod:`~copter.models.general_lp` holds such a program, :mod:`~copter.models.files` reads one, and
:mod:`~copter.models.model` turns it into requests and resources.  It is solved by presolve, the
own solver and HiGHS in :mod:`~copter.solvers.general.hybrid`, and :mod:`~copter.proof.general_lp`
checks what came out.
`presolve.py` is HiGHS' presolve, `warm.py` solves one LP again and again, `semicontinuous.py` makes columns
integral that may be 0.  :mod:`~copter.solvers.general.scipy_form` and :mod:`~copter.solvers.general.integer`
have scipy's arguments and results (`scipy_arguments.py`, `scipy_options.py`).
"""

from copter.models.files import read_mps
from copter.models.general_lp import GeneralLP
from copter.models.model import Model, ModelSolution
from copter.proof.highs_lp import Answer
from copter.solvers.general.hybrid import solve_lp
from copter.solvers.general.integer import milp
from copter.solvers.general.scipy_form import from_arrays, linprog

__all__ = [
    "Answer",
    "GeneralLP",
    "Model",
    "ModelSolution",
    "from_arrays",
    "linprog",
    "milp",
    "read_mps",
    "solve_lp",
]
