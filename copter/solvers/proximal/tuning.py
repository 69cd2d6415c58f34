"""Parameters of the proximal-point solver: an immutable record, passed as ``ProximalPoint(tuning=...)``.

The two percentages in brackets are the changes of the number of inner iterations if the parameter is divided
by four and multiplied by four, measured by ``bench/tuning.py`` of commit 66d6a853.  "chosen" means that these
changes are below half a percent, and that no other effect was measured.
"""

from __future__ import annotations

from dataclasses import dataclass

from copter.solvers.inner.tuning import DescentTuning, NewtonTuning, SetTuning


@dataclass(frozen=True)
class ScreeningTuning:
    """Parameters of the selection of columns by pricing passes (:mod:`copter.solvers.proximal.columns`).

    Attributes
    ----------
    screen_from : least number of columns of a program that is screened.  Sia on 256 GPUs with 60 jobs (4,000
        columns) takes 1.4 ms a round with screening and 2.3 ms without, and its shim half as long. With 64
        GPUs and 20 jobs (450 columns) there is no difference
    wanted : approximate number of candidate columns of a screened request that a pass collects.  With Sia's
        140 to 1,400 columns a job, 6 take a third less time than 12, with as many steps and no larger gaps
        after rounding
    more_wanted : factor on the wanted number each time that the columns cannot satisfy the rows (chosen)
    widest : a working set of more than this many times the wanted columns is thinned out (chosen)
    far_too_many : multiple of the wanted number above which the slack is estimated again and the pass is
        repeated (chosen)
    too_many, too_few : multiples of the wanted number above and below which the slack of the next pass
        shrinks and grows (+1%, 0%), (0%, +3%)
    narrower, wider : factors on the slack in these cases (chosen)
    least_slack : the slack does not shrink below this share of the typical slack because of a few requests
        with far too many columns.  With 1,024 shards on 128 servers, whose replicas are free and whose other
        columns have equal costs, passes then collect 6 columns each instead of 38
    """

    screen_from: int = 1_000
    wanted: int = 6
    more_wanted: int = 4
    widest: int = 6
    far_too_many: float = 4.0
    too_many: float = 1.5
    too_few: float = 0.6
    narrower: float = 0.7
    wider: float = 1.5
    least_slack: float = 0.25


@dataclass(frozen=True)
class SampleTuning:
    """Parameters of the sample for initial prices (:mod:`copter.solvers.proximal.starting_prices`).

    Attributes
    ----------
    columns, columns_a_row : least number of columns in a sample, and per row; the larger one counts
        (+1%, -1%), (chosen).  On full-mesh Kdl the bound by 40,000 of a million columns is within 0.01% of
        the optimum after most changes (docs/explanation/column-screening.md)
    least_requests : least number of requests in a sample, and at least one a row, because fewer cannot
        determine the price of every row (chosen)
    small_share : share of the requests up to which the least number is drawn, however many columns it has.
        Without these prices a cold solve of 43 million columns took 170 times as long as a warm one, and with
        them 3 times as long
    largest_share : share of the requests above which no sample is drawn, because solving all is as fast
        (-1%, 0%)
    goal : gap of the sample; a tighter gap would fit the prices to its few requests (0%, -1%)
    loose : share of the goal at which steps end before the rows are satisfied, because only prices are needed
        (chosen)
    """

    columns: int = 40_000
    columns_a_row: int = 20
    least_requests: int = 8
    small_share: float = 0.002
    largest_share: float = 0.25
    goal: float = 2e-3
    loose: float = 0.2


