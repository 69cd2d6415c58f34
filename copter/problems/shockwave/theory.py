"""Shockwave's theory on small random instances: volatile Fisher markets, and welfare in expectation.

In a market (appendix C), jobs with budgets B_i buy J types of resources in T rounds.  The equilibrium is the
optimum of

    maximise  sum_i B_i log U_i    s.t.    sum_i x_ijt <= 1,    x >= 0,                                  (3)

where a round adds sum_j u_ijt x_ijt (linear) or min_j x_ijt / a_ijt (Leontief) to U_i, and the prices p_jt
are the duals.  The solution is checked against the definition of an equilibrium.  Corollary 4.0.1 is about
rho_i = U_i(an equal share) / U_i(X_i): their product is least, and with equal budgets each is at most 1.

In program (6) (appendix F), a job is a Markov chain.  A policy pi_t(s, x) is the probability that the joint
state is s in round t and that job x has the GPU:

    maximise  sum_i log E[U_i],    E[U_i] = sum_t,s,x pi_t(s, x) g_i(s, x)
    s.t.      sum_x pi_1(s, x) = b(s),    sum_x pi_t(s, x) = sum_s',x P(s | s', x) pi_t-1(s', x),    pi >= 0

with g_i(s, x) the expected gain of job i.  Its utilities are checked by an enumeration of trajectories, and
its welfare by one of all deterministic policies, to which the paper limits itself.
"""

from __future__ import annotations

from collections.abc import Hashable
from itertools import pairwise, product

import numpy as np

from copter.arrays import Floats
from copter.bench.reproduction import Effort, PaperFigure
from copter.program.program import ContinualProgram
from copter.solvers.proximal.solver import ProximalPoint
from copter.terms.convex import LogTerm

_TOLERANCE = 1e-9
_ABOVE = 1e-6
"""Relative rounding error of a ratio that counts as 1."""
_SPLITS = 200
"""Number of random allocations with which the product of the fairness is compared."""
_STATES = 2
"""Number of states of a job of program (6)."""


def markets(effort: Effort, *, jobs: int, types: int, rounds: int, instances: int) -> list[PaperFigure]:
    """Return errors of equilibria and the fairness in them, by kind of utility and of budgets."""
    figures = []
    for kind, budgets in product(("linear", "Leontief"), ("equal", "random")):
        found = []
        for k in range(instances):
            rng = np.random.default_rng((effort.seed, k))
            values = rng.uniform(0.1, 4.0, (jobs, types, rounds))
            money = np.ones(jobs) if budgets == "equal" else rng.uniform(0.5, 2.0, jobs)
            x, prices = equilibrium(values, money, kind)
            rho = utilities(np.full_like(values, 1.0 / jobs), values, kind) / utilities(x, values, kind)
            found.append(
                (equilibrium_error(x, prices, values, money, kind), rho, _worse(rng, values, money, kind, x))
            )
        errors, ratios, worse = zip(*found, strict=True)
        row, every = f"{kind}, {budgets} budgets", np.concatenate(ratios)
        figures += [
            PaperFigure(row, "error of the equilibrium", "", max(errors)),
            PaperFigure(row, "largest FTF", "", float(every.max())),
            PaperFigure(row, "jobs with an FTF above 1", "%", 100.0 * float(np.mean(every > 1.0 + _ABOVE))),
            PaperFigure(row, "least product of FTF of other allocations", "x", min(worse)),
        ]
    return figures


