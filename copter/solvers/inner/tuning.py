"""Parameters of the inner solvers and of their working sets.

The two percentages in brackets are the changes of the number of inner iterations if the parameter is divided
by four and multiplied by four, measured by ``bench/tuning.py`` of commit 66d6a853.  "chosen" means that these
changes are below half a percent, and that no other effect was measured.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple


class LineSearch(NamedTuple):
    """Parameters of the search along a Newton step, and of the damping; kernels take them too.

    Attributes
    ----------
    armijo : sufficient share of the rise that the slope predicts; the usual value (Nocedal and Wright 2006,
        section 3.1) (chosen)
    curvature : a step is long enough if the slope along it has decreased to this share (+47%, -1%)
    steps : largest number of evaluations along a step (+3%, -1%)
    growth : factor on the length of a step that is too short (-1%, +1%)
    longest : length at which the search ends if the step is still too short: prices diverge (chosen)
    retries : largest number of directions, each with more damping (chosen)
    first_damping, least_damping, most_damping : damping of the Hessian, relative to sigma; the least is near
        the precision of the matrix (first: (+1%, +2%); the others are bounds: chosen)
    damping_change : divisor of the damping after a search in which no length was too long; factor after
        other searches (+336%, -3%)
    damping_jump : factor on the damping after a search without a higher point (-2%, 0%)
    """

    armijo: float = 1e-4
    curvature: float = 0.8
    steps: int = 12
    growth: float = 4.0
    longest: float = 1e9
    retries: int = 5
    first_damping: float = 1e-3
    least_damping: float = 1e-12
    most_damping: float = 1e4
    damping_change: float = 4.0
    damping_jump: float = 100.0


class NewtonSystems(NamedTuple):
    """Parameters of the solution of Newton systems; kernels take them too.

    Attributes
    ----------
    dense_rows : largest number of unknowns for a factorisation; larger systems are solved by conjugate
        gradients. At this size a factorisation takes about 30 ms, as long as the matrix takes (chosen)
    dense_cube : largest ratio of the cube of the unknowns to the coefficients of the free columns for a
        factorisation.  With a larger one, some dozen products take less time. With 400 rows and 2,000 free
        columns a direction takes 0.3 ms instead of 1.5
    products : largest number of multiplications of a compiled call, after which the deadline is checked
    cg_steps : largest number of conjugate gradient iterations; the search uses the last iterate (chosen)
    cg_closeness : residual at which they end, as a share of the gradient; less for a small gradient, which
        keeps the convergence superlinear (chosen)
    """

    dense_rows: int = 1_000
    dense_cube: int = 3_000
    products: int = 30_000_000
    cg_steps: int = 500
    cg_closeness: float = 0.1

    def dense(self, unknowns: int, entries: int) -> bool:
        """Return whether to factorise, for free columns with this number of coefficients."""
        return unknowns <= self.dense_rows and unknowns**3 <= self.dense_cube * entries


@dataclass(frozen=True)
class ElasticTuning:
    """Parameters of the search for the least violation (:mod:`copter.solvers.inner.elastic`).

    Attributes
    ----------
    steps : largest number of proximal-point steps
    change : relative change below which violations count as the least.  Newton's steps are exact.  Descent
        has 0, because its later steps still remove small violations: with 1e-10 one in two Farkas rays was
        found too early (tests of infeasible boxes: 613 iterations and HiGHS instead of 84)
    growth : factor on the length of each step, which ends at sigma = 1e12 for Newton and 1e9 for descent
        (chosen)
    closeness : tolerance of each step (chosen: near the precision of the numbers)
    """

    steps: int
    change: float
    growth: float = 10.0
    closeness: float = 1e-12


@dataclass(frozen=True)
class NewtonTuning:
    """Parameters of semismooth Newton on the prices (:mod:`copter.solvers.inner.newton`).

    Attributes
    ----------
    compiled_rows, compiled_columns : largest set for which all steps of a subproblem are one compiled call.
        On Sia with 64 GPUs and 30 jobs (7 rows, 700 columns) a round then takes 2.1 ms of processor time
        instead of 5.6. From some hundred rows on, LAPACK's factorisations are faster than the compiled ones
    columns_a_call : columns times steps of one compiled call, after which the deadline is checked: some
        tenths of a second at most
    hessian_blocks : approximate number of blocks over which a Hessian is summed at first; of more blocks a
        new sample is drawn in each step (chosen: the curvature need not be exact, and the sample doubles if
        steps are poor)
    blocks_a_row : least number of sampled blocks for each row that has a price or a violation, so that the
        curvature of every row is known (chosen).  On 100,000 demands of a network of 1,739 nodes, with
        thousands of such rows, products with the Hessian of all blocks took three quarters of a cold start
    poor_steps : number of consecutive steps that do not halve the gradient, after which the sample doubles
        (0%, +1%)
    line, systems, elastic : parameters of the parts
    elastic_iterations : largest number of iterations of a step towards the least violation (-5%, +14%)
    """

    compiled_rows: int = 100
    compiled_columns: int = 50_000
    columns_a_call: int = 200_000
    hessian_blocks: int = 10_000
    blocks_a_row: int = 10
    poor_steps: int = 3
    line: LineSearch = LineSearch()
    systems: NewtonSystems = NewtonSystems()
    elastic: ElasticTuning = ElasticTuning(steps=12, change=1e-10)
    elastic_iterations: int = 50


@dataclass(frozen=True)
class DescentTuning:
    """Parameters of coordinate descent on the augmented Lagrangian (:mod:`copter.solvers.inner.descent`).

    Attributes
    ----------
    epochs : largest number of epochs for a penalty and prices (+73%, -7%)
    term_epochs : as ``epochs``, if there are convex terms (chosen)
    epochs_a_call : number of epochs between two checks of the deadline (chosen)
    penalty : first penalty, in units of 1 / sigma (+9%, 0%)
    penalty_growth : factor on the penalty if the violation at a stationary point is not clearly smaller than
        at the last one (+212%, -13%)
    first_growth : factor on the first penalty after a step that did not converge (+3%, -1%)
    penalty_limit : largest penalty, in units of the inverse curvature of one column (not measured: chosen)
    enough : the penalty does not grow if the violation has decreased to this share (not measured: chosen)
    far : a row bound larger than this, in units of a typical request, does not indicate the size of x
        (chosen)
    elastic : parameters of the search for the least violation
    """

    epochs: int = 100
    term_epochs: int = 200
    epochs_a_call: int = 20
    penalty: float = 1.0
    penalty_growth: float = 4.0
    first_growth: float = 16.0
    penalty_limit: float = 1e4
    enough: float = 0.5
    far: float = 1e6
    elastic: ElasticTuning = ElasticTuning(steps=9, change=0.0)


@dataclass(frozen=True)
class SetTuning:
    """Parameters of the units of a working set (:mod:`copter.solvers.inner.gather`).

    Attributes
    ----------
    mean_passes : number of passes of geometric means of rows and requests, alternately (-3%, 0%)
    ruiz_passes : number of passes of Ruiz' scaling, for columns without a sum row (+1%, -1%)
    least_unit : least unit of a request, as a share of its usual unit (chosen: a guard)
    slack_sample : number of requests from which the slack of screening is estimated (chosen)
    """

    mean_passes: int = 4
    ruiz_passes: int = 8
    least_unit: float = 1e-6
    slack_sample: int = 48
