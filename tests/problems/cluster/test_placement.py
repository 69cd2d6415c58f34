"""The placer's three rules, checked on placements themselves."""

import pickle
import random
from copy import copy
from itertools import combinations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from copter.problems.cluster import placement
from copter.problems.cluster.cluster import Cluster, Configuration, GpuType
from copter.problems.cluster.placement import SiaPlacer
from copter.problems.cluster.policy import Placement, PolicyError
from copter.problems.cluster.profiles.builtin import builtin_goodput_profiles


def fits(cluster, down, places):
    """Nodes work, no node holds more than it has, no node is shared by two distributed jobs."""
    used, distributed = {}, {}
    for name, place in places.items():
        for node, gpus in place.nodes:
            assert node not in down.get(place.type, ())
            used[place.type, node] = used.get((place.type, node), 0) + gpus
            if len(place.nodes) > 1:
                assert distributed.setdefault((place.type, node), name) == name
    for type in cluster.types:
        numbers = {node for of, node in used if of == type.name}
        last = type.nodes + len(down.get(type.name, ()))
        assert all(node < last and used[type.name, node] <= type.gpus_per_node for node in numbers)


@st.composite
def rounds(draw, powers_of_two=True):
    """A cluster, and what jobs want in each of a few rounds, within its capacity."""
    sizes = (1, 2, 4, 8) if powers_of_two else (1, 3, 4, 6, 8)
    shapes = draw(st.lists(st.tuples(st.sampled_from(sizes), st.integers(1, 6)), min_size=1, max_size=2))
    cluster = Cluster(GpuType(f"type{k}", size, nodes) for k, (size, nodes) in enumerate(shapes))
    wanted = []
    for _ in range(draw(st.integers(1, 4))):
        left, one = cluster.capacity, {}
        for name in draw(st.permutations([f"job{k}" for k in range(draw(st.integers(0, 12)))])):
            if powers_of_two:
                options = [c for c in cluster.configurations if c.gpus <= left[c.type]]
            else:
                options = [
                    cluster.packed(type.name, gpus)
                    for type in cluster.types
                    for gpus in range(1, left[type.name] + 1)
                ]
            if options:
                one[name] = draw(st.sampled_from(options))
                left[one[name].type] -= one[name].gpus
        wanted.append(one)
    return cluster, wanted


@settings(deadline=None)
@given(rounds())
def test_what_fits_by_counts_is_placed(case):
    cluster, wanted = case
    held = {}
    for want in wanted:
        placed = SiaPlacer().place(cluster, {}, held, want)
        assert placed.evicted == ()
        assert {name: place.configuration for name, place in placed.places.items()} == want
        fits(cluster, {}, placed.places)
        same = [name for name in want if name in held and held[name].configuration == want[name]]
        assert set(placed.moved) == {name for name in same if placed.places[name] != held[name]}
        held = placed.places


@settings(deadline=None)
@given(rounds(powers_of_two=False))
def test_odd_counts_keep_the_rules(case):
    cluster, wanted = case
    held = {}
    for want in wanted:
        placed = SiaPlacer().place(cluster, {}, held, want)
        assert {*placed.places, *placed.evicted} == set(want)
        assert all(place.configuration == want[name] for name, place in placed.places.items())
        fits(cluster, {}, placed.places)
        held = placed.places


@settings(deadline=None)
@given(rounds(), st.data())
def test_nodes_that_are_down_are_not_used(case, data):
    cluster, wanted = case
    down = {
        type.name: frozenset(data.draw(st.sets(st.integers(0, type.nodes + 1), max_size=2)))
        for type in cluster.types
    }
    held = {}
    for want in wanted:
        placed = SiaPlacer().place(cluster, down, held, want)
        assert placed.evicted == ()
        fits(cluster, down, placed.places)
        held = placed.places


def on(*nodes, type="a"):
    return Placement(type, tuple(nodes))


CLUSTER = Cluster([GpuType("a", 4, 3)])


@settings(deadline=None)
@given(rounds(), st.data())
def test_last_nodes_are_used_only_without_others(case, data):
    cluster, wanted = case
    last = {
        type.name: frozenset(data.draw(st.sets(st.integers(0, type.nodes - 1)))) for type in cluster.types
    }
    held, placer = {}, SiaPlacer(last=lambda: last)
    for one in wanted:
        placed = placer.place(cluster, {}, held, one)
        assert set(placed.places) == set(one) and not placed.evicted
        fits(cluster, {}, placed.places)
        if not held:  # all jobs are new, the largest first, so the other nodes are filled completely
            for type in cluster.types:
                there = [place for place in placed.places.values() if place.type == type.name]
                if any(node in last[type.name] for place in there for node, _ in place.nodes):
                    used = sum(place.configuration.gpus for place in there)
                    assert used > type.gpus_per_node * (type.nodes - len(last[type.name]))
        held = placed.places


