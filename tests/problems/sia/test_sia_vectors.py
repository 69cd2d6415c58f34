"""Sia on shared cost vectors: the same program, and the same answers, as with costs of each job's own."""

from __future__ import annotations

from unittest import mock

import numpy as np
import pytest

from copter import make_solver
from copter.bench.recording import Replayer, read_rounds
from copter.problems.sia import SiaJob
from copter.problems.sia.course import record_sia
from copter.problems.sia.steady import SteadyReplay
from copter.proof import pricing
from support.sia_cases import PAIR, make, table


def played(costs, gpus, jobs, rounds):
    """A steady cluster's rounds: (record, costs by job) of each."""
    solver = make_solver("copter", tolerance=1e-8)
    replay = SteadyReplay(gpus, jobs, rounds, solver, costs=costs, seed=3)
    program = replay.policy.program
    return [
        (record, {job: program.requests[job].costs for job in program.request_ids}) for record in replay.run()
    ]


@pytest.mark.parametrize("size", [(128, 40, 4), (1024, 250, 2)], ids=["all columns", "screened"])
def test_rounds_are_those_of_own_costs(size):
    with mock.patch.object(pricing, "GROUPS_FROM", 0):
        rounds = zip(played("own", *size), played("shared", *size), strict=True)
    for (own, costs), (shared, same) in rounds:
        assert (own.n_variables, own.nnz, own.status) == (shared.n_variables, shared.nnz, shared.status)
        assert shared.answer_objective == pytest.approx(own.answer_objective, rel=1e-12)
        assert shared.bound == pytest.approx(own.bound, rel=1e-7)
        assert costs.keys() == same.keys()
        for job in costs:
            np.testing.assert_allclose(same[job], costs[job], rtol=1e-14)


def test_jobs_of_one_kind_share_and_vectors_without_users_are_dropped():
    policy = make(PAIR, costs="shared", scale_up_limit=None)
    levels = table([[2.0, 4.0, 1.0, 2.0, 4.0], [3.0, 4.0, 1.0, 2.0, 4.0]])
    for k in range(4):
        policy.submit(SiaJob(k, levels, submitted=-10.0 * k))
    policy.apply(60.0)
    program = policy.program
    assert len(program.shared_costs) == 1 and len({program.requests[k].shared_costs for k in range(4)}) == 1
    policy.update_levels([1, 3], [1, 1])
    policy.apply(120.0)
    assert [program.requests[k].shared_costs == program.requests[0].shared_costs for k in range(4)] == [
        True,
        False,
        True,
        False,
    ]
    for k in range(4):
        policy.complete(k)
    policy.apply(180.0)
    policy._requests.vectors.sweep(keep=0)
    assert not program.shared_costs and not program.store.costs.used - program.store.costs.garbage


@pytest.mark.long
def test_a_recording_has_each_vector_once(tmp_path):
    """It is smaller where jobs share, and what is replayed is the same program."""
    sizes, programs = {}, {}
    for costs in ("own", "shared"):
        folder = tmp_path / costs
        folder.mkdir()
        recorded = record_sia(folder, gpus=1024, jobs=200, rounds=1, seed=1, costs=costs)
        sizes[costs], replayer = recorded.rounds.stat().st_size, Replayer()
        for deltas in read_rounds(recorded.rounds):
            for delta in deltas:
                replayer.apply(delta)
        programs[costs] = replayer.program
    assert 2 * sizes["shared"] < sizes["own"]
    own, shared = programs["own"], programs["shared"]
    assert set(own.request_ids) == set(shared.request_ids)
    for job in own.request_ids:
        assert shared.requests[job].costs.tolist() == own.requests[job].costs.tolist()
