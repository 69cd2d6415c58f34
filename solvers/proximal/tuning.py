"""What the proximal-point solver is tuned by: a frozen record, passed in as ``ProximalPoint(tuning=...)``.

In brackets: how many more inner iterations a quarter and four times of a number take, by ``python -m
copter.bench.tuning``; "chosen" where that shows less than half a percent and nothing else was measured.
"""

from __future__ import annotations

from dataclasses import dataclass

from copter.solvers.inner.tuning import DescentTuning, NewtonTuning, SetTuning


@dataclass(frozen=True)
class ScreeningTuning:
    """Which columns a pass collects (:mod:`copter.solvers.proximal.columns`).

    Attributes
    ----------
    screen_from : programs of fewer columns are not screened.  Sia on 256 GPUs with 60 jobs (4,000 columns)
        takes 1.4 ms a round in place of 2.3 if it is, and its shim half as long; with 64 GPUs and 20 jobs
        (450 columns) it is as quick without
    wanted : candidate columns of a screened request that a pass should collect, about.  Of Sia's 140 to
        1,400 columns a job 6 take a third less time than 12, with as many steps and gaps after rounding no
        larger
    more_wanted : so many times as many each time that rows cannot be met with the columns that there are
        (chosen)
    widest : a working set of more than so many times the wanted columns is thinned out (chosen)
    far_too_many : times what is wanted, at which a pass is repeated with a slack that is estimated anew
        (chosen)
    too_many, too_few : times what is wanted, at which the slack of the next pass shrinks and grows
        (+1%, 0%), (0%, +3%)
    narrower, wider : factors on the slack then (chosen)
    least_slack : share of the slack that most requests ask for, below which it does not shrink for the sake
        of a few that have far too many columns all the same.  Of 1,024 shards on 128 servers, whose replicas
        are free and whose other columns cost the same, passes then collect 6 columns each in place of 38
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
    """The sample whose prices a cold solve begins with (:mod:`copter.solvers.proximal.starting_prices`).

    Attributes
    ----------
    columns, columns_a_row : in a sample at least, and for each row, whichever is more (+1%, -1%),
        (chosen).  On full-mesh Kdl the bound by 40,000 of a million columns is within 0.01%
        of the optimum after most changes (docs/algorithm.md)
    least_requests : in a sample, and at least one a row: fewer cannot know the price of every row
        (chosen)
    small_share : of the requests; the least number is drawn, however many columns it has, where that is less.
        Without these prices a cold solve of 43 million columns took 170 times a warm one, with them 3 times
    largest_share : of the requests; where a sample would need more, all are as quick (-1%, 0%)
    goal : gap of the sample: its prices at a tighter one are those of its own few requests (0%, -1%)
    loose : share of that at which steps end although rows are still off: only prices are asked for (chosen)
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
    """Proximal-point steps on a working set (:mod:`copter.solvers.proximal.steps`).

    Attributes
    ----------
    cold_sigma, warm_sigma : first step lengths, as multiples of what a column typically gets over what it
        typically costs: without prices, and with those of the last round or of a sample
        (+3%, 0%), (-3%, +9%)
    growth : of sigma after a step that converged easily, and its inverse after one that did not
        (0%, +23%)
    least_sigma, most_sigma : bounds on sigma in the same multiples (chosen)
    inner_limit : iterations of the inner solver for one step; half of them is easily (-7%, +13%)
    closeness : of the inner solver: share of the tolerance to which it meets rows (0%, -1%)
    stalled, stalls, closer : where so many (``stalls``) converged steps in a row leave more than this share
        (``stalled``) of the gap, the inner tolerance holds it up, and is made tighter by ``closer``
        (chosen), (+3%, 0%), (chosen)
    inexact, inexact_steps : a step that leaves rows off by at most this share of what it moved is good enough
        to go on from, so many times (0%, +12%), (chosen)
    easily : an inexact step of at most so many iterations, whose rows do not hold up the gap, lengthens
        sigma.  Where rows were not asked, a sample of permuted Poisson demands took 280 iterations, now 99
    stricter : factor on ``inexact`` after a step of whose gap rows that are off make up more than half
        (chosen)
    tighter, tighter_steps : reduced costs of columns without bounds make a bound that is none; a few more
        steps mostly bring them to this share of the tolerance (chosen), (chosen)
    merely_long, nearly_there, long_steps : a step that left at most this share (``merely_long``) of its
        residual is merely long, no sign that rows cannot be met; with so little left (``nearly_there``) it
        goes on, once, at the same length; there may be so many in a row (-2%, 0%),
        (chosen), (chosen)
    failures : other steps that did not converge, after which rows are tested for whether they can be met
        (-1%, +7%)
    ray_gap : a converged step that leaves a larger gap may go along a ray without end (chosen)
    feasible, projections : an answer is projected onto the rows until they are met to this share of the
        tolerance, by so many inner iterations at most.  What a row is off by may hide an objective that is
        off by as much as the largest coefficient is larger than the differences which decide (chosen)
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
    tighter: float = 1e-3
    tighter_steps: int = 4
    merely_long: float = 0.1
    nearly_there: float = 0.01
    long_steps: int = 8
    failures: int = 3
    ray_gap: float = 1e-3
    feasible: float = 1e-5
    projections: int = 20


@dataclass(frozen=True)
class PartialTuning:
    """Steps in which only some requests move (:mod:`copter.solvers.proximal.partial`).

    Attributes
    ----------
    columns_from, requests_from : with more candidate columns, or more requests, steps are partial at first.
        On 20,000 demands a round of changes takes a half to a sixth of what it takes with whole steps
        (chosen), (0%, -13%)
    rows_from : with fewer rows all steps are whole ones: a change of any price concerns nearly all requests,
        and rounds of 180 million columns and 7 rows take 0.5 s instead of 3 s
    share, more : of the requests that move at first, those with the least margins, and the factor on that in
        the next step.  Of Poisson demands on full-mesh Kdl the nearest 20% hold the optimum to within 2e-4,
        and 25% nearly always to within 1e-4: warm rounds take 1.1 s in place of 3.1 s
    worthless : gap of the start, once all that lose have chosen again, above which all move (chosen)
    hopeless : gap of the start above which the sample does not begin from it (chosen; 1e-2 to 0.1 after
        failing links, 0.8 after a permutation)
    loose, tighter : share of the tolerance at which steps end although rows are still off, where the program
        mends its answers; and the factor on it where that was too soon (chosen)
    near : a row is near its bound, and looked at, if less than this share of it is left (chosen)
    near_sampled : the same in a cold start, by the flow of a sample, in which rows are off by a few percent.
        On full-mesh Kdl steps then take a tenth less than with ``near``, and less memory
    ignored : losses of requests that together make up this share of the tolerance (-1%, 0%)
    most : share of the requests; where more would have to move, all do (-13%, +1%)
    row_passes : how often rows come in that a step would violate (chosen)
    first_sigma : first step length, as ``cold_sigma`` (chosen)
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
    row_passes: int = 4
    first_sigma: float = 20.0