@pytest.mark.parametrize("racks", [(), (2, 2)])
def test_a_node_that_is_fuller_but_last_is_left_alone(racks):
    cluster = Cluster([GpuType("t4", 4, 4, racks=racks)])
    held = {"a": Placement("t4", ((1, 2),))}
    wanted = {"a": Configuration(1, 2, "t4"), "b": Configuration(1, 2, "t4")}
    assert SiaPlacer().place(cluster, {}, held, wanted).places["b"].nodes == ((1, 2),)
    placer = SiaPlacer(last=lambda: {"t4": frozenset((0, 1))})
    placed = placer.place(cluster, {}, held, wanted, one_rack=["b"])
    assert (placed.places["a"].nodes, placed.places["b"].nodes) == (((1, 2),), ((2, 2),))
    wanted |= {name: Configuration(1, 4, "t4") for name in ("c", "d", "e")}
    placed = placer.place(cluster, {}, placed.places, wanted)
    nodes = {name: place.nodes for name, place in placed.places.items()}
    assert nodes == {"a": ((2, 2),), "b": ((2, 2),), "c": ((3, 4),), "d": ((0, 4),), "e": ((1, 4),)}


def test_jobs_that_keep_their_configuration_stay():
    held = {"x": on((1, 2)), "y": on((2, 4))}
    wanted = {"y": Configuration(1, 4, "a"), "x": Configuration(1, 2, "a"), "z": Configuration(1, 2, "a")}
    placed = SiaPlacer().place(CLUSTER, {}, held, wanted)
    assert placed.places["x"] is held["x"] and placed.places["y"] is held["y"]
    assert placed.places["z"] == on((1, 2))  # the fullest node that has room


def test_scattered_gpus_are_joined_by_the_fewest_moves():
    held = {"a": on((0, 2)), "b": on((1, 1)), "c": on((1, 1)), "d": on((2, 1)), "e": on((2, 2))}
    wanted = {name: place.configuration for name, place in held.items()} | {"new": Configuration(1, 4, "a")}
    placed = SiaPlacer().place(CLUSTER, {}, held, wanted)
    assert placed.moved == ("a",) and placed.evicted == ()
    assert placed.places["new"] == on((0, 4)) and placed.places["a"] == on((1, 2))


def test_fixed_jobs_are_not_moved():
    held = {"a": on((0, 2)), "b": on((1, 1)), "c": on((1, 1)), "d": on((2, 1)), "e": on((2, 2))}
    wanted = {name: place.configuration for name, place in held.items()} | {"new": Configuration(1, 4, "a")}
    placed = SiaPlacer().place(CLUSTER, {}, held, wanted, fixed=["a"])
    assert set(placed.moved) == {"b", "c"} and placed.places["new"] == on((1, 4))
    placed = SiaPlacer().place(CLUSTER, {}, held, wanted, fixed=["a", "b", "d"])
    assert placed.evicted == ("new",) and placed.moved == ()


def test_a_job_whose_nodes_are_gone_is_placed_again():
    held = {"x": on((3, 2)), "y": on((0, 4), (1, 4))}
    wanted = {name: place.configuration for name, place in held.items()}
    placed = SiaPlacer().place(CLUSTER, {"a": frozenset({1})}, held, wanted)
    assert placed.places["x"] is held["x"]  # of three nodes that work, 0, 2 and 3
    assert placed.places["y"] == on((0, 4), (2, 4))
    assert placed.moved == ("y",)


def test_odd_counts_take_whole_nodes_and_a_rest():
    wanted = {"x": Configuration(2, 6, "a"), "y": Configuration(2, 6, "a")}
    placed = SiaPlacer().place(CLUSTER, {}, {}, wanted)
    assert placed.places == {"x": on((0, 4), (1, 2))} and placed.evicted == ("y",)


def test_distributed_jobs_share_a_node_only_if_they_may_and_must():
    wanted = {name: Configuration(2, 6, "a") for name in ("x", "y")}
    placed = SiaPlacer(sharing=True).place(CLUSTER, {}, {}, wanted)
    assert placed.places == {"x": on((0, 4), (1, 2)), "y": on((1, 2), (2, 4))} and placed.evicted == ()
    again = SiaPlacer(sharing=True).place(CLUSTER, {}, placed.places, wanted)
    assert again.places == placed.places and again.moved == ()
    four = Cluster([GpuType("a", 4, 4)])
    apart = SiaPlacer(sharing=True).place(four, {}, {}, wanted)
    assert apart.places == {"x": on((0, 4), (1, 2)), "y": on((2, 4), (3, 2))}


