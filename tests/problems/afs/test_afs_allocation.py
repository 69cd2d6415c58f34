"""Algorithm 1 and its parts against brute force, and two jobs, with the example of appendix A."""

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from copter.problems.afs import Curves, afs_shares, even_shares, regulate
from copter.problems.cluster import Cluster, GpuType, JobSubmission, Scenario, Simulator, make_policy
from copter.problems.cluster.placement import SiaPlacer
from copter.problems.cluster.profiles.tables import CountProfile
from support.amounts import examples


def curves(*speeds, units=None):
    """Curves of jobs given by throughput at 0, 1, 2... GPUs."""
    rows = [np.asarray(row, float) for row in speeds]
    first = np.array([int(np.argmax(row > 0)) for row in rows])
    unit = [
        np.isin(np.arange(row.size), units[k]) if units else np.arange(row.size) >= first[k]
        for k, row in enumerate(rows)
    ]
    begin = np.cumsum([0] + [row.size for row in rows[:-1]])
    top = np.array([row.size - 1 for row in rows])
    return Curves(np.concatenate(rows), np.concatenate(unit), begin, first, top)


def growing(rng, size):
    """A throughput curve that grows, concave or not."""
    steps = rng.uniform(0.05, 1.0, size)
    if rng.random() < 0.5:
        steps = np.sort(steps)[::-1]
    return np.concatenate(([0.0], np.cumsum(steps)))


@pytest.mark.parametrize("seed", range(6))
def test_many_gpus_between_two_jobs_are_shared_by_the_comparison_alone(seed):
    """Algorithm 1 step by step, with (3) written out."""
    rng = np.random.default_rng(seed)
    p, work = [growing(rng, 12), growing(rng, 9)], rng.uniform(0.5, 5.0, 2)
    count = [1, 1]
    for _ in range(13):
        lengths = [work[k] / p[k][count[k]] for k in range(2)]
        a, b = (0, 1) if lengths[0] <= lengths[1] else (1, 0)
        room = [count[k] < p[k].size - 1 for k in range(2)]
        if not room[b]:
            count[a] += 1
        elif not room[a]:
            count[b] += 1
        else:
            now, more = [p[k][count[k]] for k in range(2)], [p[k][count[k] + 1] for k in range(2)]
            to_b = (more[b] - now[b]) / more[b] > (more[a] - now[a]) / now[a]
            count[b if to_b else a] += 1
    assert afs_shares(curves(*p), work, 15, key_is_work=True).tolist() == count


def test_fewer_gpus_than_jobs_go_to_the_shortest_jobs():
    work = np.array([5.0, 1.0, 3.0, 4.0])
    flat = [[0.0, 1.0, 1.5]] * 4
    assert afs_shares(curves(*flat), work, 2, key_is_work=True).tolist() == [0, 1, 1, 0]
    assert afs_shares(
        curves(*flat), work, 2, key_is_work=True, ahead=np.array([True, False, False, False])
    ).tolist() == [1, 1, 0, 0]


def test_no_gpu_goes_to_a_job_that_is_no_faster_with_it():
    count = afs_shares(curves([0, 1, 1.5], [0, 1]), np.array([1.0, 1.0]), 8, key_is_work=True)
    assert count.tolist() == [2, 1]


def test_without_lengths_the_job_that_gains_clearly_more_wins_whoever_has_the_lower_rank():
    flat, steep = [0.0, 1.0, 1.1, 1.15], [0.0, 1.0, 1.9, 2.7]
    for ranks in ([0.0, 1.0], [1.0, 0.0]):
        count = afs_shares(curves(flat, steep), np.array(ranks), 4, key_is_work=False)
        assert count.tolist() == [1, 3]


@given(st.integers(0, 10**6), st.integers(1, 12), st.integers(0, 40))
@settings(max_examples=examples(60), deadline=None)
def test_even_shares_are_max_min_fair(seed, jobs, gpus):
    rng = np.random.default_rng(seed)
    first = np.ones(jobs, np.int64)
    top = rng.integers(1, 12, jobs)
    count = even_shares(first, top, rng.permutation(jobs), gpus)
    assert count.sum() == min(gpus, top.sum())
    assert (count <= top).all()
    for poor, rich in itertools.permutations(range(jobs), 2):
        assert count[poor] == top[poor] or count[poor] >= count[rich] - 1


