"""Expected welfare: two jobs by hand, and random chains against cvxpy and against playing the policy."""

import cvxpy as cp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from copter.errors import SolverError
from copter.problems.shockwave import JobChain, solve_expected


def two_jobs(chance):
    """A gains 1 a round.  B gains 1 while slow and 3 once fast, which a round makes it by chance."""
    steady = JobChain(np.ones((2, 1, 1)), np.array([[[0.0]], [[1.0]]]), np.ones(1))
    moves = np.array([np.eye(2), [[1 - chance, chance], [0.0, 1.0]]])
    gains = np.array([np.zeros((2, 2)), [[1.0, 1.0], [3.0, 3.0]]])
    return [steady, JobChain(moves, gains, np.array([1.0, 0.0]))]


def test_two_jobs_by_hand():
    """One GPU, two rounds, B speeds up with chance 1/2.

    A twice: (2, 0).  B first, then B if it is fast, else A: (1/2, 5/2).  B twice: (0, 3).  One each: (1, 1).
    The best product is on the line between the first two, at a third of the first: (1, 5/3).
    """
    found = solve_expected(two_jobs(0.5), [0.0, 1.0], 2)
    assert found.utilities == pytest.approx([1.0, 5 / 3], abs=1e-4)
    assert found.welfare == pytest.approx(np.log(5 / 3), abs=1e-6)
    names = [tuple(row) for row in found.allocations.tolist()]
    a, b = names.index((1, 0)), names.index((0, 1))
    slow, fast = 0, 1
    assert found.policy[0, slow, [a, b]] == pytest.approx([1 / 3, 2 / 3], abs=1e-3)
    # What comes next depends on what happened: B goes on if it is fast.
    assert found.policy[1, fast, b] == pytest.approx(1.0, abs=1e-3)
    assert found.policy[1, slow, a] == pytest.approx(1.0, abs=1e-3)


def test_without_chance_it_is_the_market():
    """B is fast after its first round: between (2, 0), (1, 1) and (0, 4) the line from A to B has (1, 2)."""
    assert solve_expected(two_jobs(1.0), [0.0, 1.0], 2).utilities == pytest.approx([1.0, 2.0], abs=1e-4)


@st.composite
def chains(draw):
    rng = np.random.default_rng(draw(st.integers(0, 10_000)))
    jobs = []
    for _ in range(2):
        size = int(rng.integers(1, 4))
        gain = rng.random((3, size, size)) * rng.choice([0.0, 1.0, 5.0], (3, size, size))
        gain[2, :, :] += 0.1
        jobs.append(JobChain(rng.dirichlet(np.ones(size), (3, size)), gain, rng.dirichlet(np.ones(size))))
    return jobs, [0.0, 0.5, 1.0], draw(st.integers(1, 3)), rng.uniform(0.5, 2.0, 2)


def by_cvxpy(jobs, levels, rounds, budgets):
    """The program once more, by joint states written out."""
    first, second = jobs
    size = (first.start.size, second.start.size)
    pairs = [(a, b) for a in range(3) for b in range(3) if levels[a] + levels[b] <= 1.0]
    states = [(s, u) for s in range(size[0]) for u in range(size[1])]
    often = [{(s, x): cp.Variable(nonneg=True) for s in states for x in pairs} for _ in range(rounds)]
    limits, utility = [], [0, 0]
    for t in range(rounds):
        for s in states:
            inflow = first.start[s[0]] * second.start[s[1]]
            if t:
                inflow = sum(
                    often[t - 1][u, x]
                    * (first.transition[x[0], u[0], s[0]] * second.transition[x[1], u[1], s[1]])
                    for u in states
                    for x in pairs
                )
            limits.append(sum(often[t][s, x] for x in pairs) == inflow)
            for x in pairs:
                for i, job in enumerate(jobs):
                    worth = job.transition[x[i], s[i]] @ job.gain[x[i], s[i]]
                    utility[i] += often[t][s, x] * float(worth)
    welfare = cp.sum([b * cp.log(u) for b, u in zip(budgets, utility, strict=True)])
    problem = cp.Problem(cp.Maximize(welfare), limits)
    problem.solve(solver=cp.CLARABEL)
    return problem.value


@given(case=chains())
@settings(deadline=None, max_examples=12)
def test_random_chains_against_cvxpy_and_play(case):
    jobs, levels, rounds, budgets = case
    found = solve_expected(jobs, levels, rounds, budgets=budgets)
    assert found.welfare == pytest.approx(by_cvxpy(jobs, levels, rounds, budgets), abs=2e-4)
    # The policy, played forward, yields what was promised.
    mass = np.prod([job.start[found.states[:, i]] for i, job in enumerate(jobs)], axis=0)
    gained = np.zeros(2)
    for t in range(rounds):
        after = np.zeros_like(mass)
        for s, state in enumerate(found.states):
            for x, levels_of in enumerate(found.allocations):
                part = mass[s] * found.policy[t, s, x]
                chances = [job.transition[levels_of[i], state[i]] for i, job in enumerate(jobs)]
                for i, job in enumerate(jobs):
                    gained[i] += part * chances[i] @ job.gain[levels_of[i], state[i]]
                after += part * np.prod([chances[i][found.states[:, i]] for i in range(2)], axis=0)
        mass = after
    assert gained == pytest.approx(found.utilities, rel=1e-3)


def test_chains_that_make_no_sense_are_named():
    with pytest.raises(ValueError, match="add up to 1"):
        JobChain(np.full((1, 1, 1), 0.5), np.ones((1, 1, 1)), np.ones(1))
    with pytest.raises(ValueError, match="gain"):
        JobChain(np.ones((1, 1, 1)), -np.ones((1, 1, 1)), np.ones(1))
    with pytest.raises(ValueError, match=r"\(A, S, S\)"):
        JobChain(np.ones((1, 1, 1)), np.ones((2, 1, 1)), np.ones(1))
    idle = JobChain(np.ones((1, 1, 1)), np.zeros((1, 1, 1)), np.ones(1))
    with pytest.raises(SolverError, match="job 0 gains nothing"):
        solve_expected([idle], [1.0], 1)
