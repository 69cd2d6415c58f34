"""Rounds of tasks on servers: best mixes against all mixes, rounds against branch and bound, what is kept."""

import itertools
import pickle

import numpy as np
import pytest

from copter.problems.placement import (
    Apart,
    PlacementError,
    PlacementRounds,
    Servers,
    TaskKind,
    Tasks,
    Together,
)
from copter.problems.placement.occupancy import Fleet, Free
from copter.problems.placement.rounds import mixes
from support.placement_exact import best_placement, single_task_bound

MODELS = ("", "A", "B")


def drawn(seed, n=12, kinds=12):
    """A small cluster, and kinds of every sort: without GPUs, with shares, with several, for some models."""
    rng = np.random.default_rng(seed)
    gpus = rng.choice([0, 1, 2, 4], size=n)
    servers = Servers(
        tuple(f"s{number:03d}" for number in range(n)),
        rng.integers(8, 48, n) * 1000,
        rng.integers(16, 200, n) * 1024,
        gpus.astype(np.int64),
        np.where(gpus > 0, 1 + rng.integers(0, 2, n), 0),
        MODELS,
    )
    there = {}
    while len(there) < kinds:
        many = int(rng.choice([0, 1, 1, 1, 2, 4]))
        milli = 1000 if many > 1 else int(rng.choice([190, 300, 500, 1000])) * bool(many)
        models = ("A",) if many and rng.random() < 0.2 else ()
        cpu, memory = int(rng.integers(1, 16)) * 1000, int(rng.integers(1, 64)) * 1024
        there[TaskKind(cpu, memory, many, milli, models)] = None
    return servers, tuple(there)


def fleet_of(servers, kinds):
    return Fleet.of(servers, Tasks(kinds, np.empty(0, np.int64)))


def best_of_all(free, fleet, server, gain, most):
    """The best mix by trying all: kinds ascending, every choice of GPUs."""

    def add(cpu, memory, gpus, first, used):
        best = 0.0
        for kind in range(first, gain.size):
            again = used + 1 if kind == first else 1
            if (
                gain[kind] <= 0.0
                or again > most[kind]
                or fleet.cpu[kind] > cpu
                or fleet.memory[kind] > memory
            ):
                continue
            if fleet.gpus[kind] and not fleet.allowed[kind, fleet.model[server]]:
                continue
            enough = [gpu for gpu, left in enumerate(gpus) if left >= fleet.milli[kind]]
            lefts = set()
            for chosen in itertools.combinations(enough, int(fleet.gpus[kind])):
                left = [its - fleet.milli[kind] * (gpu in chosen) for gpu, its in enumerate(gpus)]
                lefts.add(tuple(sorted(left)))
            rest = cpu - fleet.cpu[kind], memory - fleet.memory[kind]
            best = max([best, *(gain[kind] + add(*rest, left, kind, again) for left in lefts)])
        return best

    return add(free.cpu[server], free.memory[server], tuple(sorted(free.gpus[server])), 0, 0)


def busy(seed, tasks=60, gap=0.005, n=12):
    """Rounds with more tasks waiting than fit."""
    servers, kinds = drawn(seed, n)
    rounds = PlacementRounds(servers, kinds, gap=gap)
    rng = np.random.default_rng(seed + 1000)
    rounds.submit([f"t{one}" for one in range(tasks)], rng.integers(len(kinds), size=tasks))
    return rounds