@dataclass(frozen=True)
class StepsTuning:
    """Parameters of proximal-point steps on a working set (:mod:`copter.solvers.proximal.steps`).

    Attributes
    ----------
    cold_sigma, warm_sigma : first step lengths without prices, and with those of the last round or of a
        sample; in multiples of the typical ratio of a column's value to its cost (+3%, 0%), (-3%, +9%)
    growth : factor on sigma after a step that converged easily, and divisor after a failed step (0%, +23%)
    least_sigma, most_sigma : bounds on sigma in the same multiples (chosen)
    inner_limit : largest number of inner iterations of a step; up to half of it counts as easy (-7%, +13%)
    closeness : share of the tolerance to which the inner solver satisfies rows (0%, -1%)
    stalled, stalls, closer : if ``stalls`` consecutive converged steps leave more than the share ``stalled``
        of the gap, the inner tolerance is multiplied by ``closer`` (chosen), (+3%, 0%), (chosen)
    inexact, inexact_steps : a step is accurate enough to continue from if its row violations are at most this
        share of its length; largest number of such steps (0%, +12%), (chosen)
    easily : an inexact step of at most this many iterations lengthens sigma, if violated rows do not limit
        the gap.  Without the condition on rows a sample of permuted Poisson demands took 280 iterations, with
        it 99
    stricter : factor on ``inexact`` after a step in which violated rows make up more than half of the gap
        (chosen)
    merely_long, nearly_there, long_steps : a failed step that left at most the share ``merely_long`` of its
        residual was too long, and does not indicate infeasible rows. With at most ``nearly_there`` left it is
        repeated once at the same length. ``long_steps`` consecutive ones are permitted (-2%, 0%),
        (chosen), (chosen)
    failures : number of other failed steps after which the rows are tested for feasibility (-1%, +7%)
    feasible, projections : the result is projected onto the rows, to this share of the tolerance and by at
        most this many inner iterations.  A row violation can hide an error of the objective, by the ratio of
        the largest coefficient to the differences that decide (chosen)
    """

    cold_sigma: float = 10.0
    warm_sigma: float = 600.0
    growth: float = 5.0
    least_sigma: float = 1e-6
    most_sigma: float = 1e12
    inner_limit: int = 25
    closeness: float = 0.01
    stalled: float = 0.7
    stalls: int = 3
    closer: float = 0.1
    inexact: float = 0.1
    inexact_steps: int = 20
    easily: int = 2
    stricter: float = 0.5
    merely_long: float = 0.1
    nearly_there: float = 0.01
    long_steps: int = 8
    failures: int = 3
    feasible: float = 1e-5
    projections: int = 20


@dataclass(frozen=True)
class PartialTuning:
    """Parameters of steps in which only some requests change (:mod:`copter.solvers.proximal.partial`).

    Attributes
    ----------
    columns_from, requests_from : with more candidate columns, or more requests, the first steps are partial.
        With 20,000 demands a round of changes takes between a half and a sixth of the time of whole steps
        (chosen), (0%, -13%)
    rows_from : with fewer rows all steps are whole, because a price change concerns nearly all requests;
        rounds of 180 million columns and 7 rows take 0.5 s instead of 3 s
    share, more : share of the requests, those with the smallest margins, that change in the first step, and
        the factor on it in the next step.  With Poisson demands on full-mesh Kdl the nearest 20% reach the
        optimum to within 2e-4, and 25% nearly always to within 1e-4; warm rounds take 1.1 s instead of 3.1 s
    worthless : gap after the reassignment of suboptimal requests above which all requests change (chosen)
    hopeless : gap of a warm start above which prices come from a sample (chosen: with a smaller gap the last
        prices are better; 1e-2 to 0.1 after failing links, 0.8 after a permutation), and violation of a row
        after the reassignment above which steps are whole, if no heuristic repairs them.  With 400 rows and
        20,000 requests of 20 columns of their own a cold start then takes 0.2 s instead of 0.95
    loose, tighter : if the program has a repair heuristic: share of the tolerance at which steps end before
        the rows are satisfied, and the factor on it if that was too early (chosen)
    near : a row is included if less than this share of its bound is left (chosen)
    near_sampled : as ``near``, in a cold start with the flow of a sample, in which rows are off by a few
        percent. On full-mesh Kdl steps then take a tenth less time than with ``near``, and less memory
    ignored : share of the tolerance up to which the smallest losses together are ignored (-1%, 0%)
    most : share of the requests above which all requests change (-13%, +1%)
    progress : if a step reduces the gap to at most this share and satisfies the rows, as many requests
        change in the next one, chosen again at the new prices (chosen). A cold solve of 3 million columns and
        150,000 requests to a tolerance of 1e-6 takes 108 instead of 168 iterations, the last ones on fewer
        columns
    row_passes : how often rows that a step would violate are added (chosen)
    first_sigma : first step length, in the unit of ``cold_sigma`` (chosen)
    """

    columns_from: int = 200_000
    requests_from: int = 10_000
    rows_from: int = 10
    share: float = 0.25
    more: float = 2.0
    worthless: float = 0.03
    hopeless: float = 0.5
    loose: float = 0.6
    tighter: float = 0.2
    near: float = 0.15
    near_sampled: float = 0.05
    ignored: float = 0.2
    most: float = 0.5
    progress: float = 0.1
    row_passes: int = 4
    first_sigma: float = 20.0