def test_nodes_that_the_policy_chose_are_taken_as_they_are():
    wanted = {"x": on((0, 2), (1, 2)), "y": on((0, 2), (2, 1)), "z": Configuration(1, 2, "a")}
    held = {"x": on((0, 2), (1, 2)), "z": on((0, 2))}
    placed = SiaPlacer().place(CLUSTER, {}, held, wanted)
    assert placed.places == {"x": wanted["x"], "y": wanted["y"], "z": on((1, 2))}
    assert placed.places["x"] is held["x"] and placed.moved == ("z",)


@pytest.mark.parametrize("nodes", [((3, 1),), ((0, 5),), ((-1, 1),), ((0, 0),)])
def test_nodes_that_are_not_there(nodes):
    with pytest.raises(PolicyError, match="job 'x'"):
        SiaPlacer().place(CLUSTER, {}, {}, {"x": Placement("a", nodes)})


def test_unknown_type():
    with pytest.raises(PolicyError, match="no GPU type 'b'"):
        SiaPlacer().place(CLUSTER, {}, {}, {"x": Configuration(1, 1, "b")})


def in_one_rack(type, nodes):
    return any(all(node in rack for node, _ in nodes) for rack in type.racks_of(1000))


def some_rack_holds(type, free, distributed, want):
    """Return by trying all sets of nodes whether a rack has free whole nodes and a remainder for a job."""
    whole, rest = divmod(want.gpus, type.gpus_per_node)
    for rack in type.racks_of(len(free)):
        for nodes in combinations(rack, want.nodes):
            room = sorted((free[node] for node in nodes), reverse=True)
            enough = [type.gpus_per_node] * whole + [rest] * bool(rest)
            if not distributed & set(nodes) and all(a >= b for a, b in zip(room, enough, strict=True)):
                return True
    return False


@pytest.mark.parametrize("sharing", [False, True])
def test_a_job_of_one_rack_gets_nodes_of_a_rack_or_none(sharing):
    """One more job next to jobs that keep their nodes is placed if and only if brute force finds a rack."""
    rng, counts = random.Random(5), {"placed": 0, "not": 0, "only across": 0, "down": 0}
    for _ in range(800):
        racks = tuple(rng.randint(1, 3) for _ in range(rng.randint(1, 3)))
        nodes, size = rng.randint(2, 7), rng.choice([1, 2, 4, 6])
        down = frozenset(node for node in range(nodes) if rng.random() < 0.1)
        type = GpuType("t", size, nodes - len(down), racks)
        free = [0 if node in down else size for node in range(nodes)]
        held = {}
        for name in range(rng.randint(0, 5)):
            there = rng.sample(range(nodes), rng.choice([1, 1, min(2, nodes)]))
            place = tuple((node, rng.randint(1, max(free[node], 1))) for node in sorted(there))
            taken = {node for other in held.values() if len(other.nodes) > 1 for node, _ in other.nodes}
            apart = sharing or len(place) == 1 or not taken & set(there)
            if all(free[node] >= gpus for node, gpus in place) and apart:
                held[f"held{name}"] = Placement("t", place)
                for node, gpus in place:
                    free[node] -= gpus
        distributed = {node for one in held.values() if len(one.nodes) > 1 for node, _ in one.nodes}
        cluster = Cluster([type])
        want = cluster.packed("t", rng.randint(1, size * 4))
        if want.gpus > type.gpus:
            continue
        wanted = {name: place.configuration for name, place in held.items()} | {"new": want}
        placed = SiaPlacer(sharing=sharing).place(cluster, {"t": down}, held, wanted, set(held), {"new"})
        taken = set() if sharing or want.nodes == 1 else distributed
        holds = some_rack_holds(type, free, taken, want)
        assert ("new" in placed.places) == holds, (type, free, held, want)
        assert all(placed.places[name] is place for name, place in held.items())
        if holds:
            assert in_one_rack(type, placed.places["new"].nodes)
            assert placed.places["new"].configuration == want
        else:
            assert placed.evicted == ("new",)
            anywhere = SiaPlacer(sharing=sharing).place(cluster, {"t": down}, held, wanted, set(held))
            counts["only across"] += "new" in anywhere.places
        counts["placed" if holds else "not"] += 1
        counts["down"] += bool(down)
    assert min(counts.values()) > 40, counts


