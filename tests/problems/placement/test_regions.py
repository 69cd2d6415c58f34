"""Rounds in regions on Ray actors: against branch and bound of all servers together, and what is kept."""

import numpy as np
import pytest

from copter.errors import SettingError
from copter.problems.placement import Apart, PlacementError, PlacementRounds, Servers, TaskKind
from copter.problems.placement.rounds.baselines import branch_and_bound

ray = pytest.importorskip("ray")
from copter.problems.placement.regions import Regions  # noqa: E402

pytestmark = pytest.mark.cluster

KINDS = (
    TaskKind(2000, 4096, 1, 300, ()),
    TaskKind(1000, 2048, 1, 700, ("A",)),
    TaskKind(8000, 8192, 2, 1000, ()),
    TaskKind(4000, 16384, 0, 0, ()),
)


def servers_of(n, seed=0):
    rng = np.random.default_rng(seed)
    gpus = rng.choice([1, 2, 4], size=n)
    model = np.arange(n) % 2
    names = tuple(f"s{number:02d}" for number in range(n))
    return Servers(names, rng.integers(8, 32, n) * 1000, np.full(n, 65536), gpus, model, ("A", "B"))


@pytest.fixture(autouse=True)
def its_actors_run_on_the_ray_of_all_tests(local_ray):
    """Without one, each `Regions` would start a Ray of its own."""


def check(servers, regions, ids, kind_of):
    """No server has more tasks than it has room for, and none a kind that may not run there."""
    cpu, memory, gpus = servers.cpu.copy(), servers.memory.copy(), servers.free_gpus()
    for id in ids:
        place = regions.place_of(id)
        if place is None:
            continue
        kind = KINDS[kind_of[id]]
        cpu[place.server] -= kind.cpu
        memory[place.server] -= kind.memory
        bits = [gpu for gpu in range(gpus.shape[1]) if (place.gpus >> gpu) & 1]
        assert len(bits) == kind.gpus and place.gpus >> gpus.shape[1] == 0
        gpus[place.server, bits] -= kind.milli
        if kind.gpus and kind.models:
            assert servers.models[servers.model[place.server]] in kind.models
    assert cpu.min() >= 0 and memory.min() >= 0 and gpus.min() >= 0


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_value_optimum_and_bound_of_all_servers_are_in_order(seed):
    servers = servers_of(12, seed)
    kinds = np.random.default_rng(seed).integers(0, len(KINDS), 60)
    ids = [f"t{number}" for number in range(kinds.size)]
    together = PlacementRounds(servers, KINDS)
    together.submit(ids, kinds)
    waiting = together.waiting()
    optimum = waiting.worth(branch_and_bound(waiting, 1e6, 1e-9).found)
    with Regions(servers, KINDS, regions=2, gap=0.001) as regions:
        regions.submit(ids, kinds)
        done = regions.round()
        assert len(done.placed) + done.waiting == len(ids) and regions.runs() == len(done.placed)
        assert done.value == pytest.approx(sum(together.values[kinds[ids.index(id)]] for id in done.placed))
        assert done.value <= optimum * (1 + 1e-9) and optimum <= done.bound * (1 + 1e-9)
        assert all(regions.place_of(id) == place for id, place in done.placed.items())
        check(servers, regions, ids, dict(zip(ids, kinds.tolist(), strict=True)))


def test_a_task_that_fits_in_another_region_only_goes_there():
    servers = Servers(
        ("a", "b"), np.array([1000, 9000]), np.full(2, 65536), np.ones(2, int), np.zeros(2, int), ("A",)
    )
    with Regions(servers, [TaskKind(4000, 1024, 0, 0, ())], regions=2) as regions:
        regions.submit(["x", "y"], 0)
        done = regions.round()
        assert {place.server for place in done.placed.values()} == {1} and len(done.placed) == 2
        assert done.bound >= done.value


def test_tasks_come_and_go_and_servers_fail_and_are_drained():
    servers, rng = servers_of(10), np.random.default_rng(3)
    kind_of = {}
    with Regions(servers, KINDS, regions=3) as regions:
        for count in range(5):
            kinds = rng.integers(0, len(KINDS), 12)
            ids = [(count, number) for number in range(kinds.size)]
            regions.submit(ids, kinds)
            kind_of |= dict(zip(ids, kinds.tolist(), strict=True))
            regions.round()
            gone = list(kind_of)[:: 5 - count % 2]
            regions.finish(gone)
            for id in gone:
                del kind_of[id]
            check(servers, regions, kind_of, kind_of)
            assert len(regions) == len(kind_of)
        there = {id for id in kind_of if (place := regions.place_of(id)) and place.server in (0, 1)}
        assert set(regions.fail(["s00", "s01"])) == there
        regions.drain(["s02"])
        done = regions.round(moves=100)
        assert len(done.moved) <= 100
        left = [id for id in kind_of if (place := regions.place_of(id)) and place.server == 2]
        regions.restore(["s00", "s01", "s02"])
        free = len(done.placed) + done.waiting
        assert not left or free  # what could not move had nowhere to go
        regions.round()
        check(servers, regions, kind_of, kind_of)


