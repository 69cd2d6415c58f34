"""Jobs, rounds and windows that the tests of Shockwave share."""

from itertools import product

import numpy as np
import pytest
from hypothesis import strategies as st

from copter.problems.shockwave import MarketJob, Mode, Regime, RegimeJob, RoundState
from support.real_data import DATA
from support.shockwave_reference import Outlook, window_of

SHOCKWAVE = DATA / "cluster" / "uw-mad-dash_shockwave"
needs_data = pytest.mark.skipif(
    not SHOCKWAVE.is_dir(),
    reason=f"the authors' traces are not in {SHOCKWAVE}; set COPTER_DATA to the folder of the data",
)
PUBLISHED = {
    "gavel": "max_min_fairness",
    "gavel-max-sum": "max_sum_throughput_perf",
    "ossp": "min_total_duration",
    "themis": "finish_time_fairness",
    "allox": "allox",
    "gandiva-fair": "gandiva_fair",
    "shockwave": "shockwave",
}


def trace_path(jobs):
    return next((SHOCKWAVE / "derived_job_epochs").glob(f"{jobs}_*.json"))


def result_path(policy):
    return SHOCKWAVE / "scheduler" / "results_json" / f"tacc_32gpus__{policy}_simulation.json"


def static(name, seconds, *, gpus=1, arrival=0.0, epochs=10):
    return RegimeJob(name, arrival, gpus, Mode.STATIC, (Regime(32, epochs, seconds / epochs),), samples=3200)


def state(job, run=0.0, waited=0.0, contention=1.0, running=False):
    return MarketJob(job, run, waited, contention, running)


def now(states, gpus, time=0.0, index=0, seconds=120.0):
    return RoundState(index, time, seconds, gpus, tuple(states))


@st.composite
def jobs(draw, least=1, most=6, gpus=4):
    count = draw(st.integers(least, most))
    result = []
    for k in range(count):
        regimes = tuple(
            Regime(16 * 2**i, draw(st.integers(1, 12)), draw(st.floats(5.0, 150.0)))
            for i in range(draw(st.integers(1, 3)))
        )
        mode = Mode.GNS if len(regimes) > 1 else Mode.STATIC
        arrival = draw(st.floats(0.0, 600.0))
        result.append(RegimeJob(f"j{k}", arrival, draw(st.integers(1, gpus)), mode, regimes, samples=1000))
    return result


@st.composite
def windows(draw, most=6, rounds=4, capacity=4, lam=None):
    """Small windows, with jobs that speed up, slow down, are finished, weigh much or nothing."""
    count = draw(st.integers(1, most))
    gpus = np.array([draw(st.integers(1, capacity + 1)) for _ in range(count)])
    total, done, outlooks = [], [], []
    for _ in range(count):
        kinds = draw(st.integers(0, 3))
        epochs = np.array([draw(st.floats(0.5, 6.0)) for _ in range(kinds)])
        seconds = np.array([draw(st.floats(20.0, 200.0)) for _ in range(kinds)])
        run = draw(st.floats(0.0, 500.0))
        left = float(epochs @ seconds)
        before = draw(st.sampled_from([0.0, 1.0, 7.5]))
        total.append(before + float(epochs.sum()) + 0.5)
        done.append(before)
        outlooks.append(Outlook(epochs, seconds, left, run + left))
    weights = np.array([draw(st.sampled_from([0.0, 0.2, 1.0, 3.0, 20.0])) for _ in range(count)])
    return window_of(
        [f"j{k}" for k in range(count)],
        gpus,
        weights,
        np.array(done),
        np.array(total),
        outlooks,
        rounds=rounds,
        capacity=capacity,
        round_seconds=120.0,
        lam=draw(st.sampled_from([0.0, 0.1, 3.0])) if lam is None else lam,
    )


def brute_force(problem):
    """Best objective over all plans, round by round, as counts of each job."""
    reached = {(0,) * len(problem.gpus)}
    sets = [
        chosen
        for chosen in product((0, 1), repeat=len(problem.gpus))
        if np.dot(chosen, problem.gpus) <= problem.capacity
    ]
    for _ in range(problem.rounds):
        reached = {tuple(np.minimum(np.add(c, s), problem.most)) for c in reached for s in sets}
    return max(problem.objective(np.array(counts)) for counts in reached)


def schedule_matrix(result):
    """Return the names of the jobs in order of arrival, and a matrix of the rounds in which each ran."""
    names = [job.name for job in result.jobs]
    rows = {name: k for k, name in enumerate(names)}
    times = np.array([record.time for record in result.rounds])
    ran = np.zeros((len(names), len(times)), bool)
    for segment in result.segments:
        first, last = np.searchsorted(times, (segment.begin, segment.end), side="left")
        ran[rows[segment.job], first:last] = True
    return names, ran