def equilibrium(values: Floats, budgets: Floats, kind: str) -> tuple[Floats, Floats]:
    """Return the allocation x_ijt and the prices p_jt of a market; `values` are u_ijt or a_ijt."""
    count, types, rounds = values.shape
    places = list(product(range(types), range(rounds)))
    program = ContinualProgram()
    for place in places:
        program.add_resource(place, 1.0)
    for i in range(count):
        # A column is a type in a round, or with Leontief utility the utility of a round.
        if kind == "linear":
            gain, uses, most = values[i].ravel(), np.eye(types * rounds), np.ones(types * rounds)
        else:
            gain, uses = np.ones(rounds), np.tile(np.eye(rounds), (types, 1)) * values[i].reshape(-1, 1)
            most = 1.0 / values[i].max(axis=0)
        usage: dict[Hashable, Floats] = dict(zip(places, uses, strict=True))
        term = LogTerm(float(budgets[i]), 0.0, gain)
        # one job can at most have all of a type, which limits its columns; a factor of 2 keeps prices unique
        program.add_request(i, np.zeros(gain.size), usage, upper=2.0 * most, term=term)
    solution = ProximalPoint(tolerance=_TOLERANCE).solve(program)
    bought = np.stack([np.asarray(solution.x[i]) for i in range(count)])
    if kind != "linear":
        bought = values * bought[:, None, :]
    prices = np.array([solution.price[place] for place in places]).reshape(types, rounds)
    return bought.reshape(values.shape), prices


def utilities(x: Floats, values: Floats, kind: str) -> Floats:
    """Return U_i of an allocation."""
    if kind == "linear":
        return np.asarray((values * x).sum(axis=(1, 2)))
    return np.asarray((x / values).min(axis=1).sum(axis=1))


def equilibrium_error(x: Floats, prices: Floats, values: Floats, budgets: Floats, kind: str) -> float:
    """Return the largest relative violation of the definition of an equilibrium.

    Every job has the largest utility that its budget buys, spends its budget, and what has a price is sold.
    """
    unit = (
        (prices / values).min(axis=(1, 2)) if kind == "linear" else (prices * values).sum(axis=1).min(axis=1)
    )
    best = np.abs(utilities(x, values, kind) * unit / budgets - 1.0)
    spent = np.abs((prices * x).sum(axis=(1, 2)) / budgets - 1.0)
    sold = np.abs(prices * (1.0 - x.sum(axis=0))).sum() / budgets.sum()
    over = max(float(x.sum(axis=0).max()) - 1.0, 0.0)
    return max(float(best.max()), float(spent.max()), float(sold), over)


def _worse(rng: np.random.Generator, values: Floats, budgets: Floats, kind: str, x: Floats) -> float:
    """Return the least product of rho_i^(B_i / mean B) of random allocations over that of `x`."""
    own, weights, least = utilities(x, values, kind), budgets / budgets.mean(), np.inf
    for _ in range(_SPLITS):
        split = np.moveaxis(rng.dirichlet(np.full(len(values), 10.0), values.shape[1:]), -1, 0)
        other = utilities(x + rng.uniform(0.0, 0.5) * (split - x), values, kind)
        least = min(least, float(np.exp(weights @ np.log(own / other))))
    return least


def expected(effort: Effort, *, jobs: int, rounds: int, instances: int) -> list[PaperFigure]:
    """Return the error of program (6), and its welfare over that of other policies, as geometric means."""
    errors, best, turns = [], [], []
    for k in range(instances):
        moves, gains, begin = _chains(np.random.default_rng((effort.seed, k)), jobs)
        policy, yields = best_policy(moves, gains, begin, rounds)
        errors.append(float(np.abs(by_trajectories(policy, moves, gains, begin) / yields - 1.0).max()))
        welfare, others = _geometric(yields), _geometric(_deterministic(moves, gains, begin, rounds))
        best.append(float(welfare / others.max()))
        in_turn = np.zeros((rounds, len(begin), jobs))
        in_turn[np.arange(rounds), :, np.arange(rounds) % jobs] = 1.0
        turns.append(float(welfare / _geometric(by_trajectories(in_turn, moves, gains, begin))))
    row = f"{jobs} jobs, {rounds} rounds"
    return [
        PaperFigure(row, "error of the utilities", "", max(errors)),
        PaperFigure(row, "welfare over the best deterministic policy, least", "x", min(best)),
        PaperFigure(row, "welfare over the best deterministic policy, mean", "x", float(np.mean(best))),
        PaperFigure(row, "welfare over turns, mean", "x", float(np.mean(turns))),
    ]


