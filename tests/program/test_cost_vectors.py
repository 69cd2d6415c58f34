"""Programs whose requests share cost vectors, and their twins with costs of each request's own."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from copter import ChooseOneShim, ContinualProgram, EditError, FlowShim, LogTerm, make_solver
from copter.durable.soundness import check_program
from copter.store.compiled import compile_program
from support.strategies import snapshot

ROWS = ("a", "b", "c")


class Twins:
    """A program with vectors and one without, given the same edits."""

    def __init__(self, seed: int) -> None:
        self.rng = np.random.default_rng(seed)
        self.shared, self.own = ContinualProgram(), ContinualProgram()
        self.kinds = []  # (vector, its costs, template in each)
        self.count = 0
        for program in self.both:
            program.add_resources(ROWS, upper=[9.0, 7.0, 8.0])
        for n in (3, 12, 30):
            usage = {row: self.rng.integers(0, 3, n) * (np.arange(n) > 0) for row in ROWS}
            for _ in range(2):
                costs = -self.rng.random(n) - 0.1
                templates = [program.share_columns(usage, n) for program in self.both]
                self.kinds.append((self.shared.share_costs(costs), costs, templates))

    @property
    def both(self):
        return self.shared, self.own

    def override(self, n):
        columns = self.rng.choice(n, self.rng.integers(0, 3), replace=False).tolist()
        return {j: float(-self.rng.random()) for j in columns}

    def add(self) -> None:
        vector, costs, templates = self.kinds[self.rng.integers(len(self.kinds))]
        options = {"scale": float(np.exp(self.rng.normal())), "override": self.override(costs.size)}
        options |= {"total": 1.0, "relation": "==" if self.rng.random() < 0.5 else "<="}
        if options["relation"] == "==":  # the first column, which uses nothing, so that all stays feasible
            options["upper"] = np.where(np.arange(costs.size) == 0, np.inf, 1.0)
        for program, given_costs, usage in zip(self.both, (vector, costs), templates, strict=True):
            program.add_request(self.count, given_costs, usage, **options)
        self.count += 1

    def some(self):
        ids = self.shared.request_ids
        return [ids[k] for k in self.rng.choice(len(ids), min(len(ids), 3), replace=False).tolist()]

    def edit(self) -> None:
        ids, what = self.some(), self.rng.integers(6)
        sizes = [self.own.requests[id].costs.size for id in ids]
        if what == 0:
            self.add()
        elif what == 1 and len(self.own) > 4:
            self._all("remove_requests", ids)
        elif what == 2:
            self._all("update_requests", ids, scales=np.exp(self.rng.normal(size=len(ids))))
        elif what == 3:
            self._all("update_requests", ids, overrides=[self.override(n) for n in sizes])
        elif what == 4:  # from a vector to costs of their own
            self._all("update_requests", ids, costs=[-self.rng.random(n) for n in sizes])
        else:  # and back
            fitting = [next(kind for kind in self.kinds if kind[1].size == n) for n in sizes]
            self.shared.update_requests(ids, costs=[vector for vector, _, _ in fitting])
            self.own.update_requests(ids, costs=[costs for _, costs, _ in fitting])

    def _all(self, verb, *args, **kwargs) -> None:
        for program in self.both:
            getattr(program, verb)(*args, **kwargs)


@settings(max_examples=15, deadline=None)
@given(seed=st.integers(0, 10**6))
def test_twins_have_the_same_columns_and_optima_whatever_was_edited(seed):
    twins = Twins(seed)
    for _ in range(12):
        twins.add()
    solver, hot = make_solver("copter", tolerance=1e-7), make_solver("highs-hot")
    for _ in range(6):
        twins.edit()
        check_program(twins.shared)
        built, wanted = (compile_program(program) for program in twins.both)
        np.testing.assert_allclose(built.c, wanted.c, rtol=1e-14)
        np.testing.assert_array_equal(built.A.toarray(), wanted.A.toarray())
        for id in twins.own.request_ids:
            np.testing.assert_allclose(
                twins.shared.requests[id].base_costs, twins.own.requests[id].base_costs, rtol=1e-14
            )
        best = make_solver("highs-simplex").solve(twins.own)
        assert best.status == "optimal"
        for answer in (solver.solve(twins.shared), hot.solve(twins.shared)):
            assert answer.objective == pytest.approx(best.objective, rel=1e-6, abs=1e-6)
            assert answer.bound <= best.objective + 1e-9 * abs(best.objective)


def test_twins_lack_the_same_where_nothing_is_feasible():
    twins = Twins(2)
    for _ in range(12):
        twins.add()
    used = [twins.own.requests[id].usage["b"][1].max() for id in twins.own.request_ids]
    for program in twins.both:
        for row in ROWS:  # more of b than all can use if each takes the column with most of it
            program.update_resources(row, upper=np.inf, lower=sum(used) + 3.0 if row == "b" else -np.inf)
        for name in ("copter", "highs-hot"):
            answer = make_solver(name).solve(program)
            assert answer.status == "infeasible"
            assert answer.ray.y["b"] < 0.0 and answer.ray.value == pytest.approx(-3.0 * answer.ray.y["b"])
        program.update_resources("b", lower=sum(used))
        assert make_solver("copter").solve(program).status == "optimal"


def test_shims_round_as_with_own_costs():
    twins = Twins(4)
    for _ in range(25):
        twins.add()
    for id in twins.own.request_ids:
        twins._all("update_request", id, relation="<=", upper=np.inf)
    for shim in (ChooseOneShim(), FlowShim()):
        solved = [(program, make_solver("copter", tolerance=1e-9).solve(program)) for program in twins.both]
        shared, own = (shim.round(*each).objective for each in solved)
        assert own < 0.0 and shared == pytest.approx(own, rel=1e-12)


def test_a_convex_term_beside_shared_costs():
    twins = Twins(1)
    vector, costs, templates = twins.kinds[2]
    for q in range(5):
        term = LogTerm(1.0 + q, 0.5, image=np.arange(1.0, costs.size + 1))
        for program, given_costs, usage in zip(twins.both, (vector, -costs), templates, strict=True):
            own = given_costs if program is twins.own else program.share_costs(-costs)
            program.add_request(q, own, usage, total=2.0, override={1: 0.2}, term=term, scale=1.0 + q)
    shared, own = (make_solver("copter", tolerance=1e-8).solve(program) for program in twins.both)
    assert shared.status == own.status == "optimal"
    assert shared.objective == pytest.approx(own.objective, rel=1e-7)


def test_a_vector_lives_as_long_as_it_is_named_or_used():
    program = ContinualProgram()
    vector = program.share_costs([1.0, 2.0])
    program.add_requests(["p", "q"], vector, None, [{}, {}], totals=1.0)
    assert program.shared_costs == [vector] and program.requests["q"].shared_costs == vector
    program.forget(vector)
    assert program.shared_costs == [] and program.requests["q"].shared_costs is None
    assert program.requests["q"].costs.tolist() == [1.0, 2.0]
    program.remove_request("p")
    check_program(program)
    program.update_request("q", costs=[3.0, 4.0])
    assert not program.store.vectors.n_columns.any() and program.requests["q"].costs.tolist() == [3.0, 4.0]
    check_program(program)


def test_costs_move_together_when_the_pool_is_compacted():
    program = ContinualProgram()
    program.add_resource("r", 1.0)
    wide = [program.share_costs(np.arange(3000.0) + k) for k in range(4)]
    usage = program.share_columns({"r": 1.0}, 3000)
    overrides = [{k: -1.0} for k in range(8)]
    program.add_requests(range(8), 2 * wide, None, usage, overrides=overrides)
    program.add_request("own", np.arange(3000.0) - 7.0, usage)
    before, used = (
        {id: program.requests[id].costs.tolist() for id in program.request_ids},
        program.store.costs.used,
    )
    for vector in wide[:3]:
        program.forget(vector)
    program.remove_requests([0, 4, 1, 5, 2, 6])
    assert program.store.costs.used < used
    check_program(program)
    assert all(program.requests[id].costs.tolist() == before[id] for id in program.request_ids)


def test_errors_name_the_request_and_change_nothing():
    program, other = ContinualProgram(), ContinualProgram()
    vector, strange = program.share_costs([1.0, 2.0]), other.share_costs([1.0, 2.0])
    program.add_request("q", vector, {})
    program.add_request("wide", [1.0, 2.0, 3.0], {})
    before = snapshot(program)
    for subject, field, verb in (
        ("shared costs", "costs", lambda: program.share_costs([1.0, np.nan])),
        ("shared costs", "costs", lambda: program.share_costs([])),
        ("forget", "costs", lambda: program.forget(strange)),
        ("n", "costs", lambda: program.add_request("n", strange, {})),
        ("add_requests", "costs", lambda: program.add_requests(["n", "m"], strange, None, [{}, {}])),
        ("m", "costs", lambda: program.add_requests(["n", "m"], [vector, strange], None, [{}, {}])),
        ("m", "costs", lambda: program.add_requests(["n", "m"], [vector, [1.0, 2.0]], None, [{}, {}])),
        ("add_requests", "costs", lambda: program.add_requests(["n", "m"], [vector], None, [{}, {}])),
        ("m", "sizes", lambda: program.add_requests(["n", "m"], vector, [2, 3], [{}, {}])),
        ("wide", "costs", lambda: program.update_request("wide", costs=vector)),
        ("wide", "costs", lambda: program.update_requests(["q", "wide"], costs=vector)),
    ):
        with pytest.raises(EditError) as caught:
            verb()
        assert (caught.value.subject, caught.value.field) == (subject, field)
        assert snapshot(program) == before