@dataclass(frozen=True)
class LazyTuning:
    """Parameters of rounds that read active requests only (:mod:`copter.solvers.proximal.incremental`).

    Attributes
    ----------
    requests_from, columns_from : smaller programs are solved as a whole (chosen)
    rows : with more rows, ``nearest`` and ``most_expired`` grow in proportion, because more prices change
        (chosen).  With 400 rows and 20,000 requests of 20 columns of their own, 500 changes take 115 ms with
        1,000 nearest requests and 65 with 2,000
    most_touched : largest share of edited requests in a round after which others become inactive
    most_frozen : largest share of edited requests in a round after which all requests may become fixed: tied
        requests with columns of their own in many rows (chosen)
    sample : number of requests from which the number of ties is estimated (chosen)
    few_edits : number of edited requests that is small in any program (chosen)
    most_open : largest share of active requests
    little_lost : share of the tolerance up to which a request's loss is accepted; with a larger loss it gets
        its optimal allocation (chosen)
    nearest_least, nearest_each, nearest : number of inactive requests nearest to their thresholds that become
        active at first, because they determine the prices. Their number is ``nearest_least`` minus the
        requests between their columns, plus ``nearest_each`` for each edited request, and at most
        ``nearest``.  With one change in a million columns 0, 16 and 48 more take 1.14, 1.22 and 1.34 ms; in
        100,000 columns, where fewer are between their columns, 1.44, 1.10 and 1.16 ms
    moving : factor on the number of inactive requests that must change for an edited capacity.  A change of
        a capacity by 0.1% and 1% takes 10 and 117 ms with 3, 8 and 42 ms with 8, 16 and 100 ms with 16
        (100,000 requests of 10 columns on 8 rows), and 1 to 2 s with all columns
    seconds_each : seconds to make a request inactive; with less time left no request becomes inactive
        (5 million: 4 s)
    hold : weight, as a step length, of the cost of leaving a bound while rows are satisfied at the last
        prices.  One change in 100,000, a million and 10 million columns takes 1.8, 1.8 and 4.2 ms with 10,
        1.3, 1.0 and 4.0 ms with 100, 1.2, 1.0 and 2.7 ms with 1,000, 1.8, 2.2 and 4.0 ms with 10,000
    projections : as in the steps; few requests on many violated rows leave them one by one (chosen)
    between : number of active requests, in addition to two for each edited one and three for each row, above
        which steps are taken, so that fewer requests are between their columns (chosen)
    most_expired : largest number of requests that pass their thresholds in a step for each active request;
        with larger price changes too few active requests determine the prices (chosen)
    sigma : least first step length, which is the number of requests for each row, in the unit of
        ``warm_sigma``.  With more requests, more would be between their columns after a step of equal length.
        With longer steps fewer prices change without need, but with few requests for each row more iterations
        are needed: with 400 rows, as above, 500 changes take 65, 88 and 102 ms with 20, 50 and 100
    longest_pause : largest number of rounds in which the last prices are not tried after a failure (chosen)
    iterations : number of iterations after which all columns are read (chosen: the rounds above take 5 to 40)
    turns : largest number of repetitions of activation and steps (chosen)
    screened_turns : number of these repetitions that read only columns within the slack of the last full pass
        (chosen)
    """

    requests_from: int = 1_000
    columns_from: int = 10_000
    rows: int = 64
    most_touched: float = 0.1
    most_frozen: float = 0.001
    sample: int = 256
    few_edits: int = 4
    most_open: float = 0.25
    little_lost: float = 0.01
    nearest_least: int = 80
    nearest_each: int = 8
    nearest: int = 400
    moving: float = 8.0
    seconds_each: float = 1e-6
    hold: float = 300.0
    projections: int = 100
    between: int = 100
    most_expired: float = 20.0
    sigma: float = 20.0
    longest_pause: int = 16
    iterations: int = 200
    turns: int = 12
    screened_turns: int = 3


