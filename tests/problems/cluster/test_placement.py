"""The placer's three rules, checked on placements themselves."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from copter.problems.cluster.cluster import Cluster, Configuration, GpuType
from copter.problems.cluster.placement import SiaPlacer
from copter.problems.cluster.policy import Placement, PolicyError


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
@given(rounds(), st.data(), st.sampled_from([0, 0, 2]))
def test_what_fits_by_counts_is_placed_on_nodes_that_work(case, data, most):
    cluster, wanted = case
    down = {
        type.name: frozenset(data.draw(st.sets(st.integers(0, type.nodes + 1), max_size=most)))
        for type in cluster.types
    }
    held = {}
    for want in wanted:
        placed = SiaPlacer().place(cluster, down, held, want)
        assert placed.evicted == ()
        assert {name: place.configuration for name, place in placed.places.items()} == want
        fits(cluster, down, placed.places)
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


def on(*nodes, type="a"):
    return Placement(type, tuple(nodes))


CLUSTER = Cluster([GpuType("a", 4, 3)])


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
def test_nodes_and_types_that_are_not_there(nodes):
    with pytest.raises(PolicyError, match="job 'x'"):
        SiaPlacer().place(CLUSTER, {}, {}, {"x": Placement("a", nodes)})
    with pytest.raises(PolicyError, match="no GPU type 'b'"):
        SiaPlacer().place(CLUSTER, {}, {}, {"x": Configuration(1, 1, "b")})
