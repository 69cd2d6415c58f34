"""What the inner solvers and their working sets are tuned by.

In brackets: how many more inner iterations a quarter and four times of a number take, by ``python -m
copter.bench.tuning``; "chosen" where that shows less than half a percent and nothing else was measured.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple


class LineSearch(NamedTuple):
    """The search along a Newton step, and the damping that follows from how it went; kernels take it too.

    Attributes
    ----------
    armijo : share of the rise that the slope promises which is enough; as usual (Nocedal and Wright 2006,
        section 3.1) (chosen)
    curvature : a step is long enough where the slope along it has fallen to this share
        (+47%, -1%)
    steps : evaluations along a step at most (+3%, -1%)
    growth : of a step that is too short (-1%, +1%)
    longest : where a step that is still too short ends: prices are on the way to infinity
        (chosen)
    retries : directions of more and more damping, before the method gives up (chosen)
    first_damping, least_damping, most_damping : of the Hessian, relative to sigma; what is least is near the
        precision of the matrix (first: (+1%, +2%); the others are bounds: chosen)
    damping_change : by which it shrinks after a search that never was too long, and grows after others
        (+336%, -3%)
    damping_jump : by which it grows where no step leads higher (-2%, 0%)
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
    """How Newton systems are solved; kernels take it too.

    Attributes
    ----------
    dense_rows : systems of more unknowns are solved by conjugate gradients: there a factorisation takes some
        30 ms, which is about what gathering the matrix takes (chosen)
    cg_steps : conjugate gradients at most; the search takes what there is (chosen)
    cg_closeness : residual at which they end, as a share of the gradient, and less as that vanishes, which
        keeps the steps superlinear (chosen)
    """

    dense_rows: int = 1_000
    cg_steps: int = 500
    cg_closeness: float = 0.1


@dataclass(frozen=True)
class ElasticTuning:
    """The search for the least violation of rows that cannot be met (:mod:`copter.solvers.inner.elastic`).

    Attributes
    ----------
    steps : proximal-point steps at most
    change : violations that change by a smaller share are the least.  Newton is exact there; descent, whose
        later steps still take small violations off rows that are met, ends one in two Farkas rays too early
        with 1e-10 (tests of infeasible boxes: 613 iterations and HiGHS in place of 84), so it has 0
    growth : of the length of each step, which ends at sigma = 1e12 for Newton, 1e9 for descent (chosen)
    closeness : to which each step is solved (chosen: near the precision of the numbers)
    """

    steps: int
    change: float
    growth: float = 10.0
    closeness: float = 1e-12


@dataclass(frozen=True)
class NewtonTuning:
    """Semismooth Newton on the prices (:mod:`copter.solvers.inner.newton`).

    Attributes
    ----------
    compiled_rows, compiled_columns : up to so many all steps of a subproblem are one compiled call.  On Sia
        with 64 GPUs and 30 jobs (7 rows, 700 columns) a round then takes 2.1 ms of the processor in place of
        5.6; from some hundred rows on the factorisations of LAPACK make up for Python's part of a step
    columns_a_call : columns times steps of one compiled call, after which the deadline is asked for: some
        tenths of a second at most
    hessian_blocks : a Hessian is summed over about so many blocks at first: of more, over a sample, another
        in each step (chosen: curvature need not be exact, and doubles where it is too poor)
    blocks_a_row : at first for each row that has a price or is off: with fewer, what some curve by would not
        be known (chosen).  On 100,000 demands of a network of 1,739 nodes, with thousands of such rows,
        products with the Hessian of all took three quarters of a cold start
    offload_columns : where the columns are elsewhere, and more processors, working sets of so many are
        offloaded to there.  That takes what some five evaluations of one thread take, and a round trip 3 to
        5 ms where an evaluation of a million columns by one thread takes 60: with less it is of little use.
        On actors that share this process' processors an evaluation took 1.2 to 1.9 times as long as here
    poor_steps : after so many steps in a row that do not halve the gradient the sample doubles
        (0%, +1%)
    line, systems, elastic : see there
    elastic_iterations : of a step towards the least violation (-5%, +14%)
    """

    compiled_rows: int = 100
    compiled_columns: int = 50_000
    columns_a_call: int = 200_000
    hessian_blocks: int = 10_000
    blocks_a_row: int = 10
    offload_columns: int = 1_000_000
    poor_steps: int = 3
    line: LineSearch = LineSearch()
    systems: NewtonSystems = NewtonSystems()
    elastic: ElasticTuning = ElasticTuning(steps=12, change=1e-10)
    elastic_iterations: int = 50


@dataclass(frozen=True)
class DescentTuning:
    """Coordinate descent on the augmented Lagrangian (:mod:`copter.solvers.inner.descent`).

    Attributes
    ----------
    epochs : for a penalty and prices at most (+73%, -7%)
    term_epochs : the same where there are convex terms (chosen)
    epochs_a_call : between looks at the deadline (chosen)
    penalty : the first, in units of 1 / sigma (+9%, 0%)
    penalty_growth : where a stationary point violates rows not much less than the last
        (+212%, -13%)
    first_growth : of the first penalty after a step that did not converge (+3%, -1%)
    penalty_limit : in units of what one column's curvature is worth
        (not measured: chosen)
    enough : a violation that has fallen to this share needs no larger penalty (not measured: chosen)
    far : a row bound of more than this, in units of a typical request, says nothing of how large x is
        (chosen)
    elastic : see there
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
    """Units of a working set (:mod:`copter.solvers.inner.gather`).

    Attributes
    ----------
    mean_passes : of geometric means of rows and requests by turns (-3%, 0%)
    ruiz_passes : of Ruiz' scaling, where columns have no sum row (+1%, -1%)
    least_unit : share of its usual unit that the unit of a request is at least (chosen: a guard)
    slack_sample : requests that the slack of screening is estimated by (chosen)
    """

    mean_passes: int = 4
    ruiz_passes: int = 8
    least_unit: float = 1e-6
    slack_sample: int = 48