@dataclass(frozen=True)
class FallBackTuning:
    """Parameters of the fallback to HiGHS on a working set (:mod:`copter.solvers.proximal.finish`).

    None of the programs that ``bench/tuning.py`` measures stalls, so none of these numbers was measured.

    Attributes
    ----------
    idle_rounds : number of passes without progress before the fallback (chosen)
    most : largest number of fallbacks in a solve, each with more columns (chosen)
    columns : largest set; larger ones may take HiGHS hours (chosen)
    small, small_iterations, columns_an_iteration : a set of at most ``small`` columns goes to HiGHS after
        this many iterations in all, plus one for every ``columns_an_iteration`` columns, even with progress,
        because HiGHS solves it in the time of as many iterations.  Of 3,000 random programs of twenty
        families 1 in 20 takes more than 60; a cold round of Sia on 256 GPUs takes 130 in 9 ms, and HiGHS 20
        ms
    tolerance : HiGHS' least tolerance: rows are judged in their own scale, which may be much less than 1
    least_row : bounds of rows below this value, in the set's units, count as this value (chosen)
    met : if HiGHS has no answer for a small set either, an optimum counts as proved only if row violations
        are at most this, because they may be decisive (chosen)
    pivots : largest number of simplex pivots for each row and column of the set (chosen)
    """

    idle_rounds: int = 6
    most: int = 40
    columns: int = 500_000
    small: int = 3_000
    small_iterations: int = 60
    columns_an_iteration: int = 10
    tolerance: float = 1e-10
    least_row: float = 1e-12
    met: float = 1e-9
    pivots: int = 50


@dataclass(frozen=True)
class ProximalTuning:
    """Parameters of :class:`copter.solvers.proximal.solver.ProximalPoint`.

    Attributes
    ----------
    goal_share : share of the tolerance to which steps on a set are taken (+10%, -8%)
    gap_share : share of the last pass' gap to which they are taken, because columns that are left out change
        the prices anyway (+1%, -2%)
    switch_rounds : passes without progress after which ``inner="auto"`` switches to descent (chosen)
    idle_rounds : passes without progress after which the solve ends (chosen)
    seconds_a_column : seconds a column for restricting the program and beginning steps; with less time left
        the solve ends (600,000 columns: 0.2 s)
    most_piece : largest share of a deadline that is reserved for one more piece of work (chosen)
    screening, sample, steps, partial, fall_back, lazy, working_set, newton, descent : parameters of the parts
    """

    goal_share: float = 0.3
    gap_share: float = 1e-3
    switch_rounds: int = 4
    idle_rounds: int = 30
    seconds_a_column: float = 3e-7
    most_piece: float = 0.25
    screening: ScreeningTuning = ScreeningTuning()
    sample: SampleTuning = SampleTuning()
    steps: StepsTuning = StepsTuning()
    partial: PartialTuning = PartialTuning()
    fall_back: FallBackTuning = FallBackTuning()
    lazy: LazyTuning = LazyTuning()
    working_set: SetTuning = SetTuning()
    newton: NewtonTuning = NewtonTuning()
    descent: DescentTuning = DescentTuning()
