"""The flow shims: what they guarantee for any allocation whatever, and figures worked out by hand."""

import copy
from time import perf_counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from copter import ContinualProgram, make_solver
from copter.errors import CopterError
from copter.problems.traffic.model import TrafficEngineering
from copter.shims.flow import FlowShim, UtilisationShim
from copter.solution import Start, Status, Timings, make_solution
from copter.store.allocation import SparseX
from support.amounts import examples, seeds
from support.networks import best_flow, incidence, line, membership, networks, volumes_for


def claimed(traffic, path_flows, y=None):
    """A solution that claims these flows, whatever they are."""
    program = traffic.program
    slots = program.slot_of if hasattr(program, "slot_of") else program._requests
    paths, entries = traffic.paths, []
    for pair in traffic.demands.tolist():
        for path in range(paths.first[pair], paths.first[pair + 1]):
            if path_flows[path] != 0.0:
                entries.append((slots[pair], path - paths.first[pair], path_flows[path]))
    entries.sort()
    slot, column, value = (np.array([e[k] for e in entries]) for k in range(3))
    x = SparseX(slot.astype(np.int64), column.astype(np.int64), value.astype(float))
    return make_solution(
        program,
        x,
        np.zeros(program.store.rows.size) if y is None else y,
        status=Status.DEADLINE,
        reason="claimed",
        iterations=0,
        timings=Timings(),
        warm=Start(False, ""),
    )


@st.composite
def cases(draw):
    """A model with demands, and flows on its paths that may break every rule."""
    topology, paths = draw(networks())
    volume = draw(volumes_for(paths))
    amounts = st.one_of(st.just(0.0), st.floats(-1.0, 12.0))
    flows = np.array(draw(st.lists(amounts, min_size=paths.n_paths, max_size=paths.n_paths)))
    prices = draw(st.lists(st.floats(0.0, 2.0), min_size=topology.n_links, max_size=topology.n_links))
    return topology, paths, volume, flows, np.array(prices)


def repaired(topology, paths, volume, flows, prices):
    traffic = TrafficEngineering(topology, paths)
    traffic.set_volumes(volume)
    y = np.zeros(traffic.program.store.rows.size)
    y[traffic.program.resource_slots] = prices
    solution = claimed(traffic, flows, y)
    rounded = traffic.shim.round(traffic.program, solution)
    return traffic, solution, rounded, traffic.path_flows(rounded)


@settings(max_examples=examples(150), deadline=None)
@given(cases())
def test_links_and_demands_hold_and_no_flow_is_negative(case):
    topology, paths, volume, flows, prices = case
    _, _, rounded, x = repaired(*case)
    assert (x >= 0).all()
    assert (incidence(topology, paths) @ x <= topology.capacity + 1e-9).all()
    assert (membership(paths) @ x <= volume + 1e-9).all()
    assert rounded.extras["total_flow"] == pytest.approx(x.sum(), abs=1e-9)
    assert rounded.objective == pytest.approx(-x.sum(), abs=1e-9)


@settings(max_examples=examples(150), deadline=None)
@given(cases())
def test_never_worse_than_scaling_everything_by_the_worst_link(case):
    topology, paths, volume, flows, prices = case
    x = repaired(*case)[3]
    taken = np.maximum(flows, 0.0)
    sums = membership(paths) @ taken
    taken *= membership(paths).T @ np.minimum(1.0, volume / np.maximum(sums, 1e-300))
    load = incidence(topology, paths) @ taken
    used = load > 0
    with np.errstate(over="ignore"):
        worst = min(1.0, (topology.capacity[used] / load[used]).min(initial=1.0))
    assert x.sum() >= worst * taken.sum() - 1e-9


@settings(max_examples=examples(150), deadline=None)
@given(cases())
def test_every_path_is_blocked_afterwards(case):
    """By a link that is full, or because its demand is served."""
    topology, paths, volume, *_ = case
    x = repaired(*case)[3]
    left = topology.capacity - incidence(topology, paths) @ x
    lack = volume - membership(paths) @ x
    for path in range(paths.n_paths):
        links = paths.link[paths.pointer[path] : paths.pointer[path + 1]]
        assert min(left[links].min(), lack[paths.pair[path]]) <= 1e-6 * max(1.0, volume.mean())