def test_a_group_keeps_its_limit_by_server_and_by_zone():
    servers = Servers(
        tuple("abcdef"), np.full(6, 32000), np.full(6, 65536), np.ones(6, int), np.zeros(6, int), ("A",)
    )
    zones = ["x", "x", "y", "y", "z", "z"]
    kind = [TaskKind(1000, 1024, 0, 0, ())]
    with Regions(servers, kind, regions=2) as regions:
        regions.submit(["a0", "a1", "a2"], 0, Apart("a"))
        regions.submit(["b0", "b1"], 0, Apart("b", 1, zones))
        regions.submit(["a3"], 0, Apart("a"))
        regions.round()
        places = [place.server for id in ("a0", "a1", "a2", "a3") if (place := regions.place_of(id))]
        assert len(places) == len(set(places)) == 3
        assert len({zones[regions.place_of(id).server] for id in ("b0", "b1")}) == 2


def test_what_runs_already_is_adopted_all_or_none():
    servers = servers_of(4)
    with Regions(servers, KINDS, regions=2) as regions:
        regions.adopt(["a", "b"], [0, 3], [1, 2], [1, 0])
        assert regions.place_of("a") == (1, 1) and regions.place_of("b") == (2, 0)
        with pytest.raises(PlacementError, match="adopt: task 'a' exists already"):
            regions.adopt(["a"], [0], [1], [1])
    rounds = PlacementRounds(servers, KINDS)
    for kinds, place, gpus, why in (
        ([0, 0], [0, 9], [1, 1], "server = 9: must be in"),
        ([0], [0], [0], "does not fit"),
        ([0], [0], [1 << 8], "does not fit"),
        ([1] * 2, [int(np.flatnonzero(servers.model == 0)[0])] * 2, [1, 1], "does not fit"),
        ([1], [int(np.flatnonzero(servers.model == 1)[0])], [1], "does not fit"),
    ):
        with pytest.raises(PlacementError, match=why):
            rounds.adopt([f"t{number}" for number in range(len(kinds))], kinds, place, gpus)
        assert not len(rounds.running) and (rounds.running.free.cpu == servers.cpu).all()


def test_bad_input_is_named_and_changes_nothing():
    servers = servers_of(4)
    with pytest.raises(PlacementError, match="regions = 5: must be from 1 to 4"):
        Regions(servers, KINDS, regions=5)
    with pytest.raises(SettingError, match="regions = 4"):
        Regions(servers, KINDS, regions=4)
    with Regions(servers, KINDS, regions=2) as regions:
        regions.submit(["a"], 0)
        for ids, kinds, why in (
            (["a"], 0, "exists already"),
            (["b", "b"], 0, "ids: must be different"),
            (["b"], 9, "kind = 9: must be in"),
        ):
            with pytest.raises(PlacementError, match=why):
                regions.submit(ids, kinds)
        with pytest.raises(PlacementError, match="no task 'z'"):
            regions.finish(["a", "z"])
        with pytest.raises(PlacementError, match="no server 'q'"):
            regions.fail(["s00", "q"])
        with pytest.raises(PlacementError, match="moves = -1"):
            regions.round(moves=-1)
        with pytest.raises(PlacementError, match="apart.most = 0"):
            regions.submit(["c", "d"], 0, Apart("g", 0))
        assert len(regions) == 1 and len(regions.round().placed) == 1


def test_a_region_that_is_gone_leaves_no_task_in_another():
    with Regions(servers_of(8), KINDS, regions=2) as regions:
        regions.submit(["before"], [0])
        ray.kill(regions._actors[1])
        with pytest.raises(PlacementError, match="the process of a region ended"):
            regions.submit(["a", "b", "c"], [0, 0, 0])
        assert len(regions) == 1
        assert ray.get(regions._actors[0].waits.remote()).sum() == 1
        for id in ("a", "b", "c"):
            with pytest.raises(PlacementError, match="no task"):
                regions.place_of(id)


def test_tasks_that_no_region_takes_wait_where_they_were(monkeypatch):
    names = tuple(f"s{k}" for k in range(2))
    one = np.ones(2, np.int64)
    servers = Servers(names, np.array([2000, 9000]), 65536 * one, one, 0 * one, ("A",))
    with Regions(servers, (TaskKind(9000, 1024, 1, 500, ()),), regions=2) as regions:
        regions.submit(["big"], [0])  # it waits in the first region, and fits in the second only
        real, failed = regions._submit, []

        def broken(ids, region, kind):
            if not failed:
                failed.append(ids)
                raise PlacementError("a region was lost")
            real(ids, region, kind)

        monkeypatch.setattr(regions, "_submit", broken)
        with pytest.raises(PlacementError, match="a region was lost"):
            regions.round()
        assert failed == [["big"]] and regions.place_of("big") is None
        assert np.array(regions._each("waits")).sum() == 1
        assert "big" in regions.round().placed and regions.place_of("big").server == 1
