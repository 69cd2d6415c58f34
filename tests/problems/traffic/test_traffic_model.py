"""Traffic engineering as a program: against scipy, and after events one built from scratch; bad input."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from copter import make_solver
from copter.errors import EditError
from copter.problems.traffic import model
from copter.problems.traffic.model import TrafficEngineering
from copter.solution import Status
from copter.store.compiled import compile_program
from support.amounts import examples
from support.networks import best_flow, incidence, least_mlu, line, membership, networks, volumes_for

HIGHS = {"tolerance": 1e-9}


@st.composite
def histories(draw):
    """A network and a list of events: volumes, capacities, failures, repairs, removals."""
    topology, paths = draw(networks())
    pair, link = st.integers(0, paths.n_pairs - 1), st.integers(0, topology.n_links - 1)
    some_pairs = st.lists(pair, max_size=paths.n_pairs, unique=True)
    some_links = st.lists(link, min_size=1, max_size=5, unique=True)
    amount = st.sampled_from([0.0, 0.3, 1.0, 4.0, 7.5])
    events = st.one_of(
        st.tuples(st.just("volumes"), some_pairs, amount),
        st.tuples(st.just("capacities"), some_links, amount),
        st.tuples(st.just("fail"), some_links, st.just(0.0)),
        st.tuples(st.just("restore"), some_links, st.just(0.0)),
        st.tuples(st.just("remove"), some_pairs, st.just(0.0)),
    )
    return topology, paths, draw(volumes_for(paths)), draw(st.lists(events, max_size=8))


def play_one(traffic, event):
    kind, which, amount = event
    if kind == "volumes":
        traffic.set_volumes(amount, which)
    elif kind == "capacities":
        traffic.set_capacities(amount, which)
    elif kind == "remove":
        traffic.remove_demands([pair for pair in which if pair in traffic.demands])
    else:
        (traffic.fail_links if kind == "fail" else traffic.restore_links)(which)


def play(traffic, volume, events):
    """Apply events to a model, and to a plain copy of what they mean."""
    traffic.set_volumes(volume)
    capacity, up = traffic.topology.capacity.copy(), np.ones(traffic.topology.n_links, bool)
    volume = volume.copy()
    for event in events:
        kind, which, amount = event
        if kind == "volumes":
            volume[which] = amount
        elif kind == "capacities":
            capacity[which] = amount
        elif kind == "remove":
            volume[which] = 0.0
        else:
            up[which] = kind == "restore"
        play_one(traffic, event)
    return volume, np.where(up, capacity, 0.0)


def servable(topology, paths, capacity):
    """Whether a pair has a path of links with capacity."""
    dead = incidence(topology, paths).T @ (capacity <= 0)
    return membership(paths) @ (dead == 0) > 0


@settings(max_examples=examples(100), deadline=None)
@given(histories())
def test_after_any_events_the_program_is_the_one_built_from_scratch(case):
    topology, paths, volume, events = case
    traffic = TrafficEngineering(topology, paths)
    volume, capacity = play(traffic, volume, events)
    compiled = compile_program(traffic.program)
    pairs = np.array(compiled.request_ids, int)
    assert sorted(pairs) == traffic.demands.tolist() and set(np.flatnonzero(volume)) <= set(pairs)
    columns = [path for pair in pairs for path in range(paths.first[pair], paths.first[pair + 1])]
    links = compiled.A[: topology.n_links].toarray()
    assert (links == incidence(topology, paths).toarray()[:, columns]).all()
    sums = compiled.A[topology.n_links :].toarray()
    assert (sums == membership(paths).toarray()[pairs][:, columns]).all()
    assert (compiled.row_upper == np.concatenate((capacity, volume[pairs]))).all()
    assert (compiled.row_lower == -np.inf).all()
    assert (compiled.c == -1.0).all()
    assert (traffic.effective_capacity == capacity).all() and (traffic.volume == volume).all()


@settings(max_examples=examples(60), deadline=None)
@given(histories())
def test_max_flow_is_scipy_s_after_any_events(case):
    topology, paths, volume, events = case
    traffic = TrafficEngineering(topology, paths)
    volume, capacity = play(traffic, volume, events)
    done = traffic.play(make_solver("highs-simplex", **HIGHS))
    flows = traffic.path_flows(done.flows)
    wanted = best_flow(topology, paths, volume, capacity)
    assert done.flows.extras["total_flow"] == pytest.approx(wanted, abs=1e-6)
    check = traffic.check(flows)
    assert check.total_flow == pytest.approx(wanted, abs=1e-6)
    assert check.overload <= 1e-9 and check.excess <= 1e-9
    assert check.lack == pytest.approx(volume.sum() - wanted, abs=1e-6)


@settings(max_examples=examples(60), deadline=None)
@given(histories())
def test_min_mlu_is_scipy_s_after_any_events(case):
    topology, paths, volume, events = case
    traffic = TrafficEngineering(topology, paths, "min-mlu")
    volume, capacity = play(traffic, volume, events)
    able = servable(topology, paths, capacity)
    assert traffic.cut.tolist() == np.flatnonzero(~able & (volume > 0)).tolist()
    done = traffic.play(make_solver("highs-simplex", **HIGHS))
    assert done.solution.status is Status.OPTIMAL
    wanted = least_mlu(topology, paths, np.where(able, volume, 0.0), capacity)
    assert done.flows.extras["mlu"] == pytest.approx(wanted, abs=1e-6)
    assert done.solution.bound == pytest.approx(wanted, abs=1e-6)
    flows = traffic.path_flows(done.flows)
    assert membership(paths) @ flows == pytest.approx(np.where(able, volume, 0.0), abs=1e-9)


def test_last_round_s_flows_are_taken_where_they_are_good_enough(monkeypatch):
    monkeypatch.setattr(model, "_SMALL", 0)
    topology, paths = line(10.0)
    traffic, solver = TrafficEngineering(topology, paths), make_solver("copter", tolerance=1e-3)
    ab, bc, ac = traffic.pairs([0, 1, 0], [1, 2, 2]).tolist()
    traffic.set_volumes([7.0, 6.0, 8.0], [ab, bc, ac])
    assert traffic.play(solver).flows.extras["total_flow"] == pytest.approx(16.0, rel=1e-3)
    traffic.set_volumes([7.5, 5.5, 8.5], [ab, bc, ac])
    done = traffic.play(solver)
    assert (done.solution.iterations, done.solution.status) == (0, Status.OPTIMAL)
    assert done.flows.extras["total_flow"] == pytest.approx(15.5, rel=1e-3)
    assert done.solution.churn > 0  # against the last answer, not against what was offered
    traffic.set_volumes([1.0, 1.0, 20.0], [ab, bc, ac])  # other prices: now there is something to solve
    done = traffic.play(solver)
    assert done.flows.extras["total_flow"] == pytest.approx(11.0, rel=1e-3)


def test_volumes_that_do_not_change_edit_nothing():
    topology, paths = line()
    traffic = TrafficEngineering(topology, paths)
    traffic.set_volumes(2.0)
    clock = traffic.program.store.clock
    traffic.set_volumes(2.0)
    traffic.restore_links([0, 1])
    assert traffic.program.store.clock == clock


def make():
    topology, paths = line()
    traffic = TrafficEngineering(topology, paths)
    traffic.set_volumes(1.0)
    return traffic


@pytest.mark.parametrize(
    ("edit", "said"),
    [
        (lambda t: t.set_volumes([1.0, -2.0], [0, 1]), ["a -> c", "volume", "-2.0", "not negative"]),
        (lambda t: t.set_volumes(np.nan, [2]), ["b -> a", "volume", "nan"]),
        (lambda t: t.set_volumes([1.0, 2.0]), ["volumes", "shape (6,)"]),
        (lambda t: t.set_volumes(1.0, [99]), ["99", "must be the number of a pair", "6"]),
        (lambda t: t.set_volumes(1.0, [-1]), ["-1", "must be the number of a pair"]),
        (lambda t: t.set_volumes(1.0, [3, 3]), ["3", "must be given only once"]),
        (lambda t: t.pairs([0, 7], [1, 1]), ["(7, 1)", "no path is known for this pair"]),
        (lambda t: t.set_capacities([1.0, -1.0], [0, 1]), ["capacity", "-1.0", "not negative"]),
        (lambda t: t.set_capacities(1.0, [77]), ["77", "must be the number of a link"]),
        (lambda t: t.fail_links([-1]), ["-1", "must be the number of a link"]),
        (lambda t: t.remove_demands([9]), ["9", "must be the number of a pair"]),
        (lambda t: t.remove_demands([5]), ["c -> b", "must have a demand"]),
    ],
)
def test_what_is_wrong_is_named_and_nothing_changes(edit, said):
    traffic = make()
    traffic.remove_demands([5])
    clock, volume, capacity = traffic.program.store.clock, traffic.volume.copy(), traffic.effective_capacity
    with pytest.raises(EditError) as caught:
        edit(traffic)
    assert all(word in str(caught.value) for word in said), str(caught.value)
    assert traffic.program.store.clock == clock
    assert (traffic.volume == volume).all() and (traffic.effective_capacity == capacity).all()


def test_a_demand_of_a_pair_without_a_path_is_named():
    topology, paths = line()
    empty = paths.take([0, 1])
    empty = type(paths)(
        paths.source[:2], paths.target[:2], np.array([0, 0, 1]), empty.pointer[1:] - empty.pointer[1],
        empty.link[empty.pointer[1] :],
    )  # fmt: skip
    traffic = TrafficEngineering(topology, empty)
    with pytest.raises(EditError, match="a -> b.*must be 0 without a path"):
        traffic.set_volumes(1.0)
    traffic.set_volumes([0.0, 1.0])
    assert traffic.demands.tolist() == [1]


def test_models_that_cannot_be_are_refused():
    topology, paths = line()
    with pytest.raises(EditError, match="max-flow, min-mlu"):
        TrafficEngineering(topology, paths, "fast")
    with pytest.raises(EditError, match="must be empty"):
        TrafficEngineering(topology, paths, program=make().program)
    shorter, _ = line()
    other = type(paths)(paths.source, paths.target, paths.first, paths.pointer, paths.link + 90)
    with pytest.raises(EditError, match="must be a link of topology 'line'"):
        TrafficEngineering(shorter, other)