@dataclass(frozen=True)
class LazyTuning:
    """Rounds that read active requests only (:mod:`copter.solvers.proximal.incremental`).

    Attributes
    ----------
    requests_from, columns_from : programs of fewer are solved as a whole (chosen)
    rows_for_own : with more rows requests whose columns are their own become fixed: all of them would be of
        one group, in which the moves of all prices add up (chosen)
    most_touched : share of the requests that a round edits at most, for others to become inactive
    most_frozen : the same where columns are each request's own and rows are many (chosen)
    few_edits : edited requests that are few in any program (chosen)
    most_open : share of the requests that are active at most
    little_lost : share of the tolerance that a request may lose before it takes what is best for it (chosen)
    nearest_least, nearest_each, nearest : inactive requests that become active at first, for they hold the
        prices: those that are nearest to their thresholds, so many less those that are between their
        columns, and so many for each that was edited, and in all.  Of a million columns with one change 0,
        16 and 48 more take 1.14, 1.22 and 1.34 ms; of 100,000, where fewer are between, 1.44, 1.10 and 1.16
    moving : how many times as many inactive requests become active as must move for a capacity that was
        edited.  A capacity that moves by 0.1% and 1% takes 10 and 117 ms with 3, 8 and 42 ms with 8, 16 and
        100 ms with 16 (100,000 requests of 10 columns on 8 rows), and 1 to 2 s with all columns
    seconds_each : to make a request inactive; with a deadline that leaves less none does (5 million: 4 s)
    hold : how many times, in terms of a step's length, it counts if columns leave their bounds while rows
        are met at the last prices.  One change of 100,000, a million and 10 million columns takes 1.8, 1.8
        and 4.2 ms with 10, 1.3, 1.0 and 4.0 ms with 100, 1.2, 1.0 and 2.7 ms with 1,000, 1.8, 2.2 and 4.0 ms
        with 10,000
    projections : as of steps; few requests on many rows that are over leave these one by one (chosen)
    between : active requests in addition to the edited ones, more of which ask for steps, after which fewer
        are between their columns (chosen)
    most_expired : requests that may pass their thresholds in a step for each that is active; prices that go
        further have too little to hold them (chosen)
    sigma, sigma_each : first step length, as ``warm_sigma``, at least and for each request: of more requests
        more would be between their columns after a step of the same length.  The longer the steps, the less
        prices move that need not.
        As above one, 50 and 500 changes take 3.4, 5.3 and 21 ms with 600, 2.7, 4.9 and 17 ms with 3,000, 2.5,
        4.3 and 32 ms with 100,000
    longest_pause : rounds at most in which the last prices are not tried, after they were not good enough
        (chosen)
    iterations : after so many, all columns are read (chosen: the rounds above take 5 to 40)
    turns : how often requests may become active and steps go on (chosen)
    screened_turns : of these, so many read only columns that the slack of the last full pass lets in (chosen)
    """

    requests_from: int = 1_000
    columns_from: int = 10_000
    rows_for_own: int = 64
    most_touched: float = 0.1
    most_frozen: float = 0.001
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
    sigma: float = 3_000.0
    sigma_each: float = 0.06
    longest_pause: int = 16
    iterations: int = 200
    turns: int = 12
    screened_turns: int = 3


