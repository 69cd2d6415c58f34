"""Nash social welfare over time in expectation: the best policy for jobs that change by chance (appendix F).

Job i is a Markov chain: from state s, with the allocation a of a round, it goes to s' with the probability
P_i(s' | s, a) and gains U_i(s, a, s').  A policy gives probabilities to joint allocations x = (a_1, ..., a_N)
by round t and joint state s = (s_1, ..., s_N); pi_t(s, x) is how often it is in s and does x:

    maximise  sum_i B_i log E[U_i],    E[U_i] = sum_t,s,x pi_t(s, x) sum_s' P(s' | s, x) U_i(s_i, x_i, s_i')
    s.t.      sum_x pi_1(s, x) = b(s),
              sum_x pi_t(s, x) = sum_s',x P(s | s', x) pi_t-1(s', x)   for t = 2..T,     pi >= 0           (6)

over joint allocations that the supply allows, P(s' | s, x) = prod_i P_i.  The program is concave.  The paper
restricts itself to deterministic policies; (6) as printed does not, and its optimum may toss a coin.  Joint
states multiply: it is for a few jobs, to see what knowing chances is worth.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from itertools import product

import numpy as np

from copter.arrays import Floats
from copter.errors import SolverError
from copter.program.program import ContinualProgram
from copter.solvers.proximal.solver import ProximalPoint
from copter.terms.convex import LogTerm

TOLERANCE = 1e-9
_TINY = 1e-12


@dataclass(frozen=True)
class JobChain:
    """A job that changes by chance.

    Attributes
    ----------
    transition : (A, S, S) array
        P(s' | s, a): rows add up to 1.
    gain : (A, S, S) array
        U(s, a, s') >= 0.
    start : (S,) array
        Probability of each state at the beginning.
    """

    transition: Floats
    gain: Floats
    start: Floats

    def __post_init__(self) -> None:
        if self.transition.shape != self.gain.shape or self.transition.shape[1:] != (self.start.size,) * 2:
            raise ValueError(
                f"transition {self.transition.shape}, gain {self.gain.shape}, start {self.start.shape}: "
                "(A, S, S) twice, and (S,)"
            )
        for name, chances in (("transition", self.transition), ("start", self.start)):
            if (chances < 0).any() or not np.allclose(chances.sum(axis=-1), 1.0):
                raise ValueError(f"{name}: must be probabilities that add up to 1")
        if (self.gain < 0).any():
            raise ValueError("gain: must not be negative")

    @property
    def expected_gain(self) -> Floats:
        """E[U | s, a], shape (A, S)."""
        return (self.transition * self.gain).sum(axis=2)


@dataclass(frozen=True)
class ExpectedWelfare:
    """The best policy and what it yields.

    Attributes
    ----------
    utilities : (N,) array
        E[U_i].
    welfare : float
        sum_i B_i log E[U_i].
    gap : float
        Certified, relative.
    allocations : (X, N) int array
        Joint allocations: the level of each job.
    states : (S, N) int array
        Joint states.
    policy : (T, S, X) array
        Probability of each allocation in each round and state; zero where the state is not reached.
    """

    utilities: Floats
    welfare: float
    gap: float
    allocations: np.ndarray
    states: np.ndarray
    policy: Floats


def solve_expected(
    jobs: Sequence[JobChain],
    levels: Sequence[float],
    rounds: int,
    *,
    supply: float = 1.0,
    budgets: Sequence[float] | None = None,
) -> ExpectedWelfare:
    """Solve program (6) by copter's core.

    Parameters
    ----------
    jobs : sequence of JobChain
        N of them, with A levels each.
    levels : sequence of float
        Resources of each level.
    rounds : int
        T.
    supply : float
        Resources of a round.
    budgets : sequence of float, optional
        B_i > 0; 1 each by default.

    Raises
    ------
    SolverError
        No job can gain anything, or the solver did not come to an end.
    """
    counts = range(len(jobs))
    allocations = np.array(
        [x for x in product(range(len(levels)), repeat=len(jobs)) if sum(levels[a] for a in x) <= supply]
    ).reshape(-1, len(jobs))
    states = np.array(list(product(*(range(job.start.size) for job in jobs)))).reshape(-1, len(jobs))
    begin = np.prod([job.start[states[:, i]] for i, job in enumerate(jobs)], axis=0)
    gain = np.stack([jobs[i].expected_gain[allocations[:, i]][:, states[:, i]].T for i in counts])
    move = _joint_moves(jobs, allocations, states)
    program = _program(gain, move, begin, rounds, np.ones(len(jobs)) if budgets is None else budgets)
    solution = ProximalPoint(tolerance=TOLERANCE).solve(program)
    if not solution.found:
        raise SolverError(f"expected welfare: {solution.status}: {solution.reason}")
    often = np.array([[solution.x[("do", t, s)] for s in range(len(states))] for t in range(rounds)]).clip(
        min=0.0
    )
    utilities = np.einsum("tsx,isx->i", often, gain)
    weights = np.ones(len(jobs)) if budgets is None else np.asarray(budgets, float)
    reached = often.sum(axis=2, keepdims=True)
    policy = np.divide(often, reached, out=np.zeros_like(often), where=reached > _TINY)
    welfare = float(weights @ np.log(utilities))
    return ExpectedWelfare(utilities, welfare, float(solution.gap), allocations, states, policy)


def _joint_moves(jobs: Sequence[JobChain], allocations: np.ndarray, states: np.ndarray) -> Floats:
    """P(s' | s, x) of joint states, shape (S, X, S)."""
    result = np.ones((len(states), len(allocations), len(states)))
    for i, job in enumerate(jobs):
        chances = job.transition[allocations[:, i]]
        result *= chances[:, states[:, i]][:, :, states[:, i]].transpose(1, 0, 2)
    return result


def _program(
    gain: Floats, move: Floats, begin: Floats, rounds: int, budgets: Sequence[float] | Floats
) -> ContinualProgram:
    """Requests are the joint states of each round, with a column for each allocation, and the utilities."""
    program = ContinualProgram()
    states, choices = move.shape[:2]
    for t in range(rounds):
        for s in range(states):
            mass = float(begin[s]) if t == 0 else 0.0
            program.add_resource(("flow", t, s), mass, lower=mass)
    for i, budget in enumerate(budgets):
        most = float(gain[i].max())
        if not most > 0:
            raise SolverError(f"expected welfare: job {i} gains nothing, whatever it gets")
        # U_i <= what the policy yields
        program.add_resource(("yield", i), 0.0)
        term = LogTerm(float(budget), 0.0, np.ones(1))
        usage: dict[Hashable, float] = {("yield", i): 1.0}
        program.add_request(("utility", i), [0.0], usage, upper=rounds * most, term=term)
    for t in range(rounds):
        for s in range(states):
            rows: dict[Hashable, Floats] = {("flow", t, s): np.ones(choices)}
            rows |= {("yield", i): -gain[i, s] for i in range(len(gain)) if gain[i, s].any()}
            if t + 1 < rounds:
                reaches = np.flatnonzero(move[s].any(axis=0)).tolist()
                rows |= {("flow", t + 1, s2): -move[s, :, s2] for s2 in reaches}
            program.add_request(("do", t, s), np.zeros(choices), rows, upper=1.0)
    return program
