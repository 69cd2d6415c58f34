"""Second stages of lexicographic programs: infeasibility within the tolerance does not count."""

from collections import Counter

import numpy as np
import pytest

from copter import ContinualProgram, Status, make_solver
from copter.proof.rays import farkas_ray
from support.amounts import longer


def first_stage(seed):
    """A program whose row "first" is its objective, its costs, and those of the second stage."""
    rng = np.random.default_rng(seed)
    jobs, rows = int(rng.integers(3, 30)), int(rng.integers(1, 6))
    use = rng.random((rows, jobs)) * 9 if seed % 2 else rng.integers(0, 5, (rows, jobs)) * 1.0
    first, second = rng.random(jobs) * -10, rng.random(jobs) * 10 - 5
    program = ContinualProgram()
    program.add_resources(list(range(rows)), upper=rng.integers(3, 12, rows) * 1.0)
    program.add_resource("first")
    for job in range(jobs):
        usage = {row: use[row, job] for row in range(rows)} | {"first": first[job]}
        program.add_request(job, [first[job]], usage, upper=1.0, integral=seed % 3 == 0)
    for job in range(int(rng.choice([0, 20, 100]))):
        program.add_request(("idle", job), [0.0, 1.0], {0: [0.0, 1.0]}, total=1)
    return program, first, second


def second_stages(name, slack, seeds):
    """Count the statuses of second stages that keep the first optimum up to a slack."""
    counts: Counter = Counter()
    for seed in seeds:
        program, first, second = first_stage(seed)
        solver = make_solver(name)
        best = solver.solve(program)
        assert best.status is Status.OPTIMAL
        level, size = best.objective, abs(best.objective)
        program.update_resources("first", upper=level + slack * size)
        program.update_requests(list(range(second.size)), costs=second)
        found = solver.solve(program)
        counts[str(found.status)] += 1
        if found.status is Status.OPTIMAL:
            kept = sum(first[job] * found.x[job][0] for job in range(first.size))
            assert kept <= level + slack * size + 1.01e-6 * max(size, abs(first).min())
            counts["violated"] += kept > level + slack * size
    return counts


@pytest.mark.parametrize("name", ["copter", "copter-exact", "highs-simplex", "highs-hot"])
@pytest.mark.parametrize("seeds", [range(12), longer(range(12, 80))], ids=["few", "many"])
def test_a_second_stage_may_keep_the_first_optimum(name, seeds):
    counts = second_stages(name, 0.0, seeds)
    assert counts["optimal"] == len(seeds), counts


@pytest.mark.parametrize("name", ["copter", "highs-simplex"])
@pytest.mark.parametrize("slack", [-1e-9, -1e-7])
def test_infeasibility_within_the_tolerance_does_not_count(name, slack):
    """Where the violation decides the objective, nothing is proved."""
    counts = second_stages(name, slack, range(12))
    assert not counts["infeasible"], counts
    assert counts["optimal"] + counts["unproved"] == 12
    assert counts["optimal"] >= 6 or slack < -1e-8 or name != "copter", counts


@pytest.mark.parametrize("name", ["copter", "copter-exact", "highs-simplex"])
def test_infeasibility_beyond_the_tolerance_is_proved(name):
    counts = second_stages(name, -1e-3, range(12))
    exact = sum(seed % 3 == 0 for seed in range(12)) if name == "copter-exact" else 0
    assert counts["infeasible"] >= 12 - exact, counts


def test_the_violation_that_a_ray_proves_is_relative_to_the_sizes_of_rows():
    """x <= 2 and x >= 2 + e: one of the rows, of size 2, is violated by e / 2 at least."""
    for e, unit in ((1e-3, 1.0), (1e-3, 1e6), (1e-5, 1e-6)):
        program = ContinualProgram()
        program.add_resource("most", 2.0 * unit)
        program.add_resource("least", np.inf, lower=(2.0 + e) * unit)
        program.add_request("x", [1.0], {"most": 1.0, "least": 1.0}, upper=1e3 * unit)
        y, relative = np.array([1.0, -1.0]), e / (1e3 + 1e3)  # a column's largest use is more than the bound
        assert farkas_ray(program, y, tolerance=0.99 * relative) is not None
        assert farkas_ray(program, y, tolerance=1.01 * relative) is None