def check(rounds):
    """Nobody has what is not there, or another model than it may; what is free is the rest."""
    running, fleet = rounds.running, rounds.running.fleet
    free = Free.of(running.servers)
    for id in list(running._slot):
        place, kind = running.place_of(id), running.kinds[running.kind_of(id)]
        if place is None:
            continue
        chosen = [gpu for gpu in range(free.gpus.shape[1]) if (place.gpus >> gpu) & 1]
        assert len(chosen) == kind.gpus
        model = running.servers.models[running.servers.model[place.server]]
        assert not kind.gpus or not kind.models or model in kind.models
        free.cpu[place.server] -= kind.cpu
        free.memory[place.server] -= kind.memory
        free.gpus[place.server, chosen] -= kind.milli
    for mine, its in zip(free, running.free, strict=True):
        assert (mine >= 0).all()
        np.testing.assert_array_equal(mine, its)
    assert fleet.model is running.servers.model
    waiting = [running.kind_of(id) for id in running._slot if running.place_of(id) is None]
    np.testing.assert_array_equal(running.waiting, np.bincount(waiting, minlength=len(running.kinds)))


# ---- the best mix ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(6))
def test_the_best_mix_is_that_of_all(seed):
    servers, kinds = drawn(seed, n=6)
    rng = np.random.default_rng(seed)
    free, fleet = Free.of(servers), fleet_of(servers, kinds)
    free.cpu[:] //= 2
    free.gpus[:, 0] = np.minimum(free.gpus[:, 0], 705)  # no multiple of what tasks take
    gain, most = rng.uniform(-0.3, 1.0, len(kinds)), rng.integers(0, 4, len(kinds))
    found = mixes.best_mixes(free, fleet, np.arange(6), gain, most, 10**6)
    for server in range(6):
        best = best_of_all(free, fleet, server, gain, most)
        assert found.value[server] == pytest.approx(best, rel=1e-9, abs=1e-12)
        assert found.bound[server] == pytest.approx(best, rel=1e-8, abs=1e-12)
        its = found.kinds[found.begins[server] : found.begins[server + 1]]
        assert gain[its].sum() == pytest.approx(best, rel=1e-9, abs=1e-12)


@pytest.mark.parametrize("nodes", [1, 3, 10])
def test_a_search_that_ends_early_says_what_it_may_have_missed(nodes):
    servers, kinds = drawn(3, n=6)
    free, fleet = Free.of(servers), fleet_of(servers, kinds)
    free.cpu[:] //= 3
    gain, most = np.random.default_rng(3).uniform(0.1, 1.0, len(kinds)), np.full(len(kinds), 3)
    found = mixes.best_mixes(free, fleet, np.arange(6), gain, most, nodes)
    best = np.array([best_of_all(free, fleet, server, gain, most) for server in range(6)])
    assert (found.value <= best + 1e-9).all() and (found.bound >= best - 1e-9).all()
    assert (found.bound > found.value * 1.01).any()  # else it ended in time


# ---- rounds ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", [0, 1, 2, *(pytest.param(k, marks=pytest.mark.long) for k in range(3, 8))])
def test_the_best_placement_is_between_a_round_s_value_and_its_bound(seed):
    rounds, rng = busy(seed), np.random.default_rng(seed)
    for number in range(3):
        best, waiting = best_placement(rounds), rounds.running.waiting.sum()
        if number == 2:  # the bound holds at any prices
            rounds._price = rng.uniform(0.0, 1.2, 12) * rounds.values
        done = rounds.play()
        check(rounds)
        assert 0.98 * best <= done.value <= best * (1 + 1e-6) <= done.bound * (1 + 2e-6) <= 1.03 * best
        value = sum(rounds.values[rounds.running.kind_of(id)] for id in done.placed)
        assert done.value == pytest.approx(value)
        assert done.waiting == waiting - len(done.placed)
        rounds.finish([id for id in rounds.running.all_ids() if rng.random() < 0.3])
        rounds.submit([f"{number}-{k}" for k in range(25)], rng.integers(12, size=25))


@pytest.mark.parametrize("seed", range(3))
def test_tasks_that_come_and_go_leave_nothing_behind(seed):
    rounds, rng = busy(seed, tasks=80), np.random.default_rng(seed)
    there = [f"t{one}" for one in range(80)]
    for number in range(6):
        rounds.play()
        check(rounds)
        gone = [there.pop(int(rng.integers(len(there)))) for _ in range(15)]
        rounds.finish(gone)
        new = [f"{number}-{one}" for one in range(15)]
        rounds.submit(new, rng.integers(len(rounds.values), size=15))
        there += new
        check(rounds)
    rounds.finish(there)
    assert len(rounds.running) == 0
    for mine, its in zip(rounds.running.free, Free.of(rounds.running.servers), strict=True):
        np.testing.assert_array_equal(mine, its)


