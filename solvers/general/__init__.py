"""General linear programs: `linprog`, `milp`, MPS files, and conversion to a ContinualProgram.

    minimise  c'x   subject to   row_lower <= A x <= row_upper,   lower <= x <= upper

:mod:`~copter.models.general_lp` stores such a program, :mod:`~copter.models.files` reads one, and
:mod:`~copter.models.model` converts it to requests and resources.  :mod:`~copter.solvers.general.hybrid`
solves it by presolve (`presolve.py`), copter's solver and HiGHS; :mod:`~copter.proof.general_lp` checks the
result.  `warm.py` solves similar LPs one after the other. `semicontinuous.py` replaces semi-continuous
columns by integral ones.  :mod:`~copter.solvers.general.scipy_form` and
:mod:`~copter.solvers.general.integer` have the arguments and results of scipy (`scipy_arguments.py`,
`scipy_options.py`).
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