def regulated(seed, machines, k):
    """Shares of all GPUs of machines of 2**k, the units that are possible, and the shares in units."""
    rng = np.random.default_rng(seed)
    size, total = 2**k, 2**k * machines
    shares = rng.multinomial(total, rng.dirichlet(np.ones(rng.integers(1, 10))))
    units = [2**i for i in range(k + 1)] + list(range(size, total + 1, size))
    row = np.concatenate(([0.0], np.arange(1.0, total + 1)))
    return shares, units, regulate(curves(*[row] * shares.size, units=[units] * shares.size), shares)


@given(st.integers(0, 10**6), st.integers(1, 8), st.integers(0, 3))
@settings(max_examples=examples(80), deadline=None)
def test_regulated_shares_keep_the_bound_of_proposition_2(seed, machines, k):
    """AFS, appendix E: all GPUs stay in use, and no job falls below the largest unit within its share."""
    shares, units, given_ = regulated(seed, machines, k)
    assert given_.sum() == 2**k * machines
    for share, got in zip(shares.tolist(), given_.tolist(), strict=True):
        floor = 0 if share == 0 else max(unit for unit in units if unit <= share)
        assert got >= floor
        assert got == 0 or got in units


@given(st.integers(0, 10**6), st.integers(1, 8), st.integers(0, 3))
@settings(max_examples=examples(60), deadline=None)
def test_regulated_shares_can_be_placed_without_network_sharing(seed, machines, k):
    """Proposition 1: every job on the fewest machines, no machine with two jobs that use another one too."""
    _, _, counts = regulated(seed, machines, k)
    size = 2**k
    cluster = Cluster([GpuType("g", size, machines)])
    wanted = {str(job): cluster.packed("g", gpus) for job, gpus in enumerate(counts.tolist()) if gpus > 0}
    placed = SiaPlacer().place(cluster, {}, {}, wanted)
    assert set(placed.places) == set(wanted) and not placed.evicted
    distributed = []
    for job, place in placed.places.items():
        assert len(place.nodes) == -(-wanted[job].gpus // size)
        distributed += [node for node, _ in place.nodes if len(place.nodes) > 1]
    assert len(distributed) == len(set(distributed))


def toy_hours(policy, later=0, hours_on_two=1.5):
    """Average JCT of appendix A's jobs A and B, and of later jobs, on two GPUs; each takes 2 h on one GPU."""
    hours = {"A": 1.0, "B": 1.5} | {f"later {j}": hours_on_two for j in range(later)}
    times = {"A": 0.0, "B": 0.0} | {f"later {j}": 1.0 + j * hours_on_two for j in range(later)}
    profiles = {
        name: CountProfile(name, 0.0, 7200.0, [1, 2], {"gpu": [1.0, 2.0 / each]})
        for name, each in hours.items()
    }
    jobs = [
        JobSubmission(name, 3600.0 * time, "", name, kind="strong-scaling", tuned_gpus=2)
        for name, time in times.items()
    ]
    scenario = Scenario(Cluster([GpuType("gpu", 2, 1)]), jobs, profiles)
    played = Simulator(scenario, make_policy(policy)).play().job_results()
    return float(np.mean([job.jct for job in played])) / 3600.0


def test_toy_example_by_hand():
    """A runs 1 h on both GPUs, then B 1.5 h; or both run 2 h on one each."""
    assert toy_hours("srtf") == pytest.approx((1.0 + 2.5) / 2)
    assert toy_hours("max-min") == pytest.approx(2.0)


@pytest.mark.parametrize("x", [1.1, 1.5, 1.9])
def test_arrivals_reverse_the_toy_example(x):
    assert toy_hours("max-min", later=10, hours_on_two=x) < toy_hours("srtf", later=10, hours_on_two=x)