def _geometric(yields: Floats) -> Floats:
    return np.asarray(yields.prod(axis=-1) ** (1.0 / yields.shape[-1]))


def _chains(rng: np.random.Generator, jobs: int) -> tuple[Floats, Floats, Floats]:
    """Return P(s' | s, x) of joint states by x, g_i(s, x) by i, and b(s); the job with the GPU moves."""
    states = list(product(range(_STATES), repeat=jobs))
    chance, speed = rng.dirichlet(np.ones(_STATES), (jobs, _STATES)), rng.uniform(0.5, 4.0, (jobs, _STATES))
    moves, gains = np.zeros((jobs, len(states), len(states))), np.zeros((jobs, len(states), jobs))
    for x, (a, now), (b, then) in product(range(jobs), enumerate(states), enumerate(states)):
        if now[:x] + now[x + 1 :] == then[:x] + then[x + 1 :]:
            moves[x, a, b] = chance[x, now[x], then[x]]
        gains[x, a, x] = speed[x, now[x]]
    return moves, gains, np.eye(len(states))[0]


def best_policy(moves: Floats, gains: Floats, begin: Floats, rounds: int) -> tuple[Floats, Floats]:
    """Solve program (6); return the probability of each job by round and joint state, and E[U_i]."""
    jobs, states = len(gains), range(len(begin))
    program = ContinualProgram()
    for t, s in product(range(rounds), states):
        mass = float(begin[s]) if t == 0 else 0.0
        program.add_resource((t, s), mass, lower=mass)
    for i in range(jobs):
        # U_i is at most what the policy yields.
        program.add_resource(i, 0.0)
        most = rounds * float(gains[i].max())
        program.add_request(("U", i), [0.0], {i: 1.0}, upper=most, term=LogTerm(1.0))
    for t, s in product(range(rounds), states):
        usage: dict[Hashable, Floats] = {(t, s): np.ones(jobs)} | {i: -gains[i, s] for i in range(jobs)}
        if t + 1 < rounds:
            usage |= {(t + 1, then): -moves[:, s, then] for then in states}
        program.add_request((t, s), np.zeros(jobs), usage, upper=1.0)
    solution = ProximalPoint(tolerance=_TOLERANCE).solve(program)
    often = np.array([[solution.x[t, s] for s in states] for t in range(rounds)]).clip(min=0.0)
    reached = often.sum(axis=2, keepdims=True)
    policy = np.divide(often, reached, out=np.full_like(often, 1.0 / jobs), where=reached > _TOLERANCE)
    return policy, np.einsum("tsx,isx->i", often, gains)


def by_trajectories(policy: Floats, moves: Floats, gains: Floats, begin: Floats) -> Floats:
    """Return E[U_i] of a policy as the sum over all sequences of joint states and jobs."""
    rounds, count, jobs = policy.shape
    total = np.zeros(jobs)
    for states in product(range(count), repeat=rounds):
        for chosen in product(range(jobs), repeat=rounds):
            chance = begin[states[0]] * np.prod(
                [policy[t, s, x] for t, (s, x) in enumerate(zip(states, chosen, strict=True))]
            )
            chance *= np.prod([moves[x, a, b] for (a, b), x in zip(pairwise(states), chosen, strict=False)])
            if chance > 0.0:
                total += chance * sum(gains[:, s, x] for s, x in zip(states, chosen, strict=True))
    return total


def _deterministic(moves: Floats, gains: Floats, begin: Floats, rounds: int) -> Floats:
    """Return E[U_i] of all deterministic policies, one in each row."""
    jobs, count = len(gains), len(begin)
    picks = np.array(list(product(range(jobs), repeat=rounds * count))).reshape(-1, rounds, count)
    mass, total = np.tile(begin, (len(picks), 1)), np.zeros((len(picks), jobs))
    states = np.arange(count)
    for t in range(rounds):
        total += np.einsum("ps,ips->pi", mass, gains[:, states, picks[:, t]])
        mass = np.einsum("ps,psr->pr", mass, moves[picks[:, t], states])
    return total