@settings(deadline=None)
@given(rounds(), st.lists(st.integers(1, 3), min_size=1, max_size=3), st.data())
def test_jobs_of_one_rack_are_never_across_racks(case, racks, data):
    cluster, wanted = case
    cluster = Cluster(
        GpuType(type.name, type.gpus_per_node, type.nodes, tuple(racks)) for type in cluster.types
    )
    types, held = {type.name: type for type in cluster.types}, {}
    one_rack = {f"job{k}" for k in data.draw(st.sets(st.integers(0, 11)))}
    for want in wanted:
        placed = SiaPlacer().place(cluster, {}, held, want, (), one_rack)
        fits(cluster, {}, placed.places)
        assert set(placed.places) | set(placed.evicted) == set(want)
        for name, place in placed.places.items():
            assert place.configuration == want[name]
            assert name not in one_rack or in_one_rack(types[place.type], place.nodes)
        held = dict(placed.places)


def test_a_job_of_one_rack_makes_room_in_the_rack_with_the_fewest_evictions():
    cluster = Cluster([GpuType("t", 2, 5, (2, 2))])
    held = {"a": Placement("t", ((0, 1),)), "b": Placement("t", ((1, 1),)), "c": Placement("t", ((2, 1),))}
    wanted = {name: place.configuration for name, place in held.items()} | {"new": Configuration(2, 4, "t")}
    placed = SiaPlacer().place(cluster, {}, held, wanted, (), {"new"})
    assert placed.places["new"].nodes == ((2, 2), (3, 2)) and placed.moved == ("c",)
    assert placed.places["c"].nodes in (((0, 1),), ((1, 1),))


def test_a_job_of_one_rack_keeps_its_rack_and_leaves_nodes_of_several_racks():
    cluster = Cluster([GpuType("t", 2, 6, (3,))])
    wanted = {"a": Configuration(2, 4, "t")}
    for nodes in (((4, 2), (5, 2)), ((0, 2), (2, 2))):
        held = {"a": Placement("t", nodes)}
        assert SiaPlacer().place(cluster, {}, held, wanted, (), {"a"}).places == held
        grown = SiaPlacer().place(cluster, {}, held, {"a": Configuration(3, 6, "t")}, (), {"a"})
        assert {node for node, _ in nodes} < {node for node, _ in grown.places["a"].nodes}
    across = {"a": Placement("t", ((2, 2), (3, 2)))}
    placed = SiaPlacer().place(cluster, {}, across, wanted, (), {"a"})
    assert placed.moved == ("a",) and in_one_rack(cluster.types[0], placed.places["a"].nodes)
    with pytest.raises(PolicyError, match="'a'.*one rack"):
        SiaPlacer().place(cluster, {}, {}, across, (), {"a"})


def test_racks_have_their_sizes_in_the_order_of_the_nodes():
    assert GpuType("t", 1, 7, (3, 2)).racks_of(8) == [range(3), range(3, 5), range(5, 7), range(7, 8)]
    assert GpuType("t", 4, 7, (3, 2)).rack_gpus == 12
    assert GpuType("t", 4, 7).racks_of(7) == [range(7)] and GpuType("t", 4, 7).rack_gpus is None
    assert GpuType("t", 4, 0, (2,)).racks_of(0) == []
    with pytest.raises(ValueError, match="racks = .2, 0.: must have nodes"):
        GpuType("t", 1, 4, (2, 0))


def test_a_rack_is_searched_without_the_nodes_of_other_racks(monkeypatch):
    """Each node is examined once for each node that a job of one rack gets, whatever the number of racks."""
    examined = 0

    def count(self, *arguments):
        nonlocal examined
        examined += 1
        return can_use(self, *arguments)

    can_use = placement._Pool._open
    monkeypatch.setattr(placement._Pool, "_open", count)
    cluster = Cluster([GpuType("t", 4, 120, (4,))])
    wanted = {f"job{k}": Configuration(2, 8, "t") for k in range(60)}
    placed = SiaPlacer().place(cluster, {}, {}, wanted, (), set(wanted))
    assert len(placed.places) == 60 and examined <= 60 * 2 * 120
    examined = 0
    placed = SiaPlacer().place(Cluster([GpuType("t", 4, 120)]), {}, {}, wanted, (), set(wanted))
    assert len(placed.places) == 60 and examined <= 60 * 4


def test_profiles_with_limits_of_types_can_be_pickled_and_copied():
    profile = next(iter(builtin_goodput_profiles().values()))
    type = next(iter(profile.models))
    limited = profile.with_type_gpus({type: 8})
    for other in (pickle.loads(pickle.dumps(limited)), copy(limited)):
        assert other.type_gpus == {type: 8} and other.with_type_gpus({type: 8}) is other
        with pytest.raises(TypeError):
            other.type_gpus[type] = 9
    assert not pickle.loads(pickle.dumps(profile)).type_gpus