@settings(max_examples=examples(100), deadline=None)
@given(cases())
def test_the_gap_is_the_one_to_the_certified_bound_and_holds(case):
    topology, paths, volume, *_ = case
    _, solution, rounded, x = repaired(*case)
    largest = max(x.sum(), -solution.bound) or 1.0
    assert rounded.gap == pytest.approx((rounded.objective - solution.bound) / largest)
    optimum = best_flow(topology, paths, volume, topology.capacity)
    assert x.sum() <= optimum + 1e-7
    assert optimum - x.sum() <= rounded.gap * largest + 1e-7


@settings(max_examples=examples(60), deadline=None)
@given(cases())
def test_an_optimal_flow_stays_as_it_is(case):
    topology, paths, volume, *_ = case
    traffic = TrafficEngineering(topology, paths)
    traffic.set_volumes(volume)
    done = traffic.play(make_solver("highs-simplex", tolerance=1e-9))
    assert done.flows.extras["total_flow"] == pytest.approx(
        best_flow(topology, paths, volume, topology.capacity), abs=1e-6
    )
    assert done.flows.gap <= 1e-6


def repaired_line(sent, price, volumes=(10.0, 10.0, 4.0)):
    """Flows a -> b, b -> c and a -> c on links of 10, each with its volume; all flows after the repair."""
    topology, paths = line(10.0)
    pairs = TrafficEngineering(topology, paths).pairs([0, 1, 0], [1, 2, 2])
    volume, x = np.zeros(paths.n_pairs), np.zeros(paths.n_paths)
    volume[pairs] = volumes
    x[paths.first[pairs]] = sent
    flows = repaired(topology, paths, volume, x, np.full(topology.n_links, price))[3]
    assert (incidence(topology, paths) @ flows <= 10.0 + 1e-12).all()
    return flows, flows[paths.first[pairs]]


def test_the_flow_that_uses_most_of_what_is_scarce_is_cut():
    """a -> c takes both links; cut it, and both others keep all of theirs."""
    assert repaired_line([10.0, 10.0, 4.0], 1.0)[1] == pytest.approx([10.0, 10.0, 0.0])


def test_a_slight_overload_is_cut_and_costs_no_more_than_itself():
    flows, _ = repaired_line([9.0 + 1e-7, 9.0, 1.0], 1.0)
    assert flows.sum() >= 19.0 - 1e-7


def test_only_as_much_is_cut_as_a_link_needs():
    flows, _ = repaired_line([7.0, 0.0, 4.0], 0.0, volumes=(10.0, 0.0, 4.0))
    assert flows.sum() == pytest.approx(10.0)
    assert sorted(flows[flows > 0]) == pytest.approx([3.0, 7.0])


@settings(max_examples=examples(100), deadline=None)
@given(cases())
def test_every_demand_is_served_exactly_at_the_reported_utilisation(case):
    topology, paths, volume, flows, prices = case
    traffic = TrafficEngineering(topology, paths, "min-mlu")
    traffic.set_volumes(volume)
    rounded = traffic.shim.round(traffic.program, claimed(traffic, flows))
    x = traffic.path_flows(rounded)
    served = volume.copy()
    served[traffic.cut] = 0.0
    assert (x >= 0).all()
    assert membership(paths) @ x == pytest.approx(served, abs=1e-9)
    load = incidence(topology, paths) @ x
    dead = topology.capacity == 0
    assert (load[dead] == 0).all()
    share = load[~dead] / topology.capacity[~dead]
    assert rounded.extras["mlu"] == pytest.approx(share.max(initial=0.0))
    assert traffic.check(x).mlu == pytest.approx(rounded.objective)


def test_a_demand_without_any_live_path_makes_the_utilisation_infinite():
    """The model cuts such demands; a program made by hand may hold one."""
    program = ContinualProgram()
    program.add_resource("link", 0.0)
    program.add_request("theta", [1.0], {}, upper=1e3)
    program.add_request("demand", [0.0], {"link": 1.0}, total=1.0, relation="==")
    x = SparseX(np.array([1]), np.array([0]), np.array([1.0]))
    solution = make_solution(
        program, x, np.zeros(64)[: program.store.rows.size], status=Status.DEADLINE, reason="",
        iterations=0, timings=Timings(), warm=Start(False, ""),
    )  # fmt: skip
    assert UtilisationShim().round(program, solution).extras["mlu"] == np.inf