def test_a_large_cluster_is_within_the_gap():
    rounds, rng = busy(11, tasks=3000, gap=0.02, n=400), np.random.default_rng(0)
    for number in range(5):
        bound = single_task_bound(rounds)
        done = rounds.play()
        check(rounds)
        assert done.gap <= 0.02
        assert done.bound <= bound * (1 + 1e-6)
        runs = [id for id in rounds.running.all_ids() if rounds.running.place_of(id)]
        rounds.finish([runs[k] for k in rng.permutation(len(runs))[: len(runs) // 50]])
        rounds.submit([f"{number}-{k}" for k in range(30)], rng.integers(12, size=30))
    assert done.waiting > 0


# ---- servers that fail or are drained --------------------------------------------------------------------


def test_tasks_of_a_server_that_fails_wait_again_and_first():
    rounds = busy(6)
    rounds.play()
    name = rounds.running.servers.names[3]
    on = {id for id in (f"t{one}" for one in range(60)) if (rounds.running.place_of(id) or (-1,))[0] == 3}
    assert on
    assert set(rounds.fail([name])) == on
    check(rounds)
    done = rounds.play()
    check(rounds)
    assert all(place.server != 3 for place in done.placed.values())
    rounds.restore([name])
    assert any(place.server == 3 for place in rounds.play().placed.values())


def test_a_drained_server_is_empty_as_soon_as_moves_allow():
    servers, kinds = drawn(8)
    rounds = PlacementRounds(servers, kinds)
    rounds.submit(range(14), np.arange(14) % 12)
    rounds.play()
    counts = np.bincount([place.server for one in range(14) if (place := rounds.running.place_of(one))])
    server = int(counts.argmax())
    many = int(counts[server])
    assert many >= 2
    rounds.drain([servers.names[server]])
    for left in range(many - 1, -1, -1):
        done = rounds.play("copter", ("limit_moves", 1))
        check(rounds)
        assert len(done.moved) == 1
        on = [one for one in range(14) if (rounds.running.place_of(one) or (-1,))[0] == server]
        assert len(on) == left
    assert not rounds.play("copter", ("limit_moves", 1)).moved


def test_a_group_leaves_a_drained_server_at_once_and_for_a_server_that_fits_it():
    gpus = np.array([4, 4, 2, 4])
    servers = Servers(
        tuple("abcd"), np.full(4, 64000), np.full(4, 10**6), gpus, np.zeros(4, np.int64), ("A",)
    )
    rounds = PlacementRounds(servers, [TaskKind(1, 1, 1, 1000, ())])
    rounds.drain("c")
    rounds.submit("xyz", 0, Together("g"))
    rounds.play()
    rounds.restore("c")
    (home,) = {rounds.running.place_of(task).server for task in "xyz"}
    others = [server for server in (0, 1, 3) if server != home]
    rounds.adopt(range(4), [0] * 4, [others[0]] * 4, [1, 2, 4, 8])  # full, and the tightest has 2 of 3 GPUs
    rounds.drain([servers.names[home]])
    assert not rounds.play("copter", ("limit_moves", 2)).moved
    check(rounds)
    assert set(rounds.play("copter", ("limit_moves", 3)).moved) == set("xyz")
    assert {rounds.running.place_of(task).server for task in "xyz"} == {others[1]}
    check(rounds)
    rounds.restore([servers.names[home]])
    rounds.submit(["w"], 0)
    rounds.play()
    rounds.finish(range(4))
    rounds.fail([servers.names[others[0]], servers.names[home]])
    rounds.drain([servers.names[others[1]]])
    assert not rounds.play("copter", ("limit_moves", 9)).moved.keys() & set("xyz")  # two GPUs are left
    check(rounds)


# ---- errors ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        (lambda rounds: rounds.submit(["t1"], 0), "'t1' exists already"),
        (lambda rounds: rounds.submit(["x", "x"], 0), "ids: must be different"),
        (lambda rounds: rounds.submit(["x"], 12), "kind = 12: must be in \\[0, 12\\)"),
        (lambda rounds: rounds.submit(["x", "y"], [1]), "must be \\(2,\\)"),
        (lambda rounds: rounds.finish(["t1", "nobody"]), "no task 'nobody'"),
        (lambda rounds: rounds.limit_moves(-1), "moves = -1"),
        (lambda rounds: rounds.fail(["s000", "nowhere"]), "no server 'nowhere'"),
    ],
)
def test_what_is_wrong_is_said_and_nothing_has_changed(wrong, said):
    rounds = busy(0)
    rounds.play()
    before = pickle.dumps(rounds.running)
    with pytest.raises(PlacementError, match=said):
        wrong(rounds)
    assert pickle.dumps(rounds.running) == before
    check(rounds)


# ---- tasks that must not be close --------------------------------------------------------------------------


def many_on(rounds, ids, of=lambda server: server):
    places = [rounds.running.place_of(id) for id in ids]
    return np.bincount([of(place.server) for place in places if place is not None], minlength=1)


@pytest.mark.parametrize("most", [1, 2])
def test_tasks_of_a_group_are_not_on_one_server(most):
    servers, kinds = drawn(2, n=8)
    rounds = PlacementRounds(servers, kinds)
    kind = next(number for number, its in enumerate(kinds) if not its.gpus)
    ids = [f"g{one}" for one in range(30)]
    rounds.submit(ids[:20], kind, Apart("g", most))
    rounds.submit(["free"], kind)
    rounds.play()
    check(rounds)
    assert many_on(rounds, ids[:20]).max() == most
    assert rounds.running.place_of("free")
    rounds.submit(ids[20:], [number % 12 for number in range(10)], Apart("g", most))
    rounds.play()
    assert many_on(rounds, ids).max() == most
    runs = next(id for id in ids if rounds.running.place_of(id))
    rounds.finish([runs])
    ids.remove(runs)
    rounds.play()
    assert many_on(rounds, ids).max() == most
    rounds.drain([servers.names[0]])
    for _ in range(10):
        rounds.play("copter", ("limit_moves", 2))
        assert many_on(rounds, ids).max() == most
    check(rounds)


def test_a_group_is_spread_over_zones():
    n = 9
    servers = Servers(
        tuple(f"s{one}" for one in range(n)),
        *(np.full(n, size) for size in (64_000, 65_536, 0, 0)),
        MODELS,
    )
    zones = ["abc"[one % 3] for one in range(n)]
    rounds = PlacementRounds(servers, [TaskKind(1000, 1024, 0, 0, ())])
    ids = [f"t{one}" for one in range(10)]
    rounds.submit(ids, 0, Apart("job", most=2, zones=zones))
    assert len(rounds.play().placed) == 6
    assert many_on(rounds, ids, lambda server: "abc".index(zones[server])).tolist() == [2, 2, 2]
    assert rounds.place("other", 0, Apart("job", most=2, zones=zones)) is None
    assert rounds.place("one more", 0, Apart("another", most=2, zones=zones)) is not None


@pytest.mark.parametrize("seed", range(4))
def test_groups_run_together_on_one_server_or_in_one_zone(seed):
    servers, kinds = drawn(seed, n=12, kinds=4)
    zones = [number % 3 for number in range(12)]
    rounds, rng = PlacementRounds(servers, kinds), np.random.default_rng(seed)
    for count in range(4):
        for name, its in (("server", None), ("zone", zones)):
            for job in range(3):
                ids = [(name, job, count, number) for number in range(2)]
                rounds.submit(ids, rng.integers(0, 4, 2), Together((name, job), its))
        alone = [("alone", count, number) for number in range(8)]
        rounds.submit(alone, rng.integers(0, 4, 8))
        rounds.play("copter", ("limit_moves", 3))
        running = rounds.running
        there = {}
        for id in list(running._slot):
            place = running.place_of(id)
            if place is not None and id[0] != "alone":
                at = place.server if id[0] == "server" else zones[place.server]
                there.setdefault(id[:2], set()).add(at)
        assert there and all(len(ats) == 1 for ats in there.values())
        gone = [id for id in running._slot if rng.random() < 0.3]
        rounds.finish(gone)


def plain(cpu, kinds, **options):
    """Servers without GPUs with so much CPU, and kinds by CPU and memory."""
    n = len(cpu)
    none = np.zeros(n, int)
    servers = Servers(
        tuple(f"s{number}" for number in range(n)), np.array(cpu), np.full(n, 8000), none, none, ("",)
    )
    return PlacementRounds(servers, [TaskKind(*its, 0, 0, ()) for its in kinds], **options)


def test_a_group_of_two_kinds_keeps_its_limit_within_one_round():
    rounds = plain([8000] * 3, [(1000, 1000), (1000, 1001)])
    rounds.submit(["a", "b"], [0, 1], Apart("g", 1))
    rounds.play()
    places = [rounds.running.place_of(id) for id in "ab"]
    assert places[0] and places[1] and places[0].server != places[1].server


@pytest.mark.parametrize(
    ("gpus", "said"), [(0b101, "on GPUs 0 and 2"), (0b10, "on GPU 1"), (0, "without GPUs")]
)
def test_a_task_that_does_not_fit_is_named_with_its_gpus(gpus, said):
    servers = Servers(("s",), np.array([9000]), np.array([9000]), np.array([1]), np.array([1]), ("", "A"))
    rounds = PlacementRounds(servers, [TaskKind(1000, 1000, 1, 1000, ())])
    with pytest.raises(PlacementError, match=f"^adopt: task 'a': does not fit on server 's' {said}$"):
        rounds.adopt(["a"], 0, [0], [gpus])


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"names": ("a", "a")}, "'a': must occur once"),
        ({"cpu": np.array([1, -1])}, "cpu of 'b' must be"),
        ({"gpus": np.array([0, 64])}, "gpus of 'b' must be from 0 to 63"),
        ({"memory": np.array([1])}, "memory of shape"),
    ],
)
def test_servers_that_cannot_be_are_refused(change, why):
    given = {name: np.zeros(2, int) for name in ("cpu", "memory", "gpus", "model")}
    with pytest.raises(PlacementError, match=why):
        PlacementRounds(Servers(**({"names": ("a", "b"), "models": ("",)} | given | change)), [])


def test_kinds_gaps_and_groups_that_cannot_be_are_refused():
    for kind in ((-1, 0), (0, -1), (10**13, 0)):
        with pytest.raises(PlacementError, match="kind 0"):
            plain([1000], [kind])
    for gap in (0.0, 1.0, -1.0, float("nan")):
        with pytest.raises(PlacementError, match="gap = "):
            plain([1000], [(1, 1)], gap=gap)
    rounds = plain([1000], [(1, 1)])
    for group, said in (
        (Apart(["x"]), "hashable"),
        (Apart("g", 0), "most = 0"),
        (Apart("g", 1, "ab"), "2 zones"),
    ):
        with pytest.raises(PlacementError, match=said):
            rounds.submit(["a"], 0, group)
    assert not len(rounds.running)
    for values in ([1.0, 1.0], [np.nan], [0.0], [np.inf]):
        with pytest.raises(PlacementError, match="values"):
            plain([1000], [(1, 1)], values=values)
    with pytest.raises(PlacementError, match="milli = 0"):
        PlacementRounds(rounds.running.servers, [TaskKind(1, 1, 1, 0, ())])