@dataclass(frozen=True)
class FallBackTuning:
    """When HiGHS finishes a working set (:mod:`copter.solvers.proximal.finish`).

    None of the programs of ``copter.bench.tuning`` stalls, so none of these numbers was measured there.

    Attributes
    ----------
    idle_rounds : passes without progress after which it does (chosen)
    most : how often in a solve, with more columns each time (chosen)
    columns : sets of more may take it hours (chosen)
    small, small_iterations, columns_an_iteration : sets of at most so many columns (``small``) are handed
        over after so many iterations in all, and one more for every so many columns, progress or not: it is
        done with them in the time of as many more.  Of 3,000 random programs of twenty families 1 in 20 takes
        more than 60; a cold round of Sia on 256 GPUs takes 130 in 9 ms, where HiGHS takes 20
    tolerance : the least that HiGHS takes: rows are judged in their own scale, which may be much less than 1
    least_row : bounds of rows that are less, in the set's units, count as this much (chosen)
    met : rows of a small set that HiGHS too finds no answer for are met to this, or no optimum is proved:
        what they are off by may decide (chosen)
    pivots : of the simplex at most, for each row and column of the set (chosen)
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
    """Every number that :class:`copter.solvers.proximal.solver.ProximalPoint` was tuned by.

    Attributes
    ----------
    goal_share : share of the tolerance to which steps on a set go (+10%, -8%)
    gap_share : share of the last pass' gap to which they go: columns that are left out ask for other prices
        anyway (+1%, -2%)
    switch_rounds : passes without progress after which ``inner="auto"`` goes on by descent (chosen)
    idle_rounds : passes without progress after which the solve ends (chosen)
    seconds_a_column : to restrict the program to some columns and to begin steps on them; with a deadline
        that leaves less, the solve ends (600,000 columns: 0.2 s)
    most_piece : share of a deadline that is kept for one more piece of work at most (chosen)
    screening, sample, steps, partial, fall_back, lazy, working_set, newton, descent : see there
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