def test_a_solution_of_before_an_edit_is_refused():
    topology, paths = line()
    traffic = TrafficEngineering(topology, paths)
    traffic.set_volumes(1.0)
    solution = make_solver("highs-simplex").solve(traffic.program)
    traffic.set_volumes(2.0)
    with pytest.raises(CopterError, match="edited after this solution"):
        traffic.shim.round(traffic.program, solution)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda p: p.update_resources("link", lower=1.0), "resource 'link'"),
        (lambda p: p.add_request("free", [-1.0], {"link": 1.0}, upper=1.0), "request 'free'"),
        (lambda p: p.add_request("odd", [-1.0], {"link": -1.0}, total=1.0), "negative coefficient"),
    ],
)
def test_programs_that_are_no_flow_problems_are_refused(change, said):
    program = ContinualProgram()
    program.add_resource("link", 5.0)
    program.add_request("demand", [-1.0], {"link": 1.0}, total=2.0)
    change(program)
    solution = make_solver("highs-simplex").solve(program)
    with pytest.raises(CopterError, match=said):
        FlowShim().round(program, solution)


def small_changes(seed, requests=4000):
    """Packing rounds of one changed total or cost each, with the answers of a solver that keeps its state."""
    rng = np.random.default_rng(seed)
    program, solver = ContinualProgram(), make_solver("copter", tolerance=1e-6)
    rows = 12
    for row in range(rows):
        program.add_resource(row, upper=float(rng.uniform(0.025, 0.075)) * requests)
    for request in range(requests):
        usage = {
            row: rng.integers(0, 2, 3) * rng.uniform(0.5, 1.5) for row in rng.choice(rows, 3, replace=False)
        }
        program.add_request(
            request, -rng.uniform(1, 2, 3), usage, upper=5.0, total=float(rng.uniform(0.2, 2))
        )
    for number in range(16):
        if number:
            change = (
                {"total": float(rng.uniform(0.2, 2))} if number % 2 else {"scale": float(rng.uniform(1, 2))}
            )
            program.update_request(int(rng.integers(requests)), **change)
        yield program, solver.solve(program)


@pytest.mark.parametrize("seed", seeds(1, 3))
def test_rounds_of_few_changes_are_mended_feasible_and_as_good_as_made_anew(seed):
    shim, mended = FlowShim(), 0
    for program, solution in small_changes(seed):
        began = perf_counter()
        flows = shim.round(program, solution)
        assert 0.0 < flows.seconds <= perf_counter() - began
        mended += shim._made.rounds > 0
        lp = program.to_arrays()  # three columns a request; rows, then totals
        position = {slot: k for k, slot in enumerate(program.request_slots.tolist())}
        x = np.zeros(3 * len(program))
        for slot, column, value in zip(*flows.nonzeros, strict=True):
            x[3 * position[int(slot)] + column] = value
        assert (x >= 0).all() and (x <= 5.0).all()
        load = lp.A @ x
        assert (load <= lp.row_upper * (1 + 1e-12)).all()
        np.testing.assert_allclose(flows.load[program.resource_slots], load[:12], rtol=1e-12)
        assert flows.objective == pytest.approx(lp.c @ x, rel=1e-12)
        assert flows.extras["total_flow"] == pytest.approx(x.sum(), rel=1e-12)
        size = max(abs(flows.objective), abs(solution.bound))
        assert flows.gap == pytest.approx((flows.objective - solution.bound) / size, abs=1e-15)
        anew = FlowShim().round(program, solution)
        assert flows.objective == pytest.approx(anew.objective, rel=1e-4)
        again = shim.round(program, solution)
        np.testing.assert_allclose(again.load, flows.load, rtol=1e-14)
        twin = copy.deepcopy(shim)
        assert twin.round(program, solution).objective == pytest.approx(anew.objective, rel=1e-9)
    assert mended > 6


def test_a_shim_that_sees_another_program_forgets_the_last():
    shim, objectives = FlowShim(), []
    for seed in (0, 1, 0, 1):
        program, solution = next(small_changes(seed, 500))
        objectives.append(shim.round(program, solution).objective)
        assert shim._made.rounds == 0
    assert objectives[:2] == objectives[2:]
